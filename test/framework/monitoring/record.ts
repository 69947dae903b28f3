/**
 * Records what a real Prometheus and a real Alertmanager answer to checks, into `transcripts.json`. Tests replay the
 * answers, since not every machine has the programs. To record again, with the programs of a package or a release:
 *
 *     node test/framework/monitoring/record.ts /usr/bin/prometheus /usr/bin/prometheus-alertmanager
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../control-plane/ports.ts';
import { eventually } from '../eventually.ts';
import type { Transcript } from './transcripts.ts';

const QUERIES = [
  'up',
  'up == bool 1',
  'up < bool 1',
  'up < 1',
  'vector(1) or label_replace(vector(0), "a", "b", "", "")',
  'scalar(sum(up))',
  '1 > bool 2',
  'vector(0) / 0',
  'vector(1) / 0',
  'no_such_series',
  'up[1m]',
  '"text"',
  'sum(',
];
const FILTERS = [
  ['severity="critical"'],
  ['severity="critical"', 'team="a"'],
  ['severity="info"'],
  ['severity=~"crit.*"'],
  ['no matcher'],
];
const FROM = '2026-01-01T00:00:00Z';
const TO = '2100-01-01T00:00:00Z';

const [prometheus = '', alertmanager = ''] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'brupop-monitoring-'));
const [port = 0, alertPort = 0] = await freePorts(2);
const of = (on: number): string => `http://127.0.0.1:${on}`;
writeFileSync(
  join(folder, 'prometheus.yml'),
  JSON.stringify({
    global: { scrape_interval: '1s' },
    scrape_configs: [{ job_name: 'self', static_configs: [{ targets: [`127.0.0.1:${port}`] }] }],
  }),
);
writeFileSync(
  join(folder, 'alertmanager.yml'),
  JSON.stringify({ route: { receiver: 'none' }, receivers: [{ name: 'none' }] }),
);
const run = (program: string, ...args: string[]): ReturnType<typeof spawn> =>
  spawn(program, args, { cwd: folder, stdio: 'ignore' });
const programs = [
  run(prometheus, '--config.file=prometheus.yml', '--storage.tsdb.path=data', `--web.listen-address=127.0.0.1:${port}`),
  run(
    alertmanager,
    '--config.file=alertmanager.yml',
    '--storage.path=alerts',
    '--cluster.listen-address=',
    `--web.listen-address=127.0.0.1:${alertPort}`,
  ),
];

async function answerTo(name: string, url: string): Promise<Transcript> {
  const response = await fetch(url);
  const body = (await response.text()).replaceAll(String(port), '9090');
  return { name, status: response.status, body };
}

async function post(path: string, body: object): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const { status } = await fetch(`${of(alertPort)}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  if (status !== 200) throw new Error(`POST ${path}: expected status 200, found ${status}`);
}

async function alertsFor(filter: readonly string[], suffix = ''): Promise<Transcript> {
  const query = new URLSearchParams([
    ['silenced', 'false'],
    ['inhibited', 'false'],
    ...filter.map((one): [string, string] => ['filter', one]),
  ]);
  return await answerTo(`${filter.join(' ')}${suffix}`, `${of(alertPort)}/api/v2/alerts?${query.toString()}`);
}

try {
  await eventually(async () => {
    const { body } = await answerTo('up', `${of(port)}/api/v1/query?query=up`);
    if (!body.includes('"1"')) throw new Error('Prometheus has not scraped itself yet');
  });
  const queries = [];
  for (const query of QUERIES)
    queries.push(await answerTo(query, `${of(port)}/api/v1/query?query=${encodeURIComponent(query)}&timeout=10s`));
  const labels = { alertname: 'NodesDown', severity: 'critical' };
  await eventually(async () => await post('/api/v2/alerts', [{ labels, startsAt: FROM, endsAt: TO }]));
  const alerts = [];
  for (const filter of FILTERS) alerts.push(await alertsFor(filter));
  const matchers = [{ name: 'severity', value: 'critical', isRegex: false, isEqual: true }];
  await post('/api/v2/silences', { matchers, startsAt: FROM, endsAt: TO, createdBy: 'user', comment: 'known' });
  alerts.push(await alertsFor(FILTERS[0] ?? [], ', silenced'));
  const versions = [prometheus, alertmanager].map(
    (program) => execFileSync(program, ['--version'], { encoding: 'utf8' }).split('\n')[0],
  );
  writeFileSync(
    join(import.meta.dirname, 'transcripts.json'),
    `${JSON.stringify({ versions, queries, alerts }, undefined, 2)}\n`,
  );
} finally {
  for (const program of programs) program.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
}
