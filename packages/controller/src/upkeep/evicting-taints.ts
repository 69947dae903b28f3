/**
 * Decides which Nodes may get a taint of their group now that evicts pods, which an eviction by the taint manager does
 * without disruption budgets. In each group, for the same taints:
 *
 *     until one node has had them for TAINT_PROVING_MS, and is Ready    one node at a time
 *     then                                                        within the limits of spec.concurrency
 *
 * Only inside the windows, and not during a pause, while watches are stale, the clock is wrong or connectivity is lost,
 * with a mistake in the configuration or the group, on a node that updates, or on one that a user has left out. A node that
 * has just got such a taint holds an update slot for TAINT_PROVING_MS (`facts/slots.ts`). It does not matter why a node is
 * to get the taint: an edited group, another selector or precedence, a label of the Node, or a removed taint. A Node whose
 * write was rejected, or that another writer changes back, is tried after all others, and one that is not Ready after those
 * that are. If the first one goes off, another one is tried after UNREADY_COUNTS_MS; if that one does too, no more. One that
 * a user leaves out does not count.
 */
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { namesOf } from '@brupop/shared/runtime/errors';
import { hasTaint } from '../cluster/group-metadata.ts';
import { type NodeView, skippedBy } from '../cluster/node.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { TAINT_PROVING_MS } from '../plan/facts/slots.ts';
import type { FleetState } from '../plan/fleet/fleet-state.ts';
import { DISRUPTION_GATES, takeSlot, whyNoSlot } from '../plan/gates/without-update.ts';
import { windowOpen } from '../plan/gates/fleet.ts';
import { notSkipped } from '../plan/gates/node.ts';
import { type Blocked, firstOf } from '../plan/facts/reasons.ts';
import type { MetadataChange, NodeMetadataPlan } from './node-metadata.ts';

/** A node that is not Ready holds up the others for this long after it got the taints: then the cause is another one. */
const UNREADY_COUNTS_MS = 10 * 60_000;
/** With so many of them, and none that is Ready with the taints, these may be the cause. */
const MAX_OFF = 2;
/** What prevents any eviction. */
const GATES = [...DISRUPTION_GATES, notSkipped, windowOpen];
/** What the eviction needs of a window. */
const EVICTION_MS = 5 * 60_000;

/** Removes the changes that have to wait, and says why in the metadata of their groups. */
export function withoutEvictions(
  metadata: NodeMetadataPlan,
  fleetState: FleetState,
  managedNodes: readonly ManagedNode[],
): NodeMetadataPlan {
  const { now } = fleetState;
  if (!metadata.changes.some(({ evicts }) => evicts)) return metadata;
  const byName = new Map(managedNodes.map((one) => [one.name, one]));
  const taintedOf = new Map<string, Tainted>();
  const waiting = new Map<string, string>();
  const lookUps: NodeView[] = [];
  const times: (number | undefined)[] = [];
  const changes = metadata.changes.toSorted(inOrder).filter(({ evicts, node, wanted }) => {
    const managedNode = byName.get(node.metadata.name);
    if (!evicts || managedNode === undefined || wanted === undefined) return true;
    const tainted = taintedOf.get(wanted.group) ?? taintedIn(managedNodes, wanted, now);
    taintedOf.set(wanted.group, tainted);
    const blocked = whyNot({ managedNode, node }, tainted, fleetState);
    if (blocked === undefined) {
      takeSlot({ node, group: managedNode.group }, fleetState);
      tainted.names.push(managedNode.name);
      return true;
    }
    if (blocked.lookUp === true) lookUps.push(node);
    if (blocked.isUnknown !== true && !waiting.has(wanted.group))
      waiting.set(wanted.group, `${node.metadata.name}: ${blocked.message}`);
    times.push(blocked.retryAt);
    return false;
  });
  const byGroup = new Map(
    [...metadata.byGroup].map(([name, found]) => [name, { ...found, waitsFor: waiting.get(name) }] as const),
  );
  return { ...metadata, changes, byGroup, lookUps, times: [...metadata.times, ...times] };
}

/** A node that does not get or keep the taints, or is off, proves nothing. */
function inOrder(a: MetadataChange, b: MetadataChange): number {
  const byName = a.node.metadata.name < b.node.metadata.name ? -1 : 1;
  const byKept = Number(a.isRejected || a.isChangedBack) - Number(b.isRejected || b.isChangedBack);
  return byKept || Number(b.node.ready) - Number(a.node.ready) || byName;
}

type Waits = Omit<Blocked, 'reason'>;

function whyNot(
  { managedNode, node }: { readonly managedNode: ManagedNode; readonly node: NodeView },
  tainted: Tainted,
  fleetState: FleetState,
): Waits | undefined {
  const { group, policy } = managedNode;
  const isUpdating = fleetState.slots.has(managedNode);
  return (
    firstOf(GATES, { ...fleetState, ...managedNode, node, policy, needMs: EVICTION_MS }) ??
    (isUpdating ? { message: 'It is updating' } : undefined) ??
    whyNotMore(tainted) ??
    whyNoSlot({ node, group, policy }, fleetState)
  );
}

/** The nodes of a group that have its taints that evict pods, but for those that a user has left out. */
interface Tainted {
  /** Names of those that have been off for long. Of the others are {@link names}. */
  readonly off: readonly string[];
  /** Includes those that get them in this plan. */
  readonly names: string[];
  /** Names of those that are not Ready. */
  readonly unready: readonly string[];
  readonly isProved: boolean;
}

function taintedIn(
  managedNodes: readonly ManagedNode[],
  { group, rendered }: NonNullable<MetadataChange['wanted']>,
  now: number,
): Tainted {
  const isOlder = ({ evictedSince = -Infinity }: ManagedNode, ms: number): boolean => now - evictedSince >= ms;
  const isOff = (one: ManagedNode): boolean => one.node?.ready === false && isOlder(one, UNREADY_COUNTS_MS);
  const evicting = rendered.taints.filter(({ effect }) => effect === 'NoExecute');
  const all = managedNodes.filter(({ group: of, node }) => {
    if (of?.name !== group || node === undefined || skippedBy(node) !== undefined) return false;
    return evicting.every((taint) => hasTaint(node.taints, taint));
  });
  const tainted = all.filter((one) => !isOff(one));
  return {
    off: all.filter(isOff).map(({ name }) => name),
    names: tainted.map(({ name }) => name),
    unready: tainted.filter(({ node }) => node?.ready === false).map(({ name }) => name),
    isProved: tainted.some((one) => one.node?.ready === true && isOlder(one, TAINT_PROVING_MS)),
  };
}

/** Undefined: a node of the group has proved the taints, or none has got them yet. */
function whyNotMore({ off, names, unready, isProved }: Tainted): Waits | undefined {
  if (unready.length > 0) return { message: `${namesOf(unready)} got its taints that evict pods, and is not Ready` };
  if (isProved) return undefined;
  if (off.length >= MAX_OFF) {
    const message = `${namesOf(off)} got its taints that evict pods first, and have not been Ready since; if the taints are not the cause, leave them out with the annotation ${SKIP_ANNOTATION}`;
    return { message };
  }
  if (names.length === 0) return undefined;
  const first = namesOf(names);
  return { message: `${first} gets its taints that evict pods first, and has to be Ready with them for a minute` };
}
