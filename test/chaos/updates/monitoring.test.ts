/** The metrics, dashboards and alerts in a real Prometheus that watches a fleet. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { installCrds } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';
import { Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { incidents, timeIn } from '../../framework/fleet/incidents.ts';
import { createWorkloads } from '../../framework/fleet/workloads.ts';
import { NEW, OLD } from '../../framework/fleet/with-fleet.ts';
import { filledIn, readDashboards } from '../../framework/monitoring/dashboards.ts';
import { ALERTS_FILE, FleetPrometheus, readAlerts } from '../../framework/monitoring/fleet-prometheus.ts';
import { OBTAIN_LIMIT_MS } from '../../framework/monitoring/real.ts';

jest.setTimeout(600_000);

/** Longer than the alert of a blocked drain waits. */
const INCIDENT_MS = 30_000;
const DAY_MS = 86_400_000;
/** So that it is known when the fleet may no longer update. */
const config: BrupopConfigSpec = { maintenance: { blackouts: [{ from: timeIn(DAY_MS), to: timeIn(2 * DAY_MS) }] } };
/** What nothing in the run counts. */
const WITHOUT_VALUES = [
  'Errors: watches of controllers: {{resource}}',
  'Errors: watches of API servers: {{resource}}',
  'Errors: Events dropped',
  'Authentication: closed: {{limit}}',
  'Windows, blackouts, pauses, freezes and holds: Held {{version}}',
  'annotation Held',
];

/** Metrics of what the fleet does not have. */
const WITHOUT_SERIES = [
  'brupop_dependents',
  'brupop_held_versions',
  'brupop_notification_receiver_ready',
  'brupop_controller_silences_ready',
];

let cluster: ControlPlane;
let fleet: Fleet;
let namespace = '';
let prometheus: FleetPrometheus;
let startedAt = 0;

beforeAll(async () => {
  cluster = await startControlPlane();
  fleet = await Fleet.start({ cluster, nodes: fleetNodes(5), version: OLD, repository: [OLD, NEW] });
  namespace = await createNamespace(cluster, 'shop');
  await createWorkloads(cluster, { namespace, webReplicas: 5, storeReplicas: 2 });
  await installCrds(cluster);
  await fleet.configure({ ...config, paused: true });
  await fleet.operator.install({ 'agent.updateCheckIntervalSeconds': 60, 'tls.mode': 'self' });
  await eventually(assertLed, { limitMs: 60_000 });
  startedAt = Date.now() / 1000;
  prometheus = await FleetPrometheus.start(fleet);
}, OBTAIN_LIMIT_MS);

afterAll(async () => {
  await prometheus.stop();
  await fleet.stop();
  await cluster.stop();
});

function assertLed(): void {
  if (fleet.observer.leader() === undefined) throw new Error('no controller is the leader');
}

/** The alerts that fired since the start. */
async function fired(): Promise<string[]> {
  const series = await prometheus.queryRange('max by (alertname) (ALERTS{alertstate="firing"})', startedAt);
  return series.map(({ metric }) => metric['alertname'] ?? '').toSorted();
}

it('promtool finds nothing wrong with the metrics of the programs', async () => {
  const texts = await eventually(async () => {
    const found = await prometheus.scraped();
    expect(found).toHaveLength(5);
    return found;
  });
  for (const text of texts) {
    const own = text.split('\n').filter((line) => /^(?:# \w+ )?brupop_/u.test(line));
    expect(own.length).toBeGreaterThan(10);
    execFileSync(prometheus.promtool, ['check', 'metrics'], { input: `${own.join('\n')}\n` });
  }
});

it('no alert fires over a whole rollout', async () => {
  await fleet.configure(config);
  await fleet.untilAllRun(NEW);
  await eventually(async () => {
    const [done] = await prometheus.query('sum(brupop_rollout_nodes{phase="UpToDate"})');
    expect(done?.value?.[1]).toBe('5');
  });
  expect(await fired()).toEqual([]);
});

it('the alerts of a pause, a blocked drain and a version that fails fire, and no others', async () => {
  await incidents({ cluster, fleet, namespace }, { forMs: INCIDENT_MS, config, say: () => undefined });
  expect(await fired()).toEqual([
    'BrupopDrainBlocked',
    'BrupopNodeStuck',
    'BrupopVersionFailing',
    'BrupopVersionFrozen',
  ]);
});

const panels = readDashboards().flatMap(({ uid, panels, annotations }) => [
  ...panels.flatMap(({ title, targets }) =>
    targets.map(({ expr, legendFormat }) => [uid, `${title}: ${legendFormat}`, expr] as const),
  ),
  ...(annotations?.list ?? []).map(({ name, expr }) => [uid, `annotation ${name}`, expr] as const),
]);

it.each(panels)('%s has values for %s', async (_uid, name, expr) => {
  const series = await prometheus.queryRange(filledIn(expr), startedAt);
  const values = series.flatMap((one) => one.values ?? []).filter(([, value]) => Number.isFinite(Number(value)));
  expect(values.length > 0).toBe(!WITHOUT_VALUES.includes(name));
});

it.each(readAlerts().groups.flatMap(({ rules }) => rules.map(({ alert, expr }) => [alert, expr])))(
  'the metrics of %s exist',
  async (_alert, expr = '') => {
    // Pods that have just moved are targets for a moment.
    const scraped = (await eventually(async () => await prometheus.scraped())).join('\n');
    for (const [metric] of expr.matchAll(/brupop_\w+/gu)) {
      const series = await prometheus.queryRange(metric, startedAt);
      expect([metric, series.length > 0]).toEqual([metric, !WITHOUT_SERIES.includes(metric)]);
      expect(scraped).toContain(`# TYPE ${metric.replace(/_(?:bucket|sum|count)$/u, '')} `);
    }
  },
);

it.each([
  ['check', ALERTS_FILE],
  ['test', join(import.meta.dirname, '../../framework/monitoring/alerts.yaml')],
])('promtool %s rules: each alert is valid, and fires when it should', (verb, file) => {
  expect(execFileSync(prometheus.promtool, [verb, 'rules', file], { encoding: 'utf8' })).toContain('SUCCESS');
});
