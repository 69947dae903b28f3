import { carriesOurs } from '@brupop/shared/node-marks';
import type { Gate } from './gate.ts';

/** Whoever cordons a node keeps hands off it, and so do we. */
export const notCordonedByOthers: Gate = ({ candidate: { node } }) => {
  if (!node.unschedulable || carriesOurs(node)) return undefined;
  const message = 'Somebody else has cordoned the Node; it is updated after they uncordon it';
  return { reason: 'CordonedByOthers', message };
};

/** A cordon or exclusion label of an earlier attempt is taken back first: otherwise nobody could tell later whose it was. */
export const restored: Gate = ({ candidate: { node } }) => {
  if (!carriesOurs(node)) return undefined;
  const message = 'The cordon or load balancer exclusion of an earlier attempt is still to be taken back';
  return { reason: 'RestorePending', message };
};
