import { setTimeout as delay } from 'node:timers/promises';

/** Injected everywhere; only this file reads the machine's clock. */
export interface Clock {
  /** Milliseconds since the Unix epoch. May jump. */
  now(): number;
  /** Milliseconds on a clock that never jumps, for durations and time limits. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** The returned function cancels the timer, which keeps no process alive. */
  after(ms: number, callback: () => void): () => void;
}

/** One time on both clocks. */
export interface Instant {
  readonly wall: number;
  readonly monotonic: number;
}

export function instantOf(clock: Clock): Instant {
  return { wall: clock.now(), monotonic: clock.monotonic() };
}

/** Epoch milliseconds, by the clock as it is now, of a time that was kept on the monotonic clock. */
export function wallTimeOf(monotonic: number, now: Instant): number {
  return now.wall - (now.monotonic - monotonic);
}

/** The longest delay of a timer (2^31-1 ms); a longer one is cut to it. */
const MAX_TIMER_MS = 2_147_483_647;

async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await delay(Math.min(ms, MAX_TIMER_MS), undefined, signal && { signal });
  } catch (error) {
    throw signal?.reason ?? error;
  }
}

function after(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, Math.min(ms, MAX_TIMER_MS));
  timer.unref();
  return () => clearTimeout(timer);
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now(), sleep, after };

/** For libraries that take a Date. */
export function dateOf(epochMs: number): Date {
  return new Date(epochMs);
}

/** 9999-12-31T23:59:59Z: RFC 3339 has no later years, and the Kubernetes API accepts none. */
const LAST_SECOND_MS = 253_402_300_799_000;

/** RFC 3339 in UTC with seconds, as metav1.Time is written; for later times the last one that there is. */
export function rfc3339(epochMs: number): string {
  return `${new Date(Math.min(epochMs, LAST_SECOND_MS)).toISOString().slice(0, 19)}Z`;
}

/** RFC 3339 in UTC with exactly six fraction digits, as metav1.MicroTime requires. `micros`: less than 1000. */
export function rfc3339Micro(epochMs: number, micros = 0): string {
  return `${new Date(epochMs).toISOString().slice(0, 23)}${String(micros).padStart(3, '0')}Z`;
}

/** Epoch milliseconds of an RFC 3339 text; undefined for anything else. */
export function parseTime(text: string | null | undefined): number | undefined {
  if (text == null) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/** RFC 3339 in UTC with milliseconds, for log lines. */
export function rfc3339Milli(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
