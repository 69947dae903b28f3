import type { Gate } from './gate.ts';

/** People have stopped the fleet. What is under way finishes. */
export const paused: Gate = ({ fleet }) => {
  if (!fleet.paused) return undefined;
  const why = fleet.pauseReason === undefined ? '' : `: ${fleet.pauseReason}`;
  return { reason: 'Paused', message: `BrupopConfig "cluster" pauses all updates${why}` };
};
