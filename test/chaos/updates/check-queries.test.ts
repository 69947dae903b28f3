/** Queries and alerts as checks: with a real kube-apiserver, Prometheus and Alertmanager. */
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { NO_CHECKS } from '../../../packages/controller/src/testing/checks.ts';
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
import { configure, HEALTHY_AT_ONCE } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { GAUGE, type Monitoring, OBTAIN_LIMIT_MS, startMonitoring } from '../../framework/monitoring/real.ts';

jest.setTimeout(180_000);

const LIMIT = { limitMs: 60_000, pauseMs: 100 };
const PAGE = { alertname: 'NodesDown', severity: 'critical' };
const config: BrupopConfigSpec = {
  health: {
    checks: [
      { name: 'errors', when: ['Before', 'After'], prometheus: { query: `${GAUGE} == bool 0` } },
      { name: 'pages', when: ['Before'], alerts: { filter: ['severity="critical"'] } },
    ],
  },
};

let monitoring: Monitoring;
let cluster: ControlPlane;
let replica: Replica;
let agents: Agents;
const names: string[] = [];

beforeAll(async () => {
  monitoring = await startMonitoring();
  await monitoring.setGauge(0);
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  const prometheus = { url: monitoring.prometheusUrl, credentials: '' };
  const alertmanager = { url: monitoring.alertmanagerUrl, credentials: '' };
  const checks = { ...NO_CHECKS, prometheus, alertmanager };
  replica = await startReplica(cluster, serviceAccountDir, { checks });
  agents = playAgents(cluster);
  await configure(cluster, { ...HEALTHY_AT_ONCE, ...config });
}, OBTAIN_LIMIT_MS);

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
  const asked = await monitoring.queries();
  expect(asked).toBeGreaterThan(0);
  await sleep(16_000);
  const afterwards = await monitoring.queries();
  await sleep(20_000);
  expect(await monitoring.queries()).toBe(afterwards);
});

it('a query that does not pass keeps a node from starting, until it passes', async () => {
  await monitoring.setGauge(3);
  await member('closed');
  expect(await untilItWaits('closed')).toMatch(
    /^The check errors does not pass: the query is 0 for \{instance="127\.0\.0\.1:\d+", job="app"\}/u,
  );
  await monitoring.setGauge(0);
  await untilUpdated('closed');
});

it('an active alert keeps a node from starting, until a user silences it', async () => {
  await monitoring.fireAlert(PAGE);
  await member('paged');
  expect(await untilItWaits('paged')).toBe('The check pages does not pass: these alerts are active: NodesDown');
  const endSilence = await monitoring.silence('severity', 'critical');
  await untilUpdated('paged');
  await monitoring.resolveAlert(PAGE);
  await endSilence();
});

it('a Prometheus that cannot be reached keeps a node from starting, until it can', async () => {
  await sleep(16_000);
  await monitoring.prometheus.stop();
  await member('cut');
  expect(await untilItWaits('cut')).toMatch(/^The check errors does not pass: GET .*: .*ECONNREFUSED/u);
  await monitoring.prometheus.restart();
  await untilUpdated('cut');
});

it('a query that does not pass after the update keeps the node from having succeeded, until it passes', async () => {
  await member('after');
  await eventually(async () => expect((await readShadow(cluster, 'after')).spec.state).not.toBe('Idle'), LIMIT);
  await monitoring.setGauge(1);
  await eventually(async () => {
    const { spec, status } = await readShadow(cluster, 'after');
    expect(spec.state).toBe('MonitoringUpdate');
    const problem = 'is not healthy yet: the check errors does not pass: the query is 0 for';
    expect(status?.conditions?.find(({ type }) => type === 'Progressing')?.message).toContain(problem);
  }, LIMIT);
  await monitoring.setGauge(0);
  await untilUpdated('after');
});
