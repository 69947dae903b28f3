/**
 * Keeps the certificate of the API servers valid while this controller is the leader: reads the
 * three objects every five minutes (every 30 s while it depends on another actor), lets `decide.ts` choose one write after the other, and performs
 * them. What fails is retried with backoff; nothing that happens here stops the updates of nodes.
 */
import { isDeepStrictEqual } from 'node:util';
import { isClockWrong } from '@brupop/shared/api/deadlines';
import type { Condition } from '@brupop/shared/api/meta';
import { hasStatus, kindOf } from '@brupop/shared/kube/error';
import type { Events } from '@brupop/shared/kube/events';
import { backoff } from '@brupop/shared/runtime/backoff';
import { type Clock, rfc3339 } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { Loop } from '@brupop/shared/runtime/loop';
import type { Metrics } from '../metrics.ts';
import { writeFor } from './contents.ts';
import { decide, decideCopy, type Problem, renewAt, type Step } from './decide.ts';
import { type DataObject, type Found, inspect, type Objects } from './inspect.ts';
import type { CertificateStore } from './store.ts';

/** Who makes the certificate: this controller, cert-manager, or users. */
export const TLS_MODES = ['self', 'cert-manager', 'provided'] as const;
export type TlsMode = (typeof TLS_MODES)[number];

/** Reasons of the condition CertificateReady. `docs/runbook.md` explains each. */
export const CERTIFICATE_REASONS = [
  'Valid',
  'NotOwned',
  'SecretMissing',
  'InvalidSecret',
  'ClockSkew',
  'RequestFailed',
] as const;
/** `docs/runbook.md` explains each. */
export const CERTIFICATE_EVENTS = ['AuthorityCreated', 'CertificateIssued', 'CertificateNotReady'] as const;

/** What the condition CertificateReady of the BrupopConfig says. */
type CertificateReport = Pick<Condition, 'status' | 'message'> & {
  readonly reason: (typeof CERTIFICATE_REASONS)[number];
};

interface IssuerOptions {
  readonly mode: Exclude<TlsMode, 'provided'>;
  readonly namespace: string;
  /** Where this controller runs. */
  readonly nodeName: string;
  readonly store: CertificateStore;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Pick<Metrics, 'writes' | 'certificateExpiry' | 'certificateReady'>;
  readonly events: Events;
  /** By how much the clock of this machine is ahead of the Kubernetes API's; undefined if unknown. */
  readonly clockSkewMs: () => number | undefined;
  /** Called when the report has changed. */
  readonly onReport: () => void;
}

const CHECK_MS = 300_000;
/** When another actor writes the Secret, or has to: agents need the authority soon after. */
const OTHERS_CHECK_MS = 30_000;
const RETRY = { baseMs: 1_000, capMs: CHECK_MS };
/** An installation takes three. */
const MAX_STEPS = 10;
/** In a row; until then nothing is reported. */
const REPORTED_FAILURES = 3;
const WRITE_KINDS = { authorities: 'ca_secret', bundle: 'ca_config_map', serving: 'tls_secret' } as const;

export class CertificateIssuer {
  readonly #options: IssuerOptions;
  #report: CertificateReport | undefined;
  /** In a row. */
  #failures = 0;
  readonly #problem: RetriedProblem;

  constructor(options: IssuerOptions) {
    this.#options = options;
    this.#problem = new RetriedProblem(options.clock);
  }

  /** Undefined until this process has looked, as the leader. */
  get report(): CertificateReport | undefined {
    return this.#report;
  }

  /** Runs until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, metrics, mode } = this.#options;
    const retry = backoff(RETRY);
    const reconcile = async (): Promise<number> => {
      try {
        await this.check(signal);
        retry.reset();
        this.#failures = 0;
        this.#problem.ended();
        return mode === 'self' && this.#report?.status === 'True' ? CHECK_MS : OTHERS_CHECK_MS;
      } catch (error) {
        return signal.aborted ? CHECK_MS : this.#failed(error, retry.next());
      }
    };
    await new Loop({ clock, log, reconcile }).run(signal);
    this.#report = undefined;
    metrics.certificateExpiry.reset();
    metrics.certificateReady.reset();
  }

  /** Reads the objects, and writes until nothing is left to do. Throws what a request throws. */
  async check(signal: AbortSignal): Promise<void> {
    const { store, namespace, mode, clock } = this.#options;
    let objects = await store.read(signal);
    const skew = this.#clockSkew();
    for (let steps = 0; steps < MAX_STEPS; steps += 1) {
      const found = inspect(objects, namespace);
      const { step, problem } = mode === 'self' ? decide(found, clock.now()) : decideCopy(found, clock.now());
      this.#show(found);
      if (step === undefined || skew !== undefined) return this.#setReport(skew ?? this.#evaluate(found, problem));
      objects = await this.#perform(step, objects, found, signal);
    }
    throw new Error(`not settled after ${MAX_STEPS} writes: another actor changes the same objects`);
  }

  async #perform(step: Step, objects: Objects, found: Found, signal: AbortSignal): Promise<Objects> {
    const { store, log, metrics, namespace, clock } = this.#options;
    const { object, contents } = await writeFor(step, found, namespace, clock.now());
    const { kind, name } = store.describe(object);
    const count = (result: string): void => metrics.writes.inc({ kind: WRITE_KINDS[object], result });
    try {
      const written = await store.write(object, objects[object], contents, signal);
      count('ok');
      log.info('certificate objects changed', { step: step.do, object: `${kind} ${name}`, why: step.why });
      if (step.do === 'createAuthority') this.#record('AuthorityCreated', object, written, step.why);
      if (step.do === 'issue') this.#record('CertificateIssued', object, written, step.why);
      return { ...objects, [object]: written };
    } catch (error) {
      count(hasStatus(error, 409) ? 'conflict' : 'error');
      throw error;
    }
  }

  /** One failure, such as a conflict, is not reported. */
  #failed(error: unknown, retryInMs: number): number {
    const { log } = this.#options;
    this.#failures += 1;
    const level = this.#problem.levelOf(kindOf(error));
    log[level]('cannot check the certificate, retrying', { error: messageOf(error), retryInMs });
    if (this.#failures >= REPORTED_FAILURES)
      this.#setReport({ status: 'False', reason: 'RequestFailed', message: messageOf(error) });
    return retryInMs;
  }

  #clockSkew(): CertificateReport | undefined {
    const { clockSkewMs, nodeName } = this.#options;
    const skew = clockSkewMs() ?? 0;
    if (!isClockWrong(skew)) return undefined;
    const differs = `${Math.round(Math.abs(skew) / 60_000)} minutes ${skew > 0 ? 'ahead of' : 'behind'}`;
    const message =
      `The clock of the controller's node ${nodeName} is ${differs} the Kubernetes API's, so nothing is issued. ` +
      "Correct the node's clock, or delete the pod of the controller if another node's clock is right.";
    return { status: 'False', reason: 'ClockSkew', message };
  }

  #evaluate({ serving: { certificate } }: Found, problem: Problem | undefined): CertificateReport {
    const { store, mode } = this.#options;
    const { kind, name } = store.describe(problem?.object ?? 'serving');
    if (problem !== undefined)
      return { status: 'False', reason: problem.reason, message: `${kind} ${name}: ${problem.message}` };
    if (certificate === undefined)
      return { status: 'False', reason: 'InvalidSecret', message: `${kind} ${name} has no usable certificate` };
    const renewed = mode === 'self' ? `, renewed from ${rfc3339(renewAt(certificate))}` : '';
    const message = `Issued by ${certificate.issuer}, valid until ${rfc3339(certificate.notAfter)}${renewed}`;
    return { status: 'True', reason: 'Valid', message };
  }

  #setReport(report: CertificateReport): void {
    const { metrics, log, mode, onReport } = this.#options;
    metrics.certificateReady.set({ mode }, report.status === 'True' ? 1 : 0);
    if (isDeepStrictEqual(report, this.#report)) return;
    this.#report = report;
    const { reason, message } = report;
    if (report.status === 'True') log.info('certificate is valid', { reason, message });
    else log.error('certificate needs attention', { reason, message });
    if (report.status !== 'True') this.#record('CertificateNotReady', 'serving', undefined, message);
    onReport();
  }

  #show({ bundle, serving: { certificate } }: Found): void {
    const { certificateExpiry } = this.#options.metrics;
    certificateExpiry.reset();
    for (const { certificate: authority, unusedSince } of bundle.entries) {
      if (unusedSince !== undefined) continue;
      certificateExpiry.set({ certificate: 'authority', issuer: authority.subject }, authority.notAfter / 1000);
    }
    if (certificate !== undefined)
      certificateExpiry.set({ certificate: 'serving', issuer: certificate.issuer }, certificate.notAfter / 1000);
  }

  #record(
    reason: (typeof CERTIFICATE_EVENTS)[number],
    object: keyof Objects,
    written: DataObject | undefined,
    message: string,
  ): void {
    const { events, store } = this.#options;
    const { uid = '', resourceVersion = '' } = written?.metadata ?? {};
    const about = { apiVersion: 'v1', ...store.describe(object), uid };
    events.record({ reason, warning: written === undefined, about, message, key: resourceVersion || message });
  }
}
