import type { Gate } from './gate.ts';

/** People have stopped the fleet. What is under way finishes. */
export const paused: Gate = ({ policy }) => {
  if (!policy.paused) return undefined;
  const why = policy.pauseReason === undefined ? '' : `: ${policy.pauseReason}`;
  return { reason: 'Paused', message: `BrupopConfig "cluster" pauses all updates${why}` };
};

/** Only so many nodes are away at once. */
export const capacity: Gate = ({ capacity }) => capacity;

/** What is not seen may forbid a start: a pause, a node that somebody else has cordoned, another node under way. */
export const freshView: Gate = ({ stale }) => {
  if (stale.length === 0) return undefined;
  const message = `The Kubernetes API has sent nothing about ${stale.join(', ')} for more than 2 minutes`;
  return { reason: 'WatchStale', message };
};

/** A configuration that cannot be followed allows nothing: what its author wanted to limit is unknown. */
export const validConfig: Gate = ({ policy }) => {
  if (policy.problem === undefined) return undefined;
  return { reason: 'InvalidConfiguration', message: `BrupopConfig "cluster" cannot be followed: ${policy.problem}` };
};
