/** The dashboards and alerts of the chart, held against the metrics, the reasons and the runbook. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { METRICS as APISERVER_METRICS } from '../../../packages/apiserver/src/metrics.ts';
import { METRICS as CONTROLLER_METRICS } from '../../../packages/controller/src/metrics-table.ts';
import { isReason, REASONS, traitsOf } from '../../../packages/controller/src/plan/facts/reasons.ts';
import { PROCESS_METRICS } from '../../../packages/shared/src/runtime/metrics.ts';
import { anchorsOf, codeOf, fencesOf, tablesOf } from '../markdown.ts';
import { readDashboards } from './dashboards.ts';
import { readAlerts } from './fleet-prometheus.ts';

const tables = [PROCESS_METRICS, CONTROLLER_METRICS, APISERVER_METRICS];
const labelsOf = new Map(
  tables
    .flatMap((table) => Object.values(table))
    .map(({ name, labels }) => [`brupop_${name}`, labels as readonly string[]]),
);
const dashboards = readDashboards();
const rules = readAlerts().groups.flatMap((group) => group.rules);
const expressions = [
  ...dashboards.flatMap(({ panels, annotations }) => [
    ...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
    ...(annotations?.list ?? []).map(({ expr }) => expr),
  ]),
  ...rules.map(({ expr }) => expr),
];
const reasonsIn = (expr: string): string[] =>
  [...expr.matchAll(/brupop_waiting_nodes\{[^}]*reason=~?"(?<reasons>[^"]+)"/gu)].flatMap(
    ({ groups }) => groups?.['reasons']?.split('|') ?? [],
  );

it.each(expressions)('%s: names metrics that exist, and labels that they have', (expr) => {
  for (const [, name = '', filters = ''] of expr.matchAll(/(brupop_\w+)(?:\{([^}]*)\})?/gu)) {
    const labels = labelsOf.get(name.replace(/_bucket$/u, ''));
    expect([name, labels]).toEqual([name, expect.any(Array)]);
    const asked = [...filters.matchAll(/(?:^|,)(?<label>\w+)[=!]/gu)].map(({ groups }) => groups?.['label'] ?? '');
    expect(asked.filter((label) => label !== 'cluster' && labels?.includes(label) === false)).toEqual([]);
  }
  expect(reasonsIn(expr).filter((reason) => !isReason(reason))).toEqual([]);
});

it.each(expressions.filter((expr) => / on \(/u.test(expr)))(
  '%s: joins series of one cluster: others may have the same pod IPs',
  (expr) => {
    for (const [, labels] of expr.matchAll(/ on \(([^)]*)\)/gu)) expect(labels?.split(', ')).toContain('cluster');
  },
);

it.each(expressions.filter((expr) => expr.includes(' / ')))('%s: has no value instead of NaN without nodes', (expr) => {
  expect(expr).toMatch(/ \/ \(sum\(.*\) > 0\)$/u);
});

describe.each(dashboards.map((one) => [one.uid, one] as const))('the dashboard %s', (_uid, { panels }) => {
  it('says of each panel what to do, and has each title once', () => {
    for (const { title, description } of panels)
      expect([title, description]).toEqual([title, expect.stringMatching(/\. .+\.$/u)]);
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
  });

  it('asks only the data source that a user selects', () => {
    for (const { targets } of panels)
      for (const { datasource } of targets) expect(datasource).toEqual({ type: 'prometheus', uid: '${datasource}' });
  });
});

const needed = Object.keys(REASONS).filter((reason) => isReason(reason) && traitsOf(reason).needsAttention === true);

it('the dashboard counts every reason that needs a user', () => {
  const [panel] = dashboards.flatMap(({ panels }) => panels.filter(({ title }) => title === 'Need a user'));
  expect(reasonsIn(panel?.targets[0]?.expr ?? '').toSorted()).toEqual(needed.toSorted());
});

it('the panel of what holds nodes back asks for every reason that concerns the whole fleet', () => {
  const ofMetric: Readonly<Record<string, string>> = {
    blackout: 'Blackout',
    window_open: 'OutsideMaintenanceWindow',
    paused: 'Paused',
    frozen_versions: 'Frozen',
    held_versions: 'Held',
    connectivity_lost: 'ConnectivityLost',
  };
  const [panel] = dashboards.flatMap(({ panels }) => panels.filter(({ title }) => title === 'Held back by'));
  const asked = panel?.targets.flatMap(({ expr }) => [
    ...reasonsIn(expr),
    ...[...expr.matchAll(/brupop_(?<metric>\w+)/gu)].flatMap(({ groups }) => ofMetric[groups?.['metric'] ?? ''] ?? []),
  ]);
  const fleetWide = Object.keys(REASONS).filter((reason) => isReason(reason) && traitsOf(reason).fleetWide === true);
  expect([...new Set(asked)].toSorted()).toEqual(fleetWide.toSorted());
});

it('the panel of what holds nodes back shows the pause of a group, whose nodes wait while the fleet is not paused', () => {
  const [panel] = dashboards.flatMap(({ panels }) => panels.filter(({ title }) => title === 'Held back by'));
  const pause = panel?.targets.find(({ legendFormat }) => legendFormat === 'Pause');
  expect(reasonsIn(pause?.expr ?? '')).toEqual(['Paused']);
});

it('an alert fires for every reason that needs a user', () => {
  const ofTheFleet = {
    Frozen: 'brupop_frozen_versions',
    Held: 'brupop_held_versions',
    ConnectivityLost: 'brupop_connectivity_lost',
  };
  const reasons = [
    ...rules.flatMap(({ expr }) => reasonsIn(expr)),
    ...Object.entries(ofTheFleet).flatMap(([reason, metric]) =>
      rules.some(({ expr }) => expr.includes(metric)) ? [reason] : [],
    ),
  ];
  expect(needed.filter((reason) => !reasons.includes(reason))).toEqual([]);
});

it.each(rules.map((rule) => [rule.alert, rule] as const))(
  '%s has a section of the runbook, which names it',
  (alert, rule) => {
    const [page, anchor = ''] = rule.annotations.runbook_url.split('#');
    expect(page).toBe('docs/runbook.md');
    const sections = readFileSync(join(import.meta.dirname, '../../../docs/runbook.md'), 'utf8').split(/^(?=## )/mu);
    expect(sections.find((section) => anchorsOf(section)[0] === anchor)).toContain(`\`${alert}\``);
  },
);

it('docs/metrics.md lists every alert with its severity, and no other', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/metrics.md'), 'utf8');
  const [table] = tablesOf(page).filter(({ head }) => head[0] === 'Alert');
  const listed = table?.rows.map(([alert, severity]) => `${codeOf(alert)} ${severity}`);
  expect(listed).toEqual(rules.map(({ alert, labels }) => `${alert} ${labels.severity}`));
});

it('a unit test of promtool exists for every alert', () => {
  const tests = readFileSync(join(import.meta.dirname, 'alerts.yaml'), 'utf8');
  expect(rules.filter(({ alert }) => !tests.includes(`alertname: ${alert}`)).map(({ alert }) => alert)).toEqual([]);
});

it('the query of docs/metrics.md for hooks that failed is the one of the unit tests of promtool', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/metrics.md'), 'utf8');
  const queries = fencesOf(page).filter(({ text }) => text.includes('brupop_checks_total{phase="After"'));
  const { tests } = parse(readFileSync(join(import.meta.dirname, 'alerts.yaml'), 'utf8')) as {
    tests: { promql_expr_test?: { expr: string }[] }[];
  };
  const tested = new Set(tests.flatMap((test) => test.promql_expr_test?.map(({ expr }) => expr) ?? []));
  expect([...tested]).toEqual(queries.map(({ text }) => text));
});
