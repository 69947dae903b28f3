/**
 * A real Prometheus, which scrapes one gauge that the test sets, and a real Alertmanager. The first test
 * that needs them downloads or builds them, which takes minutes.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitoringCacheFolder } from '../control-plane/cache.ts';
import { obtainPrograms } from '../control-plane/obtain.ts';
import { freePorts } from '../control-plane/ports.ts';
import { type Component, ComponentProcess } from '../control-plane/process.ts';
import { monitoringPrograms } from '../control-plane/versions.ts';
import { startWatchdog } from '../watchdog.ts';

export const OBTAIN_LIMIT_MS = 1_500_000;

/** Name of the gauge. */
export const GAUGE = 'app_failures';

const LIMIT_MS = 10_000;
const LONG = { startsAt: '2026-01-01T00:00:00Z', endsAt: '2100-01-01T00:00:00Z' };

export interface Monitoring {
  readonly prometheus: Component;
  readonly prometheusUrl: string;
  readonly alertmanagerUrl: string;
  /** Resolves when Prometheus knows the value. */
  setGauge(value: number): Promise<void>;
  /** How many instant queries Prometheus has answered, but for those of this object. */
  queries(): Promise<number>;
  fireAlert(labels: Readonly<Record<string, string>>): Promise<void>;
  resolveAlert(labels: Readonly<Record<string, string>>): Promise<void>;
  /** Returns a function that ends the silence. */
  silence(name: string, value: string): Promise<() => Promise<void>>;
  stop(): Promise<void>;
}

export async function startMonitoring(): Promise<Monitoring> {
  const programs = await obtainPrograms({ wanted: monitoringPrograms, cacheFolder: monitoringCacheFolder() });
  const folder = mkdtempSync(join(tmpdir(), 'brupop-monitoring-'));
  const watchdog = startWatchdog(folder);
  const target = { gauge: 0 };
  const server = await serve(() => `# TYPE ${GAUGE} gauge\n${GAUGE} ${target.gauge}\n`);
  const [port = 0, alertPort = 0] = await freePorts(2);
  writeConfigs(folder, (server.address() as AddressInfo).port);
  const make = (name: 'prometheus' | 'alertmanager', url: string, args: readonly string[]): ComponentProcess => {
    const probe = async (): Promise<void> => void (await call(`${url}/-/ready`));
    const logPath = join(folder, `${name}.log`);
    const address = `--web.listen-address=${url.slice('http://'.length)}`;
    const all = [`--config.file=${name}.yml`, address, ...args];
    return new ComponentProcess({ name, program: programs[name], args: all, cwd: folder, logPath, watchdog, probe });
  };
  const urls = { prometheus: `http://127.0.0.1:${port}`, alertmanager: `http://127.0.0.1:${alertPort}` };
  const prometheus = make('prometheus', urls.prometheus, ['--storage.tsdb.path=data']);
  const alertmanager = make('alertmanager', urls.alertmanager, ['--storage.path=alerts', '--cluster.listen-address=']);
  for (const component of [prometheus, alertmanager]) component.start();
  await Promise.all([prometheus.ready(), alertmanager.ready()]);
  return {
    prometheus,
    prometheusUrl: urls.prometheus,
    alertmanagerUrl: urls.alertmanager,
    ...gaugeOf(target, urls.prometheus),
    ...alertsOf(urls.alertmanager),
    stop: async () => {
      await Promise.all([prometheus.stop(), alertmanager.stop()]);
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      await watchdog.release();
    },
  };
}

function gaugeOf(target: { gauge: number }, url: string): Pick<Monitoring, 'setGauge' | 'queries'> {
  let asked = 0;
  const ask = async (query: string): Promise<string | undefined> => {
    asked += 1;
    const answer = await call(`${url}/api/v1/query?query=${encodeURIComponent(query)}`);
    return (answer as QueryAnswer).data.result[0]?.value[1];
  };
  return {
    setGauge: async (value) => {
      target.gauge = value;
      const deadline = Date.now() + LIMIT_MS;
      while ((await ask(GAUGE)) !== String(value)) {
        if (Date.now() > deadline) throw new Error(`Prometheus has not scraped the value ${value}`);
        await new Promise((done) => setTimeout(done, 100));
      }
    },
    queries: async () => {
      const metrics = await callText(`${url}/metrics`);
      const counts = metrics.matchAll(/^prometheus_http_requests_total\{.*handler="\/api\/v1\/query"\} (\d+)/gmu);
      return [...counts].reduce((sum, [, count]) => sum + Number(count), 0) - asked;
    },
  };
}

function alertsOf(url: string): Pick<Monitoring, 'fireAlert' | 'resolveAlert' | 'silence'> {
  const postAlert = async (labels: object, endsAt: string): Promise<void> =>
    void (await call(`${url}/api/v2/alerts`, [{ labels, startsAt: LONG.startsAt, endsAt }]));
  return {
    fireAlert: async (labels) => await postAlert(labels, LONG.endsAt),
    resolveAlert: async (labels) => await postAlert(labels, new Date().toISOString()),
    silence: async (name, value) => {
      const matchers = [{ name, value, isRegex: false, isEqual: true }];
      const body = { matchers, ...LONG, createdBy: 'a user', comment: 'known' };
      const { silenceID } = (await call(`${url}/api/v2/silences`, body)) as { silenceID: string };
      return async () => {
        const response = await fetch(`${url}/api/v2/silence/${silenceID}`, { method: 'DELETE' });
        if (!response.ok) throw new Error(`the silence was not ended: status ${response.status}`);
      };
    },
  };
}

interface QueryAnswer {
  readonly data: { readonly result: readonly { readonly value: readonly [number, string] }[] };
}

function writeConfigs(folder: string, targetPort: number): void {
  const prometheus = {
    global: { scrape_interval: '1s', scrape_timeout: '1s' },
    scrape_configs: [{ job_name: 'app', static_configs: [{ targets: [`127.0.0.1:${targetPort}`] }] }],
  };
  const alertmanager = { route: { receiver: 'none' }, receivers: [{ name: 'none' }] };
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(prometheus));
  writeFileSync(join(folder, 'alertmanager.yml'), JSON.stringify(alertmanager));
}

async function serve(metrics: () => string): Promise<Server> {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(metrics());
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return server;
}

/** Throws for an answer that is no success. */
async function callText(url: string, body?: object): Promise<string> {
  const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const response = await fetch(url, { signal: AbortSignal.timeout(LIMIT_MS), ...(body !== undefined && post) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: expected a success, found status ${response.status}: ${text}`);
  return text;
}

async function call(url: string, body?: object): Promise<unknown> {
  const text = await callText(url, body);
  return text.startsWith('{') ? (JSON.parse(text) as unknown) : text;
}
