/**
 * The Nodes whose labels, annotations or taints are not as the groups say, and what is reported of them in the conditions of each
 * group. `apply/node-metadata.ts` reads each of these Nodes, and writes what differs then.
 */
import { isClockWrong } from '@brupop/shared/api/deadlines';
import { isProtectedLabel } from '@brupop/shared/api/label-selector';
import { NODE_METADATA_FINALIZER } from '@brupop/shared/api/names';
import { readRendered } from '@brupop/shared/api/node-metadata';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { parseTime } from '@brupop/shared/runtime/clock';
import { hasTaint, type NodeTaint } from '../cluster/group-metadata.ts';
import type { Conflict, MetadataNote } from '../cluster/metadata-notes.ts';
import { hasGroupMetadata, isManaged, type NodeView } from '../cluster/node.ts';
import { groupAtStart } from '../cluster/shadow.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { holdsGroup } from '../cluster/state.ts';
import { ofParts, type Parts } from '../kept/parts.ts';
import { groupOf, type NodeGroup } from '../policy/node-groups.ts';
import { isEmpty, knownKeys } from '../policy/rendered.ts';
import { decideMetadata, type MetadataInput, type WantedMetadata } from './metadata-writes.ts';

export interface MetadataChange extends Pick<MetadataInput, 'wanted' | 'known'> {
  readonly node: NodeView;
  /** Groups that wait for it. */
  readonly groups: readonly string[];
  /** It adds a taint that evicts pods. */
  readonly evicts: boolean;
  /** The latest write of this Node was rejected. */
  readonly isRejected: boolean;
  /** Another writer changes this Node back again and again. */
  readonly isChangedBack: boolean;
  /** Another Node has what the group gives. */
  readonly isOnOthers: boolean;
}

export interface GroupMetadata {
  /** The spec is rendered and recorded, and Nodes may be written. */
  readonly isRecorded: boolean;
  /** Names of the nodes with something to write. */
  readonly pending: readonly string[];
  readonly conflicts: readonly (Conflict & { readonly node: string })[];
  readonly rejected: { readonly node: string; readonly message: string } | undefined;
  /** Names of those of `pending` that another writer changes back. */
  readonly changedBack?: readonly string[];
  /** Why the first of them with taints that evict pods has to wait. */
  readonly waitsFor?: string | undefined;
}

export const NO_METADATA: GroupMetadata = { isRecorded: false, pending: [], conflicts: [], rejected: undefined };

export type GroupFinalizer = 'Add' | 'Remove';

export interface NodeMetadataPlan {
  readonly changes: readonly MetadataChange[];
  readonly byGroup: ReadonlyMap<string, GroupMetadata>;
  readonly finalizers: ReadonlyMap<BottlerocketNodeGroup, GroupFinalizer>;
  /** Groups whose finalizer is removed although something of them is left on these nodes. */
  readonly leftBehind: ReadonlyMap<BottlerocketNodeGroup, readonly string[]>;
  readonly times: readonly (number | undefined)[];
  /** Nodes whose pods have to be listed before they may get a taint that evicts pods. */
  readonly lookUps?: readonly NodeView[];
}

/** How long a deleted group may take to be removed from its Nodes. Each leader has this long. */
export const REMOVAL_LIMIT_MS = 10 * 60_000;

interface EvaluatedNode {
  readonly change: Omit<MetadataChange, 'isOnOthers'>;
  readonly conflicts: readonly Conflict[];
  readonly isDue: boolean;
  readonly note: MetadataNote | undefined;
}

/**
 * @param nodes - of the snapshot
 * @param isCurrent - no watch is stale
 */
export function nodeMetadataOf(
  snapshot: Snapshot,
  nodes: Parts<NodeView>,
  isCurrent: boolean,
  now: number,
): NodeMetadataPlan {
  const { groups, groupObjects, managedNodes, metadataNotes } = snapshot;
  const known = knownIn(groupObjects);
  const wantedBy = wantedOf(groupObjects);
  const byName = new Map(wantedBy.size === 0 ? [] : managedNodes.map((one) => [one.name, one]));
  // Only what a group gives, or has given, concerns a Node.
  const concerned = wantedBy.size === 0 ? withGroupMetadataIn(nodes).flat() : nodes.flat();
  const evaluated = concerned.flatMap((node) => {
    const group = groupFor(node, byName.get(node.metadata.name), groups);
    const wanted = wantedBy.get(group?.name ?? '') ?? keptFor(node, groups, wantedBy);
    const isConcerned =
      node.metadata.deletionTimestamp === undefined && (wanted !== undefined || hasGroupMetadata(node));
    return isConcerned ? [evaluate(node, { wanted, known }, metadataNotes.get(node.metadata.uid), now)] : [];
  });
  const of = byGroupOf(evaluated);
  const byGroup = new Map(groupObjects.map((object) => [object.metadata.name, metadataOf(object, of)]));
  const finalizers = finalizersOf(snapshot, byGroup, now);
  const removed = [...finalizers].flatMap(([group, change]) => (change === 'Remove' ? group : []));
  const left = removed.map((group) => [group, byGroup.get(group.metadata.name)?.pending ?? []] as const);
  const given = new Set(evaluated.filter(hasAll).map(({ change }) => change.wanted?.group));
  const unheld = unheldIn(groupObjects);
  const due = evaluated
    .filter(({ isDue, change }) => isDue && !change.groups.some((name) => unheld.has(name)))
    .map(({ change }) => change);
  return {
    changes: isCurrent ? due.map((one) => ({ ...one, isOnOthers: given.has(one.wanted?.group) })) : [],
    byGroup,
    finalizers: isCurrent ? finalizers : new Map(),
    leftBehind: new Map(left.filter(([, names]) => names.length > 0)),
    times: [
      ...evaluated.map(({ note, conflicts }) => (conflicts.length > 0 ? note?.checkAt : undefined)),
      ...groupObjects.map(({ metadata }) => removalEnds(metadata.deletionTimestamp)),
    ],
  };
}

const withGroupMetadataIn = ofParts((part: readonly NodeView[]) => part.filter(hasGroupMetadata));

function hasAll({ change: { groups, wanted }, conflicts }: EvaluatedNode): boolean {
  return wanted !== undefined && groups.length === 0 && conflicts.length === 0;
}

/** Without those that have no record yet: keys that a Node is to own again would be left out for ever. */
function knownIn(groups: readonly BottlerocketNodeGroup[]): MetadataInput['known'] {
  return new Map(
    groups.flatMap(({ metadata: { name }, status }) => {
      const rendered = readRendered(status);
      return rendered === undefined ? [] : [[name, knownKeys(rendered)] as const];
    }),
  );
}

/** Nodes are written when the finalizer sees to it that a group does not end before it is removed from them. */
function wantedOf(groups: readonly BottlerocketNodeGroup[]): ReadonlyMap<string, WantedMetadata> {
  return new Map(
    groups.flatMap(({ metadata: { name, deletionTimestamp, finalizers = [] }, status }) => {
      const rendered = readRendered(status);
      const isWanted = deletionTimestamp === undefined && finalizers.includes(NODE_METADATA_FINALIZER);
      return isWanted && rendered !== undefined ? [[name, { group: name, rendered }] as const] : [];
    }),
  );
}

/**
 * Groups that lack only the finalizer to give something, as after `kubectl replace`. By {@link wantedOf} they give nothing yet,
 * which is no reason to remove what their Nodes have.
 */
function unheldIn(groups: readonly BottlerocketNodeGroup[]): ReadonlySet<string> {
  const unheld = groups.filter(({ metadata: { deletionTimestamp, finalizers = [] }, status }) => {
    const isHeld = deletionTimestamp !== undefined || finalizers.includes(NODE_METADATA_FINALIZER);
    return !isHeld && !isEmpty(readRendered(status), true);
  });
  return new Set(unheld.map(({ metadata: { name } }) => name));
}

/**
 * A group may end while its node updates, such as by another name. Then it is the one that the labels of the node select: what both
 * give must not be absent until the update has ended.
 */
function groupFor(
  node: NodeView,
  managedNode: ManagedNode | undefined,
  groups: readonly NodeGroup[],
): NodeGroup | undefined {
  if (managedNode === undefined || !isManaged(node)) return undefined;
  const { group, shadow } = managedNode;
  const hasEnded = group === undefined && shadow !== undefined && holdsGroup(shadow) && groupAtStart(shadow) !== '';
  return hasEnded ? groupOf(node.metadata.labels ?? {}, groups, undefined) : group;
}

/**
 * What remains on a Node that is not managed, but is still in the group by its labels. A kubelet may remove the label of managed
 * nodes, but not taints, nor labels that NodeRestriction protects: so it must not be rid of these.
 */
function keptFor(
  node: NodeView,
  groups: readonly NodeGroup[],
  wantedBy: ReadonlyMap<string, WantedMetadata>,
): WantedMetadata | undefined {
  if (isManaged(node) || !hasGroupMetadata(node)) return undefined;
  const { labels: found = {} } = node.metadata;
  const wanted = wantedBy.get(groupOf(found, groups, undefined)?.name ?? '');
  if (wanted === undefined) return undefined;
  const { group, rendered } = wanted;
  const kept = Object.entries(rendered.labels).filter(([key]) => isProtectedLabel(key) && found[key] !== undefined);
  const taints = rendered.taints.filter((taint) => hasTaint(node.taints, taint));
  return { group, rendered: { ...rendered, labels: Object.fromEntries(kept), annotations: {}, taints } };
}

function evaluate(
  node: NodeView,
  { wanted, known }: Pick<MetadataInput, 'wanted' | 'known'>,
  note: MetadataNote | undefined,
  now: number,
): EvaluatedNode {
  const { labels = {}, annotations = {} } = node.metadata;
  // Only labels show that another value was set since; for annotations the Node is read again.
  const noted = (note?.conflicts ?? []).filter(({ field, key, found }) => field !== 'labels' || labels[key] === found);
  const foreign = noted.filter(({ field }) => field === 'annotations').map(({ key, found }) => [key, found] as const);
  const shown = { ...annotations, ...Object.fromEntries<string>(foreign) };
  const state = { labels, annotations: shown, taints: node.taints, applied: node.applied };
  const owner: MetadataInput['otherOwner'] = (field, key) =>
    noted.find((one) => one.field === field && one.key === key)?.manager;
  const { writes, conflicts } = decideMetadata({ state, wanted, known, otherOwner: owner });
  const groups = [...new Set(writes.flatMap((write) => write.groups))];
  const isDue = writes.length > 0 || (conflicts.length > 0 && (note === undefined || note.checkAt <= now));
  const isNew = (taint: NodeTaint): boolean => taint.effect === 'NoExecute' && !hasTaint(node.taints, taint);
  const evicts = writes.some((write) => write.kind === 'Taints' && write.taints.some(isNew));
  const [isRejected, isChangedBack] = [note?.rejection !== undefined, note?.isChangedBack === true];
  return { change: { node, wanted, known, groups, evicts, isRejected, isChangedBack }, conflicts, isDue, note };
}

/** By the name of the group: the nodes on which it waits for a write, and those with a conflict. */
interface OfGroups {
  readonly pending: ReadonlyMap<string, readonly EvaluatedNode[]>;
  readonly conflicting: ReadonlyMap<string, readonly EvaluatedNode[]>;
}

function byGroupOf(evaluated: readonly EvaluatedNode[]): OfGroups {
  const pending = new Map<string, EvaluatedNode[]>();
  for (const one of evaluated) {
    for (const group of one.change.groups) {
      const known = pending.get(group);
      if (known === undefined) pending.set(group, [one]);
      else known.push(one);
    }
  }
  const inConflict = evaluated.filter(({ conflicts }) => conflicts.length > 0);
  return { pending, conflicting: Map.groupBy(inConflict, ({ change }) => change.wanted?.group ?? '') };
}

function metadataOf({ metadata, status }: BottlerocketNodeGroup, of: OfGroups): GroupMetadata {
  const { name: group, generation, finalizers = [] } = metadata;
  const rendered = readRendered(status);
  const isHeld = finalizers.includes(NODE_METADATA_FINALIZER) || isEmpty(rendered, true);
  const pending = of.pending.get(group) ?? [];
  const rejected = pending.find(({ note }) => note?.rejection !== undefined);
  const changedBack = pending.filter(({ change }) => change.isChangedBack);
  return {
    isRecorded: rendered?.generation === generation && isHeld,
    pending: pending.map(({ change }) => change.node.metadata.name),
    conflicts: (of.conflicting.get(group) ?? []).flatMap(({ change, conflicts }) =>
      conflicts.map((one) => ({ ...one, node: change.node.metadata.name })),
    ),
    changedBack: changedBack.map(({ change }) => change.node.metadata.name),
    rejected: rejected && { node: rejected.change.node.metadata.name, message: rejected.note?.rejection ?? '' },
  };
}

function finalizersOf(
  { groupObjects, clockSkewMs }: Snapshot,
  byGroup: ReadonlyMap<string, GroupMetadata>,
  now: number,
): ReadonlyMap<BottlerocketNodeGroup, GroupFinalizer> {
  const isNeeded = ({ metadata, status }: BottlerocketNodeGroup): boolean => {
    const isPending = (byGroup.get(metadata.name)?.pending.length ?? 0) > 0;
    const ends = removalEnds(metadata.deletionTimestamp);
    if (ends !== undefined) return isPending && (now < ends || isClockWrong(clockSkewMs));
    return isPending || !isEmpty(readRendered(status), status?.confirmedGeneration === metadata.generation);
  };
  return new Map(
    groupObjects.flatMap((object): [BottlerocketNodeGroup, GroupFinalizer][] => {
      const { finalizers = [], deletionTimestamp } = object.metadata;
      const [has, needs] = [finalizers.includes(NODE_METADATA_FINALIZER), isNeeded(object)];
      // The API server refuses new finalizers of an object that is being deleted.
      if (has === needs || (needs && deletionTimestamp !== undefined)) return [];
      return [[object, needs ? 'Add' : 'Remove']];
    }),
  );
}

function removalEnds(deletionTimestamp: string | undefined): number | undefined {
  const deletedAt = parseTime(deletionTimestamp);
  return deletedAt === undefined ? undefined : deletedAt + REMOVAL_LIMIT_MS;
}
