import type { V1Probe } from '@kubernetes/client-node';
import type { Clock } from '@brupop/shared/runtime/clock';

/** `true`: success; `false`: failure. */
export type ProbeResult = boolean;

/** Counts outcomes in a row against the probe's thresholds. */
export class ProbeThreshold {
  readonly #probe: V1Probe;
  #last: ProbeResult | undefined;
  #inRow = 0;

  constructor(probe: V1Probe) {
    this.#probe = probe;
  }

  /** Answers the result once enough outcomes in a row agree, else undefined. */
  count(outcome: ProbeResult): ProbeResult | undefined {
    this.#inRow = outcome === this.#last ? this.#inRow + 1 : 1;
    this.#last = outcome;
    const enough = outcome ? (this.#probe.successThreshold ?? 1) : (this.#probe.failureThreshold ?? 3);
    return this.#inRow >= enough ? outcome : undefined;
  }
}

const EAGER_MS = 50;

/**
 * How long to wait for the next look at something that is not ready yet, after `waitedMs`: 50 ms at
 * first, later a tenth of the time waited. A real kubelet waits out `periodSeconds`, which would
 * only make tests slow. Such looks between the regular ones count only when they succeed, so that
 * nothing fails sooner than on a real node.
 */
export function eagerDelayMs(waitedMs: number): number {
  return Math.max(EAGER_MS, waitedMs / 10);
}

export interface ProbeLoopOptions {
  readonly probe: V1Probe;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Undefined when it succeeds, else why not. */
  readonly check: () => Promise<string | undefined>;
  /** Look more often until the first success. Not for liveness. */
  readonly eager: boolean;
  /**
   * Called with each result that the thresholds confirm, the same one again included. Answering
   * true ends the loop.
   */
  readonly report: (result: ProbeResult, why: string) => boolean;
}

/** Probes until `report` says enough or the signal aborts; resolves then. */
export async function probeLoop(options: ProbeLoopOptions): Promise<void> {
  await loop(options).catch((error: unknown) => {
    if (!options.signal.aborted) throw error;
  });
}

async function loop(options: ProbeLoopOptions): Promise<void> {
  const { probe, clock, signal } = options;
  const periodMs = (probe.periodSeconds ?? 10) * 1000;
  const threshold = new ProbeThreshold(probe);
  await clock.sleep((probe.initialDelaySeconds ?? 0) * 1000, signal);
  const start = clock.monotonic();
  let regularAt = start;
  let hurry = options.eager;
  while (!signal.aborted) {
    const regular = clock.monotonic() >= regularAt;
    if (regular) regularAt = clock.monotonic() + periodMs;
    const result = await lookOnce(options, threshold, regular);
    if (result === 'enough') return;
    if (result === true) hurry = false;
    const untilRegular = Math.max(0, regularAt - clock.monotonic());
    const eagerMs = eagerDelayMs(clock.monotonic() - start);
    await clock.sleep(hurry ? Math.min(untilRegular, eagerMs) : untilRegular, signal);
  }
}

async function lookOnce(
  { probe, signal, check, report }: ProbeLoopOptions,
  threshold: ProbeThreshold,
  regular: boolean,
): Promise<ProbeResult | 'enough' | undefined> {
  const why = await check();
  if (signal.aborted) return 'enough';
  const countsEarly = why === undefined && (probe.successThreshold ?? 1) === 1;
  const result = regular || countsEarly ? threshold.count(why === undefined) : undefined;
  return result !== undefined && report(result, why ?? '') ? 'enough' : result;
}
