/**
 * Whether the pods that a drain evicts fit on other nodes (`spec.health.room`): what they request, against
 * what is allocatable and not requested yet. It starts from the latest list of all pods, and gives each pod
 * the first node that has room for it, the largest pods and the emptiest nodes first:
 *
 *     at first             pods that wait to be scheduled, and those of nodes that are about to be drained
 *     check(node)          tries the pods of the node, and changes nothing
 *     reserve(node)        gives them their nodes, before the next node is checked
 *
 * A pod may run on a node that is Ready and not cordoned, whose taints it tolerates and whose labels its
 * nodeSelector wants. Affinity, topology spread and volumes are not looked at: the scheduler knows them.
 */
import type { PlacedPod } from '../../cluster/all-pods.ts';
import type { Toleration } from '../../cluster/pod-needs.ts';
import type { NodeTaint } from '../../cluster/group-metadata.ts';
import { isBeingRemoved, type NodeView } from '../../cluster/node.ts';
import { type Amounts, plus } from '../../cluster/requests.ts';
import { isEvicted, leaves, type Workloads } from './workloads.ts';

export interface RoomView {
  readonly nodes: readonly NodeView[];
  /** Names of the nodes that are about to be drained, or are being drained. */
  readonly draining: ReadonlySet<string>;
  readonly workloads: Workloads;
}

/** `unknown`: the pods were not listed yet. Otherwise the pod that fits nowhere, or undefined. */
export type RoomAnswer = 'unknown' | PlacedPod | undefined;

interface Place {
  readonly node: NodeView;
  readonly free: Amounts;
}

/** What is left where pods were placed. */
type Taken = Map<Place, Amounts>;

/** Sums of fractions of a core are not exact. */
const ROUNDING = 1e-6;
/** More pods that wait would not change much, and would take long. */
const MAX_WAITING = 1_000;
const CORDON_TAINT = 'node.kubernetes.io/unschedulable';

interface State {
  readonly places: readonly Place[];
  /** By the node that they are evicted from, or were given here; of the empty name: those that wait. */
  readonly evicted: ReadonlyMap<string, PlacedPod[]>;
}

export class Room {
  readonly #view: RoomView;
  #state: State | undefined;
  readonly #taken: Taken = new Map();
  /** The kinds of pods that fit on no node: room only becomes less in one plan. */
  readonly #misfits = new Set<string>();

  constructor(view: RoomView) {
    this.#view = view;
  }

  check({ metadata: { name } }: NodeView): RoomAnswer {
    const pods = this.#view.workloads.pods;
    if (pods === undefined) return 'unknown';
    const { places, evicted } = this.#stateOf(pods);
    const going = evicted.get(name) ?? [];
    const known = going.find((pod) => this.#misfits.has(kindOf(pod)));
    if (known !== undefined) return known;
    const others = places.filter(({ node }) => node.metadata.name !== name);
    const tried: Taken = new Map(this.#taken);
    const misfit = going.find((pod) => place(pod, others, tried) === undefined);
    if (misfit !== undefined && place(misfit, places, new Map(this.#taken)) === undefined)
      this.#misfits.add(kindOf(misfit));
    return misfit;
  }

  reserve({ metadata: { name } }: NodeView): void {
    if (this.#state === undefined) return;
    const { places, evicted } = this.#state;
    const others = places.filter(({ node }) => node.metadata.name !== name);
    this.#state = { places: others, evicted };
    this.#give(evicted.get(name) ?? [], this.#state);
  }

  #stateOf(pods: readonly PlacedPod[]): State {
    if (this.#state !== undefined) return this.#state;
    const { nodes, draining } = this.#view;
    const used = usedBy(pods);
    const going = pods.filter((pod) => (draining.has(pod.node) ? leaves(pod) : isEvicted(pod)));
    const evicted = Map.groupBy(going.toSorted(bySize), ({ node }) => node);
    for (const { metadata } of nodes) if (!evicted.has(metadata.name)) evicted.set(metadata.name, []);
    const places = nodes
      .filter((node) => isUsable(node) && !draining.has(node.metadata.name))
      .map((node) => ({ node, free: minus(node.allocatable, used.get(node.metadata.name) ?? {}) }))
      .toSorted((a, b) => (b.free['cpu'] ?? 0) - (a.free['cpu'] ?? 0));
    const drained = [...draining].flatMap((name) => evicted.get(name) ?? []);
    this.#state = { places, evicted };
    this.#give([...(evicted.get('') ?? []).slice(0, MAX_WAITING), ...drained], this.#state);
    return this.#state;
  }

  /** A pod that is given a node has to leave it again when that one starts. */
  #give(pods: readonly PlacedPod[], { places, evicted }: State): void {
    for (const pod of pods) {
      const node = place(pod, places, this.#taken);
      if (node !== undefined) evicted.get(node)?.push(pod);
    }
  }
}

function isUsable(node: NodeView): boolean {
  return node.ready && !node.unschedulable && !isBeingRemoved(node);
}

function usedBy(pods: readonly PlacedPod[]): Map<string, Amounts> {
  const used = new Map<string, Amounts>();
  for (const { node, requests } of pods) if (node !== '') used.set(node, plus(used.get(node) ?? {}, requests));
  return used;
}

/** The largest first. A pod with 4 GiB counts as much as one with a core. */
function bySize(a: PlacedPod, b: PlacedPod): number {
  return sizeOf(b) - sizeOf(a) || (a.key < b.key ? -1 : 1);
}

function sizeOf({ requests }: PlacedPod): number {
  return (requests['cpu'] ?? 0) + (requests['memory'] ?? 0) / 2 ** 32;
}

function kindOf({ requests, nodeSelector, tolerations, isLarge }: PlacedPod): string {
  return JSON.stringify([requests, nodeSelector, tolerations, isLarge]);
}

/** Takes room for the pod on the first node that has enough, and returns the name of that node. */
function place(pod: PlacedPod, places: readonly Place[], taken: Taken): string | undefined {
  const freeOf = (one: Place): Amounts => taken.get(one) ?? one.free;
  const found = places.find((one) => isWithin(pod.requests, freeOf(one)) && mayRun(pod, one.node));
  if (found !== undefined) taken.set(found, minus(freeOf(found), pod.requests));
  return found?.node.metadata.name;
}

function mayRun(
  { nodeSelector, tolerations, isLarge }: PlacedPod,
  { metadata: { labels = {} }, taints }: NodeView,
): boolean {
  const matches = Object.entries(nodeSelector).every(([key, value]) => labels[key] === value);
  const strict = taints.filter(({ key, effect }) => effect !== 'PreferNoSchedule' && key !== CORDON_TAINT);
  return !isLarge && matches && strict.every((taint) => tolerations.some((toleration) => tolerates(toleration, taint)));
}

/** As Kubernetes "Taints and Tolerations" has it. */
function tolerates(toleration: Toleration, taint: NodeTaint): boolean {
  const isAnyValue = toleration.operator === 'Exists';
  const isOfKey = (toleration.key ?? '') === '' ? isAnyValue : toleration.key === taint.key;
  const isOfEffect = (toleration.effect ?? '') === '' || toleration.effect === taint.effect;
  return isOfKey && isOfEffect && (isAnyValue || (toleration.value ?? '') === (taint.value ?? ''));
}

function isWithin(requests: Amounts, free: Amounts): boolean {
  return Object.entries(requests).every(
    ([resource, amount]) => amount === 0 || amount <= (free[resource] ?? 0) + ROUNDING,
  );
}

function minus(a: Amounts, b: Amounts): Amounts {
  const negative = Object.fromEntries(Object.entries(b).map(([resource, amount]) => [resource, -amount]));
  return plus(a, negative);
}
