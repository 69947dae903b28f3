import { ownedByUs } from '@brupop/shared/node/ownership';
import { type Blocked, specRejected } from '../reasons.ts';
import type { Gate } from './gate.ts';

/** A node that is not well is neither drained nor rebooted: the update would add to whatever is going on. */
export const nodeReady: Gate = ({ candidate: { node, status } }) => {
  if (node.metadata.deletionTimestamp !== undefined) return blocked('The Node is being deleted');
  if (!node.ready) return blocked('The Node is not Ready');
  if (node.bootID !== '' && status.bootID !== '' && node.bootID !== status.bootID) {
    return blocked('The host has booted since its agent last reported');
  }
  return undefined;
};

function blocked(message: string): Blocked {
  return { reason: 'NodeNotReady', message };
}

/** Whoever cordons a node keeps hands off it, and so do we. */
export const notCordonedByOthers: Gate = ({ candidate: { node } }) => {
  if (!node.unschedulable || ownedByUs(node)) return undefined;
  const message = 'Somebody else has cordoned the Node; it is updated after they uncordon it';
  return { reason: 'CordonedExternally', message };
};

/** A cordon or exclusion label of an earlier attempt is taken back first: otherwise nobody could tell later whose it was. */
export const restored: Gate = ({ candidate: { node } }) => {
  if (!ownedByUs(node)) return undefined;
  const message = 'The cordon or load balancer exclusion of an earlier attempt is still to be taken back';
  return { reason: 'CleanupPending', message };
};

/** A node whose spec is refused by the API server lets others go first until it is tried again. */
export const writable: Gate = ({ candidate: { writeRejection } }) =>
  writeRejection === undefined ? undefined : specRejected(writeRejection);
