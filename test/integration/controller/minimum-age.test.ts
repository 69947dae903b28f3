import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { VersionStatus } from '../../../packages/shared/src/api/brupop-config.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  createMember,
  deleteMembers,
  newVersion,
  oldVersion,
  readShadow,
  report,
} from '../../framework/controller/agents.ts';
import { configure, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const [liar, second, third] = ['age-0', 'age-1', 'age-2'] as const;
const nodes = [liar, second, third];

let cluster: ControlPlane;
let replica: Replica;

beforeAll(async () => {
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  await Promise.all(nodes.map(async (name) => await createMember(cluster, name, oldVersion)));
  replica = await startReplica(cluster, serviceAccountDir);
});

afterAll(async () => {
  await replica.stop();
  await deleteMembers(cluster, nodes);
  await cluster.stop();
});

/** The host of a node offers a version, as its agent says. */
async function offers(node: string, version: string): Promise<void> {
  await report(cluster, node, { target_version: version });
}

async function versionStatus(): Promise<VersionStatus | undefined> {
  const { status } = await readBrupopConfig(cluster);
  return status?.versions?.find(({ version }) => version === newVersion);
}

/** Waits until the status counts so many offers of the new version; returns since when it ages. */
async function untilOffered(count: number): Promise<string | undefined> {
  return await eventually(async () => {
    const found = await versionStatus();
    expect(found?.offered).toBe(count);
    return found?.firstOfferedTime;
  });
}

async function untilWaitingFor(node: string, expected: RegExp): Promise<void> {
  await eventually(async () => {
    const { waitingFor = '', waitingReason } = (await readShadow(cluster, node)).status ?? {};
    expect(waitingFor).toMatch(expected);
    expect(waitingReason).toBe(waitingFor.split(' ', 1)[0]);
  });
}

/** Times in the status are whole seconds. */
const wholeSeconds = (ms: number): number => ms - (ms % 1000);

it('counts the age of a version from a second node, and anew after only one is offered it', async () => {
  await configure(cluster, { versions: { minimumAge: '2s' } });
  await offers(liar, newVersion);
  expect(await untilOffered(1)).toBeUndefined();
  await sleep(5_000);
  expect(await versionStatus()).toEqual({ version: newVersion, running: 0, offered: 1 });
  await untilWaitingFor(liar, /^MinimumAgeNotReached$/u);
  expect((await readShadow(cluster, liar)).spec.state).toBe('Idle');

  await configure(cluster, { versions: { minimumAge: '24h' } });
  const confirmed = wholeSeconds(Date.now());
  await offers(second, newVersion);
  const first = Date.parse((await untilOffered(2)) ?? '');
  expect(first).toBeGreaterThanOrEqual(confirmed);
  for (const name of [liar, second]) await untilWaitingFor(name, /^MinimumAgeNotReached until \d/u);

  await offers(second, oldVersion);
  expect(await untilOffered(1)).toBeUndefined();
  await untilWaitingFor(liar, /^MinimumAgeNotReached$/u);
  await sleep(2_000);
  const again = wholeSeconds(Date.now());
  await offers(third, newVersion);
  const restarted = Date.parse((await untilOffered(2)) ?? '');
  expect(again).toBeGreaterThan(first);
  expect(restarted).toBeGreaterThanOrEqual(again);

  await configure(cluster, { versions: { minimumAge: '2s' } });
  const started = await eventually(async () => {
    const { spec } = await readShadow(cluster, liar);
    expect([spec.state, spec.version]).toEqual(['StagedAndPerformedUpdate', newVersion]);
    return Date.parse(spec.state_transition_timestamp ?? '');
  });
  expect(started - restarted).toBeGreaterThanOrEqual(2_000);
});
