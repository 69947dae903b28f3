/**
 * A real Prometheus that reads the metrics of a fleet's controllers and API servers, and evaluates the alerts of the chart. A
 * fleet updates in seconds what takes real nodes minutes, so a minute of an alert's `for` is a second here.
 */
import { mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { COMPONENT_LABEL, CONTROLLER, APISERVER } from '../../../packages/shared/src/api/names.ts';
import { monitoringCacheFolder } from '../control-plane/cache.ts';
import { obtainPrograms } from '../control-plane/obtain.ts';
import { freePorts } from '../control-plane/ports.ts';
import { ComponentProcess } from '../control-plane/process.ts';
import { monitoringPrograms } from '../control-plane/versions.ts';
import { chartDir } from '../crds.ts';
import type { Fleet } from '../fleet/fleet.ts';
import { localAddress } from '../kubelet/addresses.ts';
import { startWatchdog } from '../watchdog.ts';

const LIMIT_MS = 10_000;
const INTERVAL_MS = 1_000;
const HEALTH_PORT = 8080;
export const ALERTS_FILE = join(chartDir, 'files/alerts.yaml');

export interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: Readonly<Record<'severity', string>>;
  readonly annotations: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>;
}
interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[];
}

export function readAlerts(): RuleFile {
  return parse(readFileSync(ALERTS_FILE, 'utf8')) as RuleFile;
}

/** One series of an answer: with `value` at one time, or `values` over time. */
export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value?: readonly [number, string];
  readonly values?: readonly (readonly [number, string])[];
}

/** Builds Prometheus unless it is in the cache: minutes, in which a fleet that runs already would update. */
export async function obtainPrometheus() {
  return await obtainPrograms({ wanted: monitoringPrograms, cacheFolder: monitoringCacheFolder() });
}

export class FleetPrometheus {
  readonly url: string;
  /** Of promtool, which belongs to it. */
  readonly promtool: string;
  readonly #process: ComponentProcess;
  readonly #end: () => Promise<void>;

  private constructor(url: string, promtool: string, process: ComponentProcess, end: () => Promise<void>) {
    this.url = url;
    this.promtool = promtool;
    this.#process = process;
    this.#end = end;
  }

  static async start(fleet: Fleet): Promise<FleetPrometheus> {
    const programs = await obtainPrometheus();
    const folder = mkdtempSync(join(tmpdir(), 'brupop-monitoring-'));
    const watchdog = startWatchdog(folder);
    const [port = 0] = await freePorts(1);
    const url = `http://127.0.0.1:${port}`;
    writeConfig(folder);
    const process = new ComponentProcess({
      name: 'prometheus',
      program: programs.prometheus,
      args: ['--config.file=prometheus.yml', `--web.listen-address=127.0.0.1:${port}`, '--storage.tsdb.path=data'],
      cwd: folder,
      logPath: join(folder, 'prometheus.log'),
      watchdog,
      probe: async () => void (await fetch(`${url}/-/ready`).then(expectOk)),
    });
    writeTargets(folder, fleet);
    const timer = setInterval(() => writeTargets(folder, fleet), INTERVAL_MS);
    process.start();
    await process.ready();
    return new FleetPrometheus(url, programs.promtool, process, async () => {
      clearInterval(timer);
      await watchdog.release();
    });
  }

  /** The values at this time. Throws when Prometheus rejects the query. */
  async query(query: string): Promise<readonly Series[]> {
    return await this.#ask('query', { query });
  }

  /** The values from `from` (Unix time, seconds) until now. */
  async queryRange(query: string, from: number, step = 1): Promise<readonly Series[]> {
    const end = Date.now() / 1000;
    return await this.#ask('query_range', { query, start: String(from), end: String(end), step: String(step) });
  }

  /** What its targets say now. */
  async scraped(): Promise<string[]> {
    const answer = await fetch(`${this.url}/api/v1/targets?state=active`).then(expectOk);
    const { data } = (await answer.json()) as { data: { activeTargets: { scrapeUrl: string }[] } };
    return await Promise.all(data.activeTargets.map(async ({ scrapeUrl }) => (await fetch(scrapeUrl)).text()));
  }

  async #ask(kind: string, parameters: Record<string, string>): Promise<readonly Series[]> {
    const query = new URLSearchParams(parameters).toString();
    const response = await fetch(`${this.url}/api/v1/${kind}?${query}`, { signal: AbortSignal.timeout(LIMIT_MS) });
    const { data } = (await expectOk(response).then((ok) => ok.json())) as { data: { result: Series[] } };
    return data.result;
  }

  async stop(): Promise<void> {
    await this.#process.stop();
    await this.#end();
  }
}

async function expectOk(response: Response): Promise<Response> {
  if (response.ok) return response;
  throw new Error(`${response.url}: expected a success, found status ${response.status}: ${await response.text()}`);
}

function writeConfig(folder: string): void {
  const interval = `${INTERVAL_MS}ms`;
  const config = {
    global: { scrape_interval: interval, scrape_timeout: interval, evaluation_interval: interval },
    rule_files: ['alerts.yml'],
    scrape_configs: [
      { job_name: 'brupop', file_sd_configs: [{ files: ['targets.json'], refresh_interval: interval }] },
    ],
  };
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config));
  writeFileSync(join(folder, 'alerts.yml'), JSON.stringify(inSeconds(readAlerts())));
}

/** The Lease of the leader lasts as long as anywhere. */
const REAL_TIMES: Readonly<Record<string, string>> = { BrupopNoLeader: '30s' };

/** Of the alert about drains, which looks at the age of what they wait for. */
function ageInSeconds({ expr }: Rule): string {
  return expr.replace(/> 1200$/u, '> 20');
}

function inSeconds({ groups }: RuleFile): RuleFile {
  const seconds = { m: 1, h: 60 } as const;
  const waitOf = ({ alert, for: wait }: Rule): string =>
    REAL_TIMES[alert] ?? `${Number.parseInt(wait, 10) * seconds[wait.slice(-1) as 'm' | 'h']}s`;
  const rules = (all: readonly Rule[]): Rule[] =>
    all.map((rule) => ({ ...rule, expr: ageInSeconds(rule), for: waitOf(rule) }));
  return { groups: groups.map((group) => ({ ...group, rules: rules(group.rules) })) };
}

/** Prometheus never sees a half-written file. */
function writeTargets(folder: string, fleet: Fleet): void {
  const wanted: readonly (string | undefined)[] = [CONTROLLER, APISERVER];
  const pods = fleet.observer.pods.list().flatMap(({ metadata, status }) => {
    const isOurs = wanted.includes(metadata.labels?.[COMPONENT_LABEL]);
    if (!isOurs || status?.podIP === undefined || status.phase !== 'Running') return [];
    return [{ targets: [`${localAddress(status.podIP)}:${HEALTH_PORT}`], labels: { instance: metadata.name } }];
  });
  writeFileSync(join(folder, 'targets.new'), JSON.stringify(pods));
  renameSync(join(folder, 'targets.new'), join(folder, 'targets.json'));
}
