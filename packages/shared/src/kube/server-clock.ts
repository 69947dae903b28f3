import type { Clock } from '../runtime/clock.ts';

/** The time in a response has whole seconds, and a response takes a while. */
const RESOLUTION_MS = 3_000;

/**
 * The clock of kube-apiserver, as far as its responses show it. Replicas of one program compare times that another replica, or
 * kube-apiserver, has written. By this clock all these times are of one machine, however wrong the clocks of the replicas are.
 * @param skewMs - by how much `clock` is ahead of it; undefined: unknown
 */
export function serverClock(clock: Clock, skewMs: () => number | undefined): Clock {
  return {
    now: () => clock.now() - certainSkew(skewMs()),
    monotonic: () => clock.monotonic(),
    sleep: (ms, signal) => clock.sleep(ms, signal),
    after: (ms, callback) => clock.after(ms, callback),
  };
}

/** In whole milliseconds; 0 for a skew that may be none. */
export function certainSkew(skewMs = 0): number {
  return Math.abs(skewMs) > RESOLUTION_MS ? Math.round(skewMs) : 0;
}
