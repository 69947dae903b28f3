/**
 * Metrics are declared in one table for each program, from which {@link createFrom} makes them and
 * `make generate` writes `docs/metrics.md`. No label may have values without a bound: what agents,
 * nodes or users choose goes through {@link BoundedLabels}.
 */
import { RELEASE, REVISION } from './build.ts';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

type Type = 'counter' | 'gauge' | 'histogram';

export interface Declaration<T extends Type = Type, L extends string = string> {
  readonly type: T;
  /** Without `brupop_`. */
  readonly name: string;
  /** Markdown for the docs. Its first sentence is the HELP text. */
  readonly help: string;
  readonly labels: readonly L[];
  /** Of a histogram. */
  readonly buckets: readonly number[];
}

function declared<T extends Type>(type: T) {
  return <L extends string>(name: string, help: string, ...labels: L[]): Declaration<T, L> => {
    return { type, name, help, labels, buckets: [] };
  };
}
export const counter = declared('counter');
export const gauge = declared('gauge');
export const histogram = <L extends string>(
  name: string,
  buckets: readonly number[],
  help: string,
  ...labels: L[]
): Declaration<'histogram', L> => ({ type: 'histogram', name, help, labels, buckets });

interface Kinds<L extends string> {
  readonly counter: Counter<L>;
  readonly gauge: Gauge<L>;
  readonly histogram: Histogram<L>;
}
type Table = Readonly<Record<string, Declaration>>;
type MetricsOf<T extends Table> = {
  readonly [K in keyof T]: T[K] extends Declaration<infer Kind, infer L> ? Kinds<L>[Kind] : never;
};

const KINDS = { counter: Counter, gauge: Gauge, histogram: Histogram };

/** @param collect - called before the values of a metric are read */
export function createFrom<T extends Table>(
  table: T,
  registry: Registry,
  collect: Readonly<Record<string, () => void>> = {},
): MetricsOf<T> {
  const made = Object.entries(table).map(([key, { type, name, help, labels, buckets }]) => {
    const common = { name: `brupop_${name}`, help: plain(help), labelNames: labels, registers: [registry] };
    const options = { ...common, ...(collect[key] !== undefined && { collect: collect[key] }) };
    return [key, new KINDS[type]({ ...options, ...(type === 'histogram' && { buckets: [...buckets] }) })];
  });
  return Object.fromEntries(made) as MetricsOf<T>;
}

/** The first sentence, without Markdown. */
function plain(help: string): string {
  const [sentence = help] = /^.+?\.(?= |$)/u.exec(help) ?? [];
  return sentence.replaceAll(/`|\[(?<text>[^\]]+)\]\([^)]+\)/gu, '$<text>');
}

export const PROCESS_METRICS = {
  info: gauge('component_info', 'Always 1. The program and its release of Node.js.', 'component', 'node_version'),
  build: gauge(
    'build_info',
    'Always 1. The program, its version, and the commit that it was built from. API servers also have it for the agents with an open ' +
      'stream, as `brupop-agent`: agents serve no metrics. Builds of agents beyond 20 are `other`, and both labels are empty for an ' +
      'agent that does not send its version.',
    'component',
    'version',
    'revision',
  ),
  clockSkew: gauge(
    'clock_skew_seconds',
    'Seconds by which the clock of this process is ahead of that of the Kubernetes API; negative if it is behind. The resolution is 2 ' +
      'seconds, and it is NaN until the first response. A controller with more than 300 starts no update ' +
      '([`ClockSkew`](runbook.md#a-node-waits)); API servers compare times by the clock of the Kubernetes API.',
  ),
};

/**
 * Creates a registry with the metrics of the process and what it is: {@link PROCESS_METRICS}.
 * @param clockSkewMs - of this machine's clock against that of the Kubernetes API; undefined: unknown
 */
export function createRegistry(component: string, clockSkewMs: () => number | undefined = () => undefined): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const skew = (): void => clockSkew.set((clockSkewMs() ?? Number.NaN) / 1000);
  const { info, build, clockSkew } = createFrom(PROCESS_METRICS, registry, { clockSkew: skew });
  build.set({ component, version: RELEASE, revision: REVISION }, 1);
  info.set({ component, node_version: process.version }, 1);
  return registry;
}

/** The `metrics` option of {@link serveHealth} for `registry`. */
export function metricsOf(registry: Registry): () => Promise<{ contentType: string; body: string }> {
  return async () => ({ contentType: registry.contentType, body: await registry.metrics() });
}

export const MAX_VERSIONS = 20;

/** The first values that it is asked for, and `other` for the rest; an empty one is always kept. */
export class BoundedLabels {
  readonly #known = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  of(value: string): string {
    if (value !== '' && this.#known.size < this.#max) this.#known.add(value);
    return value === '' || this.#known.has(value) ? value : 'other';
  }
}

/**
 * Counts what is open by a label whose values clients choose. A value is known while something with it is open, so a client
 * that has tried many values keeps none from others. Beyond `max` values at a time they are `other`.
 */
export class OpenLabels {
  readonly #values = new Map<string, { readonly label: string; readonly open: number }>();
  /** How many are open, by label. */
  readonly #labels = new Map<string, number>();
  readonly #max: number;
  readonly #own: string | undefined;

  /** @param own - a value that is never `other`, whatever clients have open */
  constructor(max: number, own?: string) {
    this.#max = max;
    this.#own = own;
  }

  /** Returns the label, and whether nothing is left open with it. */
  change(value: string, by: number): { readonly label: string; readonly isLast: boolean } {
    const { label, open } = this.#values.get(value) ?? {
      label: value === this.#own || this.#labels.size < this.#max ? value : 'other',
      open: 0,
    };
    const left = (this.#labels.get(label) ?? 0) + by;
    if (open + by > 0) this.#values.set(value, { label, open: open + by });
    else this.#values.delete(value);
    if (left > 0) this.#labels.set(label, left);
    else this.#labels.delete(label);
    return { label, isLast: left <= 0 };
  }
}
