import { describeBlocks, isDrainable, isHopeless } from '../drainability.ts';
import type { Gate } from './gate.ts';

/** A drain that cannot succeed would only keep a node cordoned: it is not begun. While there is no place anyway, what was seen last will do. */
export const notHopeless: Gate = ({ drain, capacity, now }) => {
  const { blocks, recheckAt } = drain;
  if (blocks.length === 0 || (capacity === undefined && !isHopeless(drain, now))) return undefined;
  const message = `The node cannot be drained: ${describeBlocks(blocks)}`;
  return { reason: 'DrainBlocked', message, ...(capacity === undefined && { retryAt: recheckAt }) };
};

/** Nobody is drained on hearsay: the pods of a node whose turn it is are looked up right before. */
export const podsSeen: Gate = ({ drain }) => {
  if (isDrainable(drain)) return undefined;
  const why = drain.problem ?? 'they are being looked up';
  return { reason: 'PodListFailed', message: `The pods on the node are not known: ${why}`, lookUp: true };
};
