/**
 * What a check of the configuration asks of Prometheus, of Alertmanager or, for the template of a Job,
 * of the Kubernetes API, and what the answer means. A check passes only by an answer that says so:
 * no answer, an error and an answer that is not as expected do not pass.
 */
import * as v from 'valibot';
import { object, parse } from '@brupop/shared/api/schema';
import type { KubeClient } from '@brupop/shared/kube/client';
import { groupPath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { firstFew, messageOf, shorten } from '@brupop/shared/runtime/errors';
import { getJson, type JsonSource } from '@brupop/shared/runtime/get-json';

/** What the chart allows checks to use. */
export interface ChecksConfig {
  /** Of the CronJobs and Jobs; empty: there are none. */
  readonly namespace: string;
  readonly serviceAccount: string;
  /** Without a URL there are no queries. */
  readonly prometheus: JsonSource;
  /** Without a URL there are no alerts. */
  readonly alertmanager: JsonSource;
}

interface Named {
  /** Of the check or hook. */
  readonly check: string;
}

/** What can be asked without a Job. */
export type Probe = Named &
  (
    | { readonly kind: 'prometheus'; readonly query: string }
    | { readonly kind: 'alerts'; readonly filter: readonly string[] }
    /** Whether the template of a Job is there. */
    | { readonly kind: 'cronJob'; readonly cronJob: string }
  );

/** Changes with the definition of a check. */
export function keyOf(probe: Probe): string {
  return JSON.stringify(probe);
}

export interface Answer {
  readonly passed: boolean;
  /** There was no server to ask, no answer, or one that says nothing. */
  readonly isMissing?: boolean;
  /** For messages. */
  readonly found: string;
}

interface ProbeOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly config: ChecksConfig;
  readonly signal: AbortSignal;
}

const LIMITS = { timeoutMs: 10_000, maxBytes: 1024 * 1024 };

/** Never throws, unless `signal` has aborted. */
export async function ask(probe: Probe, options: ProbeOptions): Promise<Answer> {
  try {
    return await answerOf(probe, options);
  } catch (error) {
    if (options.signal.aborted) throw error;
    return { passed: false, isMissing: true, found: shorten(messageOf(error), MAX_FOUND) };
  }
}

const MAX_FOUND = 400;

async function answerOf(probe: Probe, options: ProbeOptions): Promise<Answer> {
  if (probe.kind === 'prometheus') return askPrometheus(probe.query, options);
  return probe.kind === 'alerts' ? askAlertmanager(probe.filter, options) : findCronJob(probe.cronJob, options);
}

async function askPrometheus(expression: string, { config: { prometheus }, ...rest }: ProbeOptions): Promise<Answer> {
  if (prometheus.url === '') return absent("the chart's value checks.prometheus.url");
  const query = [['query', expression] as const, ['timeout', '10s'] as const];
  return evaluateQuery(await getJson(prometheus, '/api/v1/query', query, { ...LIMITS, ...rest }));
}

async function askAlertmanager(
  filter: readonly string[],
  { config: { alertmanager }, ...rest }: ProbeOptions,
): Promise<Answer> {
  if (alertmanager.url === '') return absent("the chart's value checks.alertmanager.url");
  const only = ['silenced', 'inhibited'].map((name) => [name, 'false'] as const);
  const query = [...only, ...filter.map((one) => ['filter', one] as const)];
  return evaluateAlerts(await getJson(alertmanager, '/api/v2/alerts', query, { ...LIMITS, ...rest }));
}

async function findCronJob(name: string, { client, config: { namespace }, signal }: ProbeOptions): Promise<Answer> {
  if (namespace === '') return absent("Jobs, which the chart's value checks.enabled allows");
  const what = `the CronJob ${namespace}/${name}`;
  const found = await client.find(cronJobPath(namespace, name), signal);
  return found === undefined ? absent(what) : { passed: true, found: `${what} exists` };
}

function absent(what: string): Answer {
  return { passed: false, isMissing: true, found: `expected ${what}, found none` };
}

export function cronJobPath(namespace: string, name: string): string {
  return groupPath('batch/v1', 'cronjobs', { namespace, name });
}

const sample = v.tuple([v.number('a time'), v.string('a value')], 'a time and a value');
const series = object({ metric: v.record(v.string('a label'), v.string('a text'), 'labels'), value: sample });
const answer = object({
  data: v.variant(
    'resultType',
    [
      object({ resultType: v.literal('scalar', 'scalar'), result: sample }),
      object({ resultType: v.literal('vector', 'vector'), result: v.array(series, 'a list') }),
    ],
    'a scalar or a vector',
  ),
  warnings: v.nullish(v.array(v.string('a text'), 'a list'), []),
  /** Of VictoriaMetrics. */
  isPartial: v.exactOptional(v.boolean('true or false'), false),
});
/** These warnings are about the expression; others say that data is missing, such as while a store of Thanos is down. */
const OF_EXPRESSION = /^(?:PromQL |\d+ more (?:warning )?annotations omitted$)/u;

/** Of an instant query: of the HTTP API of Prometheus. */
export function evaluateQuery(body: unknown): Answer {
  const { data, ...rest } = parse(answer, body, '', (message) => new Error(`the answer of the query: ${message}`));
  const missing = rest.isPartial ? 'isPartial' : rest.warnings?.find((one) => !OF_EXPRESSION.test(one));
  if (missing !== undefined)
    throw new Error(`the answer of the query: expected one from all of the data, found the warning ${missing}`);
  if (data.resultType === 'scalar') return { passed: holds(data.result[1]), found: `the query is ${data.result[1]}` };
  if (data.result.length === 0) return { passed: false, found: 'the query returned no series' };
  const zero = data.result.find(({ value }) => !holds(value[1]));
  if (zero === undefined) return { passed: true, found: `${data.result.length} series are not zero` };
  const labels = Object.entries(zero.metric).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return { passed: false, found: shorten(`the query is ${zero.value[1]} for {${labels.join(', ')}}`, MAX_FOUND) };
}

/** As Prometheus writes numbers (prometheus/common, model.SampleValue). NaN and what is no number do not hold. */
const NUMBER = /^[+-]?(?:Inf|(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)$/u;

function holds(value: string): boolean {
  return NUMBER.test(value) && Number(value) !== 0;
}

const alert = object({ labels: v.record(v.string('a label'), v.string('a text'), 'labels') });

/** Of the API v2 of Alertmanager: the active alerts that are neither silenced nor inhibited. */
export function evaluateAlerts(body: unknown): Answer {
  const alerts = parse(v.array(alert, 'a list'), body, 'alerts');
  if (alerts.length === 0) return { passed: true, found: 'no such alert is active' };
  const names = alerts.map(({ labels }) => labels['alertname'] ?? 'one without a name');
  return { passed: false, found: shorten(`these alerts are active: ${firstFew(names)}`, MAX_FOUND) };
}
