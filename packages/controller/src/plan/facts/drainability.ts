/**
 * Whether a node may be drained now, by the latest list of its pods and the disruption budgets.
 *
 *     drainable    the list is fresh, and no pod on it blocks the drain
 *     blocked      a pod does, until the pods are listed again
 *     tried        all that blocks it are budgets that the cordon of the node may open, and `spec.drain.blockedBudgets`
 *                  is TryLast: the node is cordoned although they hold its pods
 *
 * The start of an attempt on a blocked node is recorded with it, so the wait until the next one holds whatever ends it.
 * It is no failure.
 */
import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainBlock } from '@brupop/shared/api/shadow';
import type { BudgetIndex, IndexedBudgets } from '@brupop/shared/drain/budget-index';
import { type DrainPod, isTerminating, podsToEvict } from '@brupop/shared/drain/pods';
import { preflight, type PreflightFacts } from '@brupop/shared/drain/preflight';
import { isFromFuture } from '@brupop/shared/api/deadlines';
import { delayAfter } from '@brupop/shared/runtime/backoff';
import { parseTime } from '@brupop/shared/runtime/clock';
import { listOf } from '@brupop/shared/runtime/errors';
import type { NodeView } from '../../cluster/node.ts';
import { type PodsOfNode, REVISION_LABEL, type Snapshot } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import { isUnderWay } from '../../cluster/state.ts';
import { isWorkload } from './workloads.ts';

/** The result of the preflight, by the latest list of the pods on the node. */
export interface Drainable {
  /** What blocks the drain, or undefined. */
  readonly block: string | undefined;
  /** All that blocks it are disruption budgets that the cordon of the node may open. */
  readonly mayOpen: boolean;
  /** The list is recent enough to cordon the node. */
  readonly fresh: boolean;
  /** When the pods of a blocked node are listed again, epoch milliseconds. */
  readonly recheckAt: number;
  readonly problem: string | undefined;
  /** When the pods were listed, epoch milliseconds; undefined: not yet. */
  readonly seenAt: number | undefined;
  readonly podHealth: () => PodHealth;
  /** As they were listed. */
  readonly pods: readonly DrainPod[];
}

/** Of the pods on the node. */
export interface PodHealth {
  /** The DaemonSets in trusted namespaces whose pods are not Ready, as `namespace/name`, in order. */
  readonly unready: readonly string[];
  /** Since when their other pods are Ready, epoch milliseconds. */
  readonly readySince: number;
  /** The other controllers whose pods cannot start, as `Kind namespace/name`, in order. */
  readonly failing: readonly string[];
  /** When a pod of another controller was last restarted, epoch milliseconds, by `Kind namespace/name`. */
  readonly restarts: ReadonlyMap<string, number>;
  /** Those of them whose pods run between two crashes. */
  readonly crashing: readonly string[];
  /** Since when a pod of a controller has not been Ready, epoch milliseconds, by `Kind namespace/name`. */
  readonly notReadySince: ReadonlyMap<string, number>;
  /** The workloads whose pods a drain evicts, likewise. */
  readonly evicted: readonly string[];
  /** Of the workloads and DaemonSets whose pods are all Ready: how many seconds the slowest took, by {@link comparedAs}. */
  readonly ready: ReadonlyMap<string, number>;
  /** What all of their pods need of the node, likewise; those that need nothing are absent. */
  readonly needs: ReadonlyMap<string, readonly string[]>;
}

/** When more lists fail than this, and none has succeeded lately, it is not because of the nodes. */
const MAX_FAILING_LISTS = 10;
const LATELY_MS = 60_000;

/** True when the cause that lists fail may concern all nodes. */
function noListWorks(pods: Snapshot['pods'], now: number): boolean {
  const known = [...pods.values()];
  const failing = known.filter(({ problem, isTooLarge }) => problem !== undefined && isTooLarge !== true);
  if (failing.length <= MAX_FAILING_LISTS) return false;
  return !known.some(({ problem, seenAt = -Infinity }) => problem === undefined && now - seenAt < LATELY_MS);
}

/** A drain may start on a list of this age. */
const FRESH_MS = 10_000;
/** Budgets are watched, pods are not: those that block a node are listed again after this time, */
const RECHECK_MS = 60_000;
/** and this much later for each node whose pods are known, to limit the load. */
const RECHECK_EACH_MS = 100;

type DrainView = Pick<Snapshot, 'pods' | 'budgets' | 'mayForce' | 'ownNamespace'>;

/** The drains of the nodes for which one plan asks. */
export class Drains {
  /** The names of these nodes; the pods of other nodes are not needed. */
  readonly requested = new Set<string>();
  /** See {@link noListWorks}. */
  readonly noListWorks: boolean;
  readonly #view: DrainView;
  readonly #now: number;

  constructor(view: DrainView, now: number) {
    this.#view = view;
    this.#now = now;
    this.noListWorks = noListWorks(view.pods, now);
  }

  of(node: NodeView, policy: Pick<UpdatePolicy, 'drain' | 'health'>): Drainable {
    this.requested.add(node.metadata.name);
    return this.known(node, policy);
  }

  /** The same for a node whose pods are not needed therefore. */
  known({ metadata }: NodeView, { drain, health }: Pick<UpdatePolicy, 'drain' | 'health'>): Drainable {
    const { pods, budgets, mayForce, ownNamespace } = this.#view;
    const known = pods.get(metadata.name);
    if (known === undefined || known.nodeUID !== metadata.uid) return UNKNOWN;
    const { seenAt, problem } = known;
    // The clock may have been set back.
    if (seenAt === undefined || seenAt > this.#now) return { ...UNKNOWN, problem };
    return {
      ...check(known, budgets, { drain, podGracePeriodMs: health.podGracePeriodMs, mayForce, now: seenAt }),
      fresh: this.#now - seenAt <= FRESH_MS,
      recheckAt: seenAt + RECHECK_MS + RECHECK_EACH_MS * pods.size,
      problem,
      seenAt,
      podHealth: () => knownHealth({ pods: known.pods, seenAt }, health, ownNamespace),
      pods: known.pods,
    };
  }
}

const NO_PODS: PodHealth = {
  unready: [],
  readySince: 0,
  failing: [],
  restarts: new Map(),
  crashing: [],
  notReadySince: new Map(),
  evicted: [],
  ready: new Map(),
  needs: new Map(),
};
const UNKNOWN: Drainable = {
  block: undefined,
  mayOpen: false,
  fresh: false,
  recheckAt: 0,
  problem: undefined,
  seenAt: undefined,
  podHealth: () => NO_PODS,
  pods: [],
};

interface KnownHealth {
  readonly health: UpdatePolicy['health'];
  readonly found: PodHealth;
}

/** Of each list of pods, as long as the settings are the same. */
const healths = new WeakMap<readonly DrainPod[], KnownHealth>();

/** Of one node. */
interface ListedPods {
  readonly pods: readonly DrainPod[];
  /** Epoch milliseconds. */
  readonly seenAt: number;
}

function knownHealth(listed: ListedPods, health: UpdatePolicy['health'], ownNamespace: string): PodHealth {
  const known = healths.get(listed.pods);
  if (known?.health === health) return known.found;
  const found = healthOf(listed, { ...health, ownNamespace });
  healths.set(listed.pods, { health, found });
  return found;
}

interface Namespaces extends Pick<UpdatePolicy['health'], 'ignoredNamespaces' | 'trustedNamespaces'> {
  readonly ownNamespace: string;
}

function healthOf(
  { pods, seenAt }: ListedPods,
  { ignoredNamespaces, trustedNamespaces, ownNamespace }: Namespaces,
): PodHealth {
  const healthCounts = ({ healthIgnored, metadata: { namespace = '' } }: DrainPod): boolean =>
    !healthIgnored && !ignoredNamespaces.includes(namespace);
  const staying = pods.filter((pod) => !isTerminating(pod));
  const counted = staying.filter(healthCounts);
  const daemons = counted.filter(({ daemonSet }) => {
    const [namespace = ''] = daemonSet?.split('/') ?? [];
    return daemonSet !== undefined && (namespace === ownNamespace || trustedNamespaces.includes(namespace));
  });
  const unready = daemons.filter(({ ready }) => !ready).map(({ daemonSet = '' }) => daemonSet);
  const others = counted.filter((pod) => pod.daemonSet === undefined && pod.controller !== '' && !pod.mirror);
  const failing = others.filter((pod) => pod.failing);
  const crashing = others.filter((pod) => isInCrashLoop(pod, seenAt));
  // Every DaemonSet is assumed to exist.
  const evicted = podsToEvict(
    staying.filter(({ healthIgnored }) => !healthIgnored),
    { orphaned: new Set() },
  ).filter(({ finished }) => !finished);
  const compared = counted.filter((pod) => isCompared(pod) && !pod.finished);
  const times = daemons.flatMap(({ ready, readyChanged }) => (ready ? (readyChanged ?? []) : []));
  return {
    unready: inOrder(unready),
    readySince: Math.max(0, ...times),
    failing: inOrder(failing.map(({ controller }) => controller)),
    restarts: byName(
      others.map(({ controller, restartedAt }) => [controller, restartedAt]),
      Math.max,
    ),
    crashing: inOrder(crashing.map(({ controller }) => controller)),
    notReadySince: byName(
      unreadyOf(counted).map(({ controller, readyChanged }) => [controller, readyChanged]),
      Math.min,
    ),
    evicted: inOrder(evicted.map(({ controller }) => controller).filter(isWorkload)),
    ready: readyIn(compared, seenAt),
    needs: needsIn(compared),
  };
}

/** A kubelet forgets the crashes of a container that has run for this long. */
const CRASHES_COUNT_MS = 600_000;

/** True for a pod that was restarted again and again, and may be Ready only until it crashes the next time. */
function isInCrashLoop({ mostRestarts, restartedAt = -Infinity }: DrainPod, seenAt: number): boolean {
  return mostRestarts > 1 && seenAt - restartedAt < CRASHES_COUNT_MS;
}

function readyIn(compared: readonly DrainPod[], seenAt: number): Map<string, number> {
  const ready = byName(
    compared.map((pod) => [comparedAs(pod), secondsToReady(pod)]),
    Math.max,
  );
  for (const pod of compared) if (!pod.ready || isInCrashLoop(pod, seenAt)) ready.delete(comparedAs(pod));
  return ready;
}

function needsIn(compared: readonly DrainPod[]): Map<string, readonly string[]> {
  const needs = new Map<string, readonly string[]>();
  for (const pod of compared) {
    const { needs: own = [] } = pod;
    const known = needs.get(comparedAs(pod));
    needs.set(comparedAs(pod), known === undefined ? own : known.filter((need) => own.includes(need)));
  }
  return new Map([...needs].filter(([, found]) => found.length > 0));
}

/** True for a pod of a workload or a DaemonSet, which is like the other pods of its controller. */
export function isCompared({ controller, mirror }: Pick<DrainPod, 'controller' | 'mirror'>): boolean {
  return !mirror && (isWorkload(controller) || controller.startsWith('DaemonSet '));
}

/** Its controller, with the revision of one that keeps its name: another revision may fail whatever its node runs. */
export function comparedAs({
  controller,
  metadata: { labels = {} },
}: Pick<DrainPod, 'controller' | 'metadata'>): string {
  const revision = labels[REVISION_LABEL];
  return revision === undefined ? controller : `${controller} ${revision}`;
}

/** That of a pod of a DaemonSet changes with each boot. */
const MAX_SECONDS = 300;

/** A pod that was not Ready for a while since shows more than it took. */
function secondsToReady({ readyChanged = 0, metadata: { creationTimestamp } }: DrainPod): number {
  const ms = readyChanged - (parseTime(creationTimestamp) ?? readyChanged);
  return Math.min(MAX_SECONDS, Math.max(0, Math.ceil(ms / 1000)));
}

function unreadyOf(pods: readonly DrainPod[]): DrainPod[] {
  return pods.filter(({ ready, finished, mirror, controller }) => !ready && !finished && !mirror && controller !== '');
}

type Dated = readonly (readonly [name: string, time: number | undefined])[];

/** Without those whose time is not known. */
function byName(dated: Dated, chosen: (a: number, b: number) => number): Map<string, number> {
  const times = new Map<string, number>();
  for (const [name, time] of dated) {
    if (time !== undefined) times.set(name, chosen(time, times.get(name) ?? time));
  }
  return times;
}

function inOrder(names: readonly string[]): string[] {
  return [...new Set(names)].toSorted();
}

interface CheckInput extends PreflightFacts {
  readonly drain: DrainSettings;
}

type Result = Pick<Drainable, 'block' | 'mayOpen'>;

interface DrainCheck {
  readonly result: Result;
  readonly settings: DrainSettings;
  /** By namespace, the budgets that were compared. */
  readonly budgets: ReadonlyMap<string, BudgetIndex | undefined>;
}

/** The latest check of each list of pods, valid until its budgets or the settings change. */
const checks = new WeakMap<readonly DrainPod[], DrainCheck>();

/** Compares the pods with their budgets if the list, one of the budgets or the settings changed. */
function check({ pods, namespaces }: PodsOfNode, budgets: IndexedBudgets, input: CheckInput): Result {
  const known = checks.get(pods);
  const isChecked = known?.settings === input.drain;
  if (isChecked && isUnchanged(known.budgets, budgets)) return known.result;
  const used = new Map([...namespaces].map((name) => [name, budgets.get(name)]));
  const result =
    isChecked && isUnchangedFor(pods, known.budgets, used) ? known.result : checkAnew(pods, budgets, input);
  checks.set(pods, { result, settings: input.drain, budgets: used });
  return result;
}

function isUnchanged(used: DrainCheck['budgets'], budgets: IndexedBudgets): boolean {
  for (const [name, index] of used) if (budgets.get(name) !== index) return false;
  return true;
}

function isUnchangedFor(
  pods: readonly DrainPod[],
  used: DrainCheck['budgets'],
  current: DrainCheck['budgets'],
): boolean {
  return pods.every((pod) => {
    const { namespace = '' } = pod.metadata;
    const [earlier, now] = [used.get(namespace), current.get(namespace)];
    return now === undefined ? earlier === undefined : now.isSameFor(pod, earlier);
  });
}

function checkAnew(pods: readonly DrainPod[], budgets: IndexedBudgets, { drain, ...facts }: CheckInput): Result {
  const blocks = preflight(pods, budgets, drain, facts);
  if (blocks.length === 0) return { block: undefined, mayOpen: false };
  return { block: describeBlocks(blocks), mayOpen: blocks.every(({ mayOpen }) => mayOpen) };
}

export function isDrainBlocked({ block, recheckAt }: Drainable, now: number): boolean {
  return block !== undefined && now < recheckAt;
}

export function isDrainable({ block, fresh }: Drainable): boolean {
  return fresh && block === undefined;
}

export function describeBlocks(blocks: readonly DrainBlock[]): string {
  return listOf(blocks.map(({ pod, message }) => `${pod} ${message}`));
}

/** Between two attempts on a blocked node. */
const WAITS = { baseMs: 60 * 60_000, capMs: 24 * 60 * 60_000 };

/** When the node may be cordoned again, epoch milliseconds; 0: it was not yet. */
export function nextTryAt({ record }: ShadowView, now: number): number {
  const { count = 0, at: time } = record.blockedDrains ?? {};
  const at = parseTime(time);
  if (at === undefined || count === 0 || isFromFuture(at, now)) return 0;
  return at + delayAfter(count, WAITS);
}

/** True while the update under way was started although budgets hold pods. */
export function isTrying(shadow: ShadowView): boolean {
  const { blockedDrains, startedAt } = shadow.record;
  return isUnderWay(shadow) && blockedDrains !== undefined && blockedDrains.at === startedAt;
}

/** True when nothing blocks the drain of the node but what its cordon may open, and it is tried. */
export function mayBeDrained(drainable: Drainable, shadow: ShadowView): boolean {
  return isDrainable(drainable) || (drainable.fresh && drainable.mayOpen && isTrying(shadow));
}
