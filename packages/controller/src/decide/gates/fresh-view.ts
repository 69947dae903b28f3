import type { Gate } from './gate.ts';

/** What is not seen may forbid a start: a pause, a node that somebody else has cordoned, another node under way. */
export const freshView: Gate = ({ stale }) => {
  if (stale.length === 0) return undefined;
  const message = `The Kubernetes API has sent nothing about ${stale.join(', ')} for more than 2 minutes`;
  return { reason: 'StaleView', message };
};
