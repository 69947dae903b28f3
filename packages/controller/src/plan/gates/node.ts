/** Gates about one node: whether users want it updated, and whether it can be disrupted now. */
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { isSelected } from '../../cluster/node.ts';
import { describeBlocks, isDrainable, isDrainBlocked } from '../facts/drainability.ts';
import { type Blocked, type Gate, specRejected } from './reasons.ts';

export const selected: Gate = ({ node, policy }) => (isSelected(node, policy) ? undefined : NOT_SELECTED);

const NOT_SELECTED: Blocked = {
  reason: 'NotSelected',
  message: 'spec.nodeSelector of BrupopConfig "cluster" does not select this node',
};

/** Any value of the annotation other than false skips the node. */
export const notSkipped: Gate = ({ node }) => {
  const value = node.metadata.annotations?.[SKIP_ANNOTATION];
  if (value === undefined || value === 'false') return undefined;
  return { reason: 'Skipped', message: `The Node has the annotation ${SKIP_ANNOTATION}=${value}` };
};

export const nodeReady: Gate = ({ node, status }) => {
  if (node.metadata.deletionTimestamp !== undefined) return notReady('The Node is being deleted');
  if (!node.ready) return notReady('The Node is not Ready');
  if (node.bootID !== '' && status.bootID !== '' && node.bootID !== status.bootID) {
    return notReady('The host has booted since its agent last reported');
  }
  return undefined;
};

function notReady(message: string): Blocked {
  return { reason: 'NodeNotReady', message };
}

export const notCordonedExternally: Gate = ({ node }) => {
  if (!node.unschedulable || ownedByUs(node)) return undefined;
  const message = 'Another actor has cordoned the Node; it is updated after it is uncordoned';
  return { reason: 'CordonedExternally', message };
};

/** Otherwise the owner of the cordon would be unknown later. */
export const restored: Gate = ({ node }) => {
  if (!ownedByUs(node)) return undefined;
  const message = 'The cordon or load balancer exclusion of an earlier attempt has not been removed yet';
  return { reason: 'CleanupPending', message };
};

/** While the API server rejects the spec, other nodes go first. */
export const writable: Gate = ({ writeRejection }) =>
  writeRejection === undefined ? undefined : specRejected(writeRejection);

/** Without capacity the pods are not listed again: what the latest list showed suffices for the reason. */
export const drainNotBlocked: Gate = ({ drain, capacity, now }) => {
  const { blocks, recheckAt } = drain;
  if (blocks.length === 0 || (capacity === undefined && !isDrainBlocked(drain, now))) return undefined;
  const message = `The node cannot be drained: ${describeBlocks(blocks)}`;
  return { reason: 'DrainBlocked', message, ...(capacity === undefined && { retryAt: recheckAt }) };
};

/** Pods are not watched: they are listed right before a node starts. */
export const podsListed: Gate = ({ drain }) => {
  if (isDrainable(drain)) return undefined;
  const why = drain.problem ?? 'they are being listed';
  return { reason: 'PodListFailed', message: `The pods on the node are not known: ${why}`, lookUp: true };
};
