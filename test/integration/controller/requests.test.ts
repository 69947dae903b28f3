/** What users ask of one node with annotations of its shadow, with a controller on a real API server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { CoreV1EventList } from '@kubernetes/client-node';
import {
  ABORT_ANNOTATION,
  AGENT,
  RECORD_ANNOTATION,
  RETRY_ANNOTATION,
  shadowName,
  SKIP_ANNOTATION,
  UPDATE_NOW_ANNOTATION,
} from '../../../packages/shared/src/api/names.ts';
import { type NodeRecord, readRecord, recordText } from '../../../packages/shared/src/api/record.ts';
import { rfc3339 } from '../../../packages/shared/src/runtime/clock.ts';
import { createWorkload } from '../../framework/apiserver/cluster.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  createMember,
  newVersion,
  oldVersion,
  readShadow,
  report,
  shadowsPath,
} from '../../framework/controller/agents.ts';
import { configure, HEALTHY_AT_ONCE } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { startReplica, type Replica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

let cluster: ControlPlane;
let replica: Replica;

const CLOSED = { maintenance: { windows: [{ schedule: '0 0 29 2 *', duration: '1m' }] } };

beforeAll(async () => {
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  await createWorkload(cluster, releaseNamespace, 'DaemonSet', AGENT);
  await configure(cluster, { ...HEALTHY_AT_ONCE, ...CLOSED });
  replica = await startReplica(cluster, serviceAccountDir);
});

afterAll(async () => {
  await replica.stop();
  await cluster.stop();
});

async function ask(node: string, annotations: Readonly<Record<string, string>>): Promise<void> {
  await cluster.api.patch(`${shadowsPath}/${shadowName(node)}`, { metadata: { annotations } });
}

async function waitForReason(node: string, reason: string): Promise<void> {
  await eventually(async () => {
    const conditions = (await readShadow(cluster, node)).status?.conditions ?? [];
    expect(conditions.find(({ type }) => type === 'Progressing')?.reason).toBe(reason);
  });
}

async function waitForState(node: string, state: string): Promise<number> {
  return await eventually(async () => {
    const { spec, metadata } = await readShadow(cluster, node);
    expect(spec.state).toBe(state);
    return metadata.generation ?? 0;
  });
}

async function requestsOf(node: string): Promise<string[]> {
  const { annotations = {} } = (await readShadow(cluster, node)).metadata;
  return [ABORT_ANNOTATION, RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION].filter((name) => annotations[name] !== undefined);
}

async function eventsOf(node: string, reason: string): Promise<string[]> {
  const query = new URLSearchParams({ fieldSelector: `involvedObject.name=${node},reason=${reason}` });
  const { items } = await cluster.api.get<CoreV1EventList>(`/api/v1/namespaces/default/events?${query.toString()}`);
  return items.map(({ message = '' }) => message);
}

/** Writes of the operator to the shadow of a node that succeeded. */
async function writesTo(node: string, position: number): Promise<number> {
  const made = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
  return made.filter(
    ({ verb, resource, name, status }) =>
      verb === 'patch' && resource === 'bottlerocketshadows' && name === shadowName(node) && status === 200,
  ).length;
}

it('a node starts outside of the windows on request, is aborted on request, and waits for a retry', async () => {
  await createMember(cluster, 'asked');
  await waitForReason('asked', 'OutsideMaintenanceWindow');
  await ask('asked', { [UPDATE_NOW_ANNOTATION]: newVersion });
  await waitForState('asked', 'StagedAndPerformedUpdate');
  expect(await requestsOf('asked')).toEqual([]);
  expect(readRecord((await readShadow(cluster, 'asked')).metadata)).toMatchObject({ updateNow: true });

  await ask('asked', { [ABORT_ANNOTATION]: 'true' });
  const generation = await waitForState('asked', 'Idle');
  await report(cluster, 'asked', { current_state: 'Idle', observedGeneration: generation });
  await waitForReason('asked', 'Aborted');
  expect(await requestsOf('asked')).toEqual([]);
  expect(readRecord((await readShadow(cluster, 'asked')).metadata)).toMatchObject({ aborted: { version: newVersion } });
  await eventually(async () => expect(await eventsOf('asked', 'UpdateAborted')).toHaveLength(1));

  await ask('asked', { [UPDATE_NOW_ANNOTATION]: newVersion, [RETRY_ANNOTATION]: newVersion });
  await waitForState('asked', 'StagedAndPerformedUpdate');
  expect(await requestsOf('asked')).toEqual([]);
});

it('each request that cannot be followed is removed with one write and one Event', async () => {
  await createMember(cluster, 'refused');
  await waitForReason('refused', 'OutsideMaintenanceWindow');
  const position = await auditPosition(cluster.auditLogPath);
  const values: [annotation: string, value: string, reason: string][] = [
    [ABORT_ANNOTATION, '', 'AbortRefused'],
    [ABORT_ANNOTATION, 'true', 'AbortRefused'],
    [ABORT_ANNOTATION, 'x'.repeat(100_000), 'AbortRefused'],
    [UPDATE_NOW_ANNOTATION, '', 'UpdateNowRefused'],
    [UPDATE_NOW_ANNOTATION, '1'.repeat(100_000), 'UpdateNowRefused'],
    [UPDATE_NOW_ANNOTATION, '9.9.9', 'UpdateNowRefused'],
    [UPDATE_NOW_ANNOTATION, oldVersion, 'UpdateNowRefused'],
  ];
  for (const [annotation, value] of values) {
    await ask('refused', { [annotation]: value });
    await eventually(async () => expect(await requestsOf('refused')).toEqual([]));
  }
  await eventually(async () => {
    const told = [...(await eventsOf('refused', 'AbortRefused')), ...(await eventsOf('refused', 'UpdateNowRefused'))];
    expect(told).toHaveLength(values.length);
    expect(told.every((message) => message.length < 400)).toBe(true);
  });
  await sleep(1_500);
  expect(await writesTo('refused', position)).toBe(values.length);
  expect((await readShadow(cluster, 'refused')).spec.state).toBe('Idle');
});

describe('update-now that cannot be followed', () => {
  const DAY = 24 * 60 * 60_000;
  const recordOf = async (node: string): Promise<NodeRecord> => readRecord((await readShadow(cluster, node)).metadata);
  const isAsked = async (node: string): Promise<NonNullable<NodeRecord['asked']>> =>
    await eventually(async () => {
      const { asked } = await recordOf(node);
      if (asked === undefined) throw new Error('no controller has seen the request yet');
      return asked;
    });

  it('is removed a day after the controller has seen it, although nothing else changes', async () => {
    await createMember(cluster, 'held', newVersion, { [SKIP_ANNOTATION]: 'disk is slow' });
    await waitForReason('held', 'Skipped');
    const position = await auditPosition(cluster.auditLogPath);
    await ask('held', { [UPDATE_NOW_ANNOTATION]: newVersion });
    expect((await isAsked('held')).version).toBe(newVersion);
    await sleep(1_500);
    expect(await writesTo('held', position)).toBe(1);
    expect(await requestsOf('held')).toEqual([UPDATE_NOW_ANNOTATION]);

    const end = Math.ceil(Date.now() / 1_000) * 1_000 + 3_000;
    const asked = { version: newVersion, at: rfc3339(end - DAY) };
    await ask('held', { [RECORD_ANNOTATION]: recordText({ ...(await recordOf('held')), asked }) ?? '' });
    await sleep(1_500);
    expect(await requestsOf('held')).toEqual([UPDATE_NOW_ANNOTATION]);
    await eventually(async () => expect(await requestsOf('held')).toEqual([]));
    expect(Date.now()).toBeGreaterThanOrEqual(end);
    expect((await recordOf('held')).asked).toBeUndefined();
    await eventually(async () =>
      expect(await eventsOf('held', 'UpdateNowRefused')).toEqual([
        expect.stringMatching(/has expired after 24 hours\. Remove the cause.*Skipped: .*disk is slow/u),
      ]),
    );
    await sleep(1_500);
    expect(await writesTo('held', position)).toBe(2);
  });

  it('is forgotten when its user removes it, so that the next one waits for a day', async () => {
    await createMember(cluster, 'fickle', newVersion, { [SKIP_ANNOTATION]: 'true' });
    await waitForReason('fickle', 'Skipped');
    await ask('fickle', { [UPDATE_NOW_ANNOTATION]: newVersion });
    await isAsked('fickle');
    await cluster.api.patch(`${shadowsPath}/${shadowName('fickle')}`, {
      metadata: { annotations: { [UPDATE_NOW_ANNOTATION]: null } },
    });
    await eventually(async () => expect((await recordOf('fickle')).asked).toBeUndefined());
    const before = Math.floor(Date.now() / 1_000) * 1_000;
    await ask('fickle', { [UPDATE_NOW_ANNOTATION]: newVersion });
    expect(Date.parse((await isAsked('fickle')).at)).toBeGreaterThanOrEqual(before);
  });
});
