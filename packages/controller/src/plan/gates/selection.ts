import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { selects } from '@brupop/shared/api/label-selector';
import { isManaged, type NodeView } from '../../cluster/node.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { Blocked } from '../reasons.ts';
import type { Gate } from './gate.ts';

/** True when the configuration is about this node: people manage it, and have not narrowed it out. */
export function isConcerned(node: NodeView, policy: UpdatePolicy): boolean {
  return isManaged(node) && isSelected(node, policy);
}

function isSelected({ metadata: { labels = {} } }: NodeView, { nodeSelector }: UpdatePolicy): boolean {
  return nodeSelector === undefined || selects(nodeSelector, labels);
}

/** People have narrowed the managed nodes down. */
export const selected: Gate = ({ candidate: { node }, policy }) =>
  isSelected(node, policy) ? undefined : NOT_SELECTED;

const NOT_SELECTED: Blocked = {
  reason: 'NotSelected',
  message: 'spec.nodeSelector of BrupopConfig "cluster" does not select this node',
};

/** People have left this one node out. What the annotation says other than false is taken for a yes. */
export const notSkipped: Gate = ({ candidate: { node } }) => {
  const value = node.metadata.annotations?.[SKIP_ANNOTATION];
  if (value === undefined || value === 'false') return undefined;
  return { reason: 'Skipped', message: `The Node has the annotation ${SKIP_ANNOTATION}=${value}` };
};
