/** The condition MetadataApplied of a BottlerocketNodeGroup. */
import type { ConditionReport } from '@brupop/shared/api/meta';
import { namesOf, shorten } from '@brupop/shared/runtime/errors';
import { isEmpty } from '../policy/rendered.ts';
import { MAX_MESSAGE } from '../plan/facts/reasons.ts';
import type { GroupMetadata } from '../upkeep/node-metadata.ts';
import type { GroupRollout } from './rollout.ts';

/** `docs/runbook.md` explains each. */
export const METADATA_REASONS = ['Applied', 'Applying', 'Conflict', 'WriteRejected', 'NoMetadata'] as const;

export function metadataApplied({
  group,
  metadata,
}: Pick<GroupRollout, 'group' | 'metadata'>): ConditionReport<(typeof METADATA_REASONS)[number]> {
  const { pending, conflicts, rejected, waitsFor, changedBack = [] } = metadata;
  if (rejected !== undefined) {
    const message = `The write of Node "${rejected.node}" is rejected: ${shorten(rejected.message, MAX_MESSAGE)}`;
    return { status: 'False', reason: 'WriteRejected', message };
  }
  if (conflicts.length > 0) return { status: 'False', reason: 'Conflict', message: describeConflicts(conflicts) };
  if (pending.length > 0 || waitsFor !== undefined) {
    const waits = waitsFor === undefined ? '' : `. Taints that evict pods are set node by node. Waiting: ${waitsFor}`;
    const message = `To be written: ${namesOf(pending)}${describeChangedBack(changedBack)}${waits}`;
    return { status: 'False', reason: 'Applying', message: shorten(message, MAX_MESSAGE) };
  }
  if (isEmpty(group.rendered, true)) {
    const message = 'The group has no labels, annotations and taints for its Nodes';
    return { status: 'True', reason: 'NoMetadata', message };
  }
  const message = 'All Nodes of the group have its labels, annotations and taints';
  return { status: 'True', reason: 'Applied', message };
}

function describeChangedBack(nodes: readonly string[]): string {
  if (nodes.length === 0) return '';
  return `. Another writer changes these back again and again, so they are written less and less often: ${namesOf(nodes)}`;
}

/** For the condition Degraded. */
export function describeMetadata({ conflicts, rejected }: GroupMetadata): string[] {
  const isFine = conflicts.length === 0 && rejected === undefined;
  return isFine ? [] : ['labels, annotations or taints are not applied, see the condition MetadataApplied'];
}

const MAX_CONFLICTS = 5;
const KINDS = { labels: 'label', annotations: 'annotation', taints: 'taint' } as const;

function describeConflicts(conflicts: GroupMetadata['conflicts']): string {
  const list = conflicts
    .slice(0, MAX_CONFLICTS)
    .map(({ node, field, key, manager }) => `the ${KINDS[field]} "${key}" of Node "${node}" is that of "${manager}"`);
  const more = conflicts.length > list.length ? ` and ${conflicts.length - list.length} more` : '';
  return (
    `Another writer has set another value: ${list.join(', ')}${more}. These stay, and everything else is applied. Take them out of ` +
    'spec.nodeMetadata, or set spec.nodeMetadata.conflicts to Force'
  );
}
