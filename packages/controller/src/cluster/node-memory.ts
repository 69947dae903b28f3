/**
 * What this process remembers about nodes in addition to their objects. A kubelet may cordon its Node,
 * change the label of its zone, date its conditions by a wrong clock, and cause its shadow to be deleted and recreated by removing the
 * managed label. The memory limits the effects: {@link Cluster} adds it to each snapshot. It starts
 * empty in a new process, so each of these limits starts again. What it dates itself, it dates by the monotonic clock: the
 * other one may be hours ahead when a process starts, and be set back.
 */
import { ZONE_LABEL } from '@brupop/shared/api/names';
import { ownedByUs } from '@brupop/shared/node/ownership';
import { type Instant, wallTimeOf } from '@brupop/shared/runtime/clock';
import { taintName } from './group-metadata.ts';
import { type NodeView, zoneOf } from './node.ts';
import { asSighted, type Sightings, sightingsOf } from './sightings.ts';
import type { ShadowView } from './shadow.ts';
import { isUnderWay, mayBeInUpdate } from './state.ts';
import type { FormerShadow, ManagedNode } from './snapshot.ts';

const HOUR_MS = 60 * 60_000;
/** The longest time for which a recreated shadow holds a slot before its first update. */
const FORMER_SLOT_MS = HOUR_MS;
/** The times of several cordons add up, unless the Node was without one for this long. */
const CORDON_MEMORY_MS = 24 * HOUR_MS;
/** Where the monotonic clock begins. */
const PROCESS_START = 0;
const MAX_NAMES = 20_000;

interface Cordon {
  readonly isOn: boolean;
  /** Start of the cordon, later by the time without one; on the monotonic clock, as the next. */
  readonly since: number;
  readonly endedAt: number;
}

type Remembered = Pick<ManagedNode, 'former' | 'missingSince' | 'cordonedSince' | 'settingsSince'>;

export class NodeMemory {
  /** `slotUntil` is on the monotonic clock. */
  readonly #former = new Map<string, FormerShadow>();
  /** When the Node or the shadow of a pair was deleted while the other one stayed, on the monotonic clock. */
  readonly #missing = new Map<string, number>();
  readonly #cordons = new Map<string, Cordon>();
  /** By UID: since when the Node has each of its taints that evict pods, on the monotonic clock. */
  readonly #evicting = new Map<string, ReadonlyMap<string, number>>();
  /** By name, what the agent has reported of the settings of its host; `since` is on the monotonic clock. */
  readonly #settings = new Map<string, { readonly mark: string; readonly since: number }>();
  /** By UID: a zone never changes. */
  readonly #zones = new Map<string, string>();
  /** By UID. */
  readonly #sightings = new Map<string, Sightings>();
  /** Nodes as {@link asObserved} returns them: each change of a Node is another object. */
  readonly #observed = new WeakMap<NodeView, NodeView>();

  /** `node` is undefined after its deletion. */
  node(name: string, node: NodeView | undefined, shadow: ShadowView | undefined, now: Instant): void {
    const ours = node !== undefined && ownedByUs(node) && shadow !== undefined && isUnderWay(shadow);
    this.#cordon(name, node?.unschedulable === true && !ours, now.monotonic);
    if (node === undefined) return;
    const { uid } = node.metadata;
    this.#evict(node, now.monotonic);
    if (zoneOf(node) !== '' && !this.#zones.has(uid)) remember(this.#zones, uid, zoneOf(node));
    remember(this.#sightings, uid, sightingsOf(node, this.#sightings.get(uid), now.wall));
  }

  /** Whether one of the Node and the shadow is missing now. */
  missing(name: string, isMissing: boolean, { monotonic }: Instant): void {
    if (isMissing) this.#missing.set(name, monotonic);
    else this.#missing.delete(name);
  }

  forget({ metadata: { uid } }: NodeView): void {
    this.#zones.delete(uid);
    this.#evicting.delete(uid);
    this.#sightings.delete(uid);
  }

  /** Call for each shadow that this process observes for the first time: the node is new, unless it has the operator's cordon. */
  shadowAdded(name: string, node: NodeView | undefined, { monotonic: now }: Instant): void {
    if (this.#former.has(name) || (node !== undefined && ownedByUs(node))) return;
    remember(this.#former, name, { startedAt: undefined, slotUntil: now });
  }

  /** Call for each change of a shadow. A new process takes the time at which it first sees the settings. */
  settings(name: string, { status }: ShadowView, { monotonic: since }: Instant): void {
    const { lastApplied, inFlight } = status?.settings ?? {};
    const mark = JSON.stringify([lastApplied, inFlight]);
    if (this.#settings.get(name)?.mark !== mark) remember(this.#settings, name, { mark, since });
  }

  shadowDeleted(name: string, shadow: ShadowView, { wall, monotonic: now }: Instant): void {
    const before = this.#former.get(name);
    const ageMs = wall - (shadow.times.createdAt ?? wall);
    const known = before?.slotUntil ?? now - ageMs + FORMER_SLOT_MS;
    const slotUntil = mayBeInUpdate(shadow) ? now + FORMER_SLOT_MS : known;
    remember(this.#former, name, { startedAt: shadow.times.startedAt ?? before?.startedAt, slotUntil });
  }

  /** Times are epoch milliseconds. */
  of(name: string, now: Instant): Remembered {
    const [former, cordon, settings] = [this.#former.get(name), this.#cordons.get(name), this.#settings.get(name)];
    return {
      former: former && { ...former, slotUntil: wallTimeOf(former.slotUntil, now) },
      missingSince: wallTimeOf(this.#missing.get(name) ?? PROCESS_START, now),
      cordonedSince: cordon?.isOn === true ? wallTimeOf(cordon.since, now) : undefined,
      settingsSince: settings && wallTimeOf(settings.since, now),
    };
  }

  /**
   * When the Node got the latest of those taints that its group gives and that evict pods, epoch milliseconds. A kubelet cannot
   * change taints, so nothing that it writes counts.
   */
  evictedSince({ node, group }: Pick<ManagedNode, 'node' | 'group'>, now: Instant): number | undefined {
    const seen = this.#evicting.get(node?.metadata.uid ?? '');
    const times = (group?.rendered?.taints ?? []).flatMap((taint) => seen?.get(taintName(taint)) ?? []);
    return times.length === 0 ? undefined : wallTimeOf(Math.max(...times), now);
  }

  /** Returns the Node with the zone in which it was first observed, and with the times of {@link Sightings}. */
  asObserved(node: NodeView): NodeView {
    const known = this.#observed.get(node);
    if (known !== undefined) return known;
    const observed = this.#observe(node);
    this.#observed.set(node, observed);
    return observed;
  }

  #observe(node: NodeView): NodeView {
    const { uid, labels } = node.metadata;
    const seen = asSighted(node, this.#sightings.get(uid));
    const zone = this.#zones.get(uid);
    if (zone === undefined || zone === zoneOf(node)) return seen;
    return { ...seen, metadata: { ...node.metadata, labels: { ...labels, [ZONE_LABEL]: zone } } };
  }

  /** A new process takes the time at which it first sees them. */
  #evict({ taints, metadata: { uid } }: NodeView, now: number): void {
    const before = this.#evicting.get(uid);
    const names = taints.filter(({ effect }) => effect === 'NoExecute').map(taintName);
    if (names.length === 0) this.#evicting.delete(uid);
    else remember(this.#evicting, uid, new Map(names.map((name) => [name, before?.get(name) ?? now])));
  }

  #cordon(name: string, isOn: boolean, now: number): void {
    const before = this.#cordons.get(name);
    if (before?.isOn === isOn || (before === undefined && !isOn)) return;
    const { since = now, endedAt = now } = before ?? {};
    if (!isOn) remember(this.#cordons, name, { isOn, since, endedAt: now });
    else if (now - endedAt >= CORDON_MEMORY_MS) remember(this.#cordons, name, { isOn, since: now, endedAt });
    else remember(this.#cordons, name, { isOn, since: now - (endedAt - since), endedAt });
  }
}

/** Removes the oldest name when there are too many. */
function remember<T>(memory: Map<string, T>, name: string, value: T): void {
  memory.delete(name);
  memory.set(name, value);
  const [oldest] = memory.keys();
  if (memory.size > MAX_NAMES && oldest !== undefined) memory.delete(oldest);
}
