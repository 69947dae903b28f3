/** Queries and alerts as checks: with a real kube-apiserver, and answers recorded from a real Prometheus and Alertmanager. */
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP } from '../../../packages/shared/src/api/names.ts';
import { NO_CHECKS } from '../../../packages/controller/src/cluster/probes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  type Agents,
  createMember,
  deleteMembers,
  newVersion,
  oldVersion,
  playAgents,
  readShadow,
} from '../../framework/controller/agents.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { StandInMonitoring } from '../../framework/monitoring/stand-in.ts';

jest.setTimeout(180_000);

const LIMIT = { limitMs: 60_000, pauseMs: 100 };
const OPEN = { query: 'up == bool 1', alerts: 'severity="info"' };
const config: BrupopConfigSpec = {
  health: {
    checks: [
      { name: 'errors', when: ['Before', 'After'], prometheus: { query: 'up == bool 1' } },
      { name: 'pages', when: ['Before'], alerts: { filter: ['severity="critical"'] } },
    ],
  },
};
const monitoring = new StandInMonitoring();

let cluster: ControlPlane;
let replica: Replica;
let agents: Agents;
const names: string[] = [];

beforeAll(async () => {
  await monitoring.start();
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  const source = { url: monitoring.url, credentials: '' };
  const checks = { ...NO_CHECKS, prometheus: source, alertmanager: source };
  replica = await startReplica(cluster, serviceAccountDir, { checks });
  agents = playAgents(cluster);
  const path = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}/${CONFIG_NAME}?fieldManager=user&force=true`;
  const body = {
    apiVersion: `${GROUP}/${CONFIG_VERSION}`,
    kind: 'BrupopConfig',
    metadata: { name: CONFIG_NAME },
    spec: { monitoring: { healthyFor: '0s' }, ...config },
  };
  await cluster.api.request('PATCH', path, body, 'application/apply-patch+yaml');
});

beforeEach(() => Object.assign(monitoring, OPEN));

afterEach(async () => await deleteMembers(cluster, names.splice(0)));

afterAll(async () => {
  await agents.stop();
  await replica.stop();
  await cluster.stop();
  await monitoring.stop();
});

async function member(name: string): Promise<void> {
  names.push(name);
  await createMember(cluster, name);
}

async function untilUpdated(name: string): Promise<void> {
  await eventually(async () => {
    const { spec, status } = await readShadow(cluster, name);
    expect([spec.state, status?.current_version]).toEqual(['Idle', newVersion]);
  }, LIMIT);
}

/** Waits until the node does, and returns the message. */
async function untilItWaits(name: string): Promise<string> {
  return await eventually(async () => {
    const { spec, status } = await readShadow(cluster, name);
    const { reason, message = '' } = status?.conditions?.find(({ type }) => type === 'Progressing') ?? {};
    expect([spec.state, status?.current_version, reason]).toEqual(['Idle', oldVersion, 'CheckNotPassed']);
    return message;
  }, LIMIT);
}

it('checks that pass let a node be updated, and nothing is asked at rest', async () => {
  await member('open');
  await untilUpdated('open');
  expect(monitoring.requests).toBeGreaterThan(0);
  await sleep(16_000);
  const { requests } = monitoring;
  await sleep(20_000);
  expect(monitoring.requests).toBe(requests);
});

it('a query that does not pass keeps a node from starting, until it passes', async () => {
  monitoring.query = 'up < bool 1';
  await member('closed');
  expect(await untilItWaits('closed')).toMatch(
    /^The check errors does not pass: the query is 0 for \{instance="127\.0\.0\.1:9090"/u,
  );
  monitoring.query = OPEN.query;
  await untilUpdated('closed');
});

it('an active alert keeps a node from starting, until a user silences it', async () => {
  monitoring.alerts = 'severity="critical"';
  await member('paged');
  expect(await untilItWaits('paged')).toBe('The check pages does not pass: these alerts are active: NodesDown');
  monitoring.alerts = 'severity="critical", silenced';
  await untilUpdated('paged');
});

it('a Prometheus that cannot be reached keeps a node from starting, until it can', async () => {
  await sleep(16_000);
  await monitoring.stop();
  await member('cut');
  expect(await untilItWaits('cut')).toMatch(/^The check errors does not pass: GET .*: .*ECONNREFUSED/u);
  await monitoring.start();
  await untilUpdated('cut');
});

it('a query that does not pass after the update keeps the node from having succeeded, until it passes', async () => {
  await member('after');
  await eventually(async () => expect((await readShadow(cluster, 'after')).spec.state).not.toBe('Idle'), LIMIT);
  monitoring.query = 'no_such_series';
  await eventually(async () => {
    const { spec, status } = await readShadow(cluster, 'after');
    expect(spec.state).toBe('MonitoringUpdate');
    const problem = 'is not healthy yet: the check errors does not pass: the query returned no series';
    expect(status?.conditions?.find(({ type }) => type === 'Progressing')?.message).toContain(problem);
  }, LIMIT);
  monitoring.query = OPEN.query;
  await untilUpdated('after');
});
