/**
 * What a BottlerocketNodeGroup gives to its Nodes and their hosts, as the status of the group records it. Nodes follow the record, never the
 * spec: a release of the operator that renders the same spec otherwise changes nothing until the spec changes.
 *
 *     no record, or the spec has changed and has no mistake --> rendered and recorded
 *     recorded for this generation -------------------------> the record stays
 *     the spec has a mistake -------------------------------> the record of the latest good spec stays
 *
 * The record also has the keys that the new rendering dropped. Nothing but recorded keys is ever removed from a Node, since a
 * kubelet may write on its own Node that a group owns other ones.
 */
import { type KeyValues, type Rendered, readRendered, taintId } from '@brupop/shared/api/node-metadata';
import type { BottlerocketNodeGroup, NodeGroupRules } from '@brupop/shared/api/node-group';
import { leavesOf } from '@brupop/shared/api/settings';
import { type Difference, differences } from '@brupop/shared/api/spec-schema';

export type Rendering = Pick<Rendered, 'conflicts' | 'labels' | 'annotations' | 'taints' | 'settings'>;

export function render({
  nodeMetadata: { labels, annotations, taints, conflicts },
  settings,
}: Pick<NodeGroupRules, 'nodeMetadata' | 'settings'>): Rendering {
  return {
    conflicts,
    labels: sorted(labels),
    annotations: sorted(annotations),
    taints: taints.toSorted(byId),
    settings: sorted(Object.fromEntries(leavesOf(settings))),
  };
}

function sorted(values: KeyValues): KeyValues {
  return Object.fromEntries(Object.entries(values).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function byId(a: Rendering['taints'][number], b: Rendering['taints'][number]): number {
  return taintId(a) < taintId(b) ? -1 : 1;
}

/** What the status is to record. `object` has the status as it was last written. */
export function recordOf(
  { metadata: { generation = 0 }, status }: Pick<BottlerocketNodeGroup, 'metadata' | 'status'>,
  { rendering, problem }: { readonly rendering: Rendering; readonly problem: string | undefined },
): Rendered | undefined {
  const before = readRendered(status);
  if (problem !== undefined || before?.generation === generation) return before;
  const isDone = before !== undefined && status?.confirmedGeneration === before.generation;
  return { generation, ...rendering, dropped: dropped(before, rendering, isDone) };
}

/** With what earlier changes dropped, unless all Nodes have confirmed these. */
function dropped(before: Rendered | undefined, now: Rendering, isDone: boolean): Rendered['dropped'] {
  const [old, earlier, kept] = [keysIn(before), isDone ? undefined : before?.dropped, keysIn(now)];
  const of = (field: keyof Rendered['dropped']): string[] => {
    const all = new Set([...old[field], ...(earlier?.[field] ?? [])]);
    return [...all].filter((key) => !kept[field].includes(key)).toSorted();
  };
  return { labels: of('labels'), annotations: of('annotations'), taints: of('taints') };
}

function keysIn(rendering: Rendering | undefined): Rendered['dropped'] {
  const { labels = {}, annotations = {}, taints = [] } = rendering ?? {};
  return { labels: Object.keys(labels), annotations: Object.keys(annotations), taints: taints.map(taintId) };
}

/** The keys that may be removed from Nodes which claim to have them of this group. */
export interface KnownKeys {
  readonly labels: ReadonlySet<string>;
  readonly annotations: ReadonlySet<string>;
  readonly taints: ReadonlySet<string>;
}

export function knownKeys(rendered: Rendered | undefined): KnownKeys {
  const kept = keysIn(rendered);
  const both = (field: keyof Rendered['dropped']): Set<string> =>
    new Set([...kept[field], ...(rendered?.dropped[field] ?? [])]);
  return { labels: both('labels'), annotations: both('annotations'), taints: both('taints') };
}

/** Nothing of the group is on a Node, nor may be left on one. */
export function isEmpty(
  rendered: (Rendering & Partial<Pick<Rendered, 'dropped'>>) | undefined,
  isObserved: boolean,
): boolean {
  const kept = keysIn(rendered);
  const lists = [kept, ...(isObserved || rendered?.dropped === undefined ? [] : [rendered.dropped])];
  return lists.every(({ labels, annotations, taints }) => labels.length + annotations.length + taints.length === 0);
}

/** What the next change of the spec also changes. */
export function pendingRendering(recorded: Rendered | undefined, rendering: Rendering): Difference[] {
  if (recorded === undefined) return [];
  const { settings, ...metadata } = rendering;
  const { conflicts, labels, annotations, taints } = recorded;
  return [
    ...differences({ conflicts, labels, annotations, taints }, metadata, 'nodeMetadata'),
    ...differences(recorded.settings, settings),
  ];
}
