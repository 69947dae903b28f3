/**
 * Which workloads fail on a node since its update, compared with nodes of the former version. When a drain starts, the
 * record of its node has the workloads whose pods were Ready there, and how long these took. A pod on an updated node
 * counts when its workload is in such a record of the last hour, and the pod
 *
 *     cannot start      at once
 *     is restarted      at the second time of one container, if it was created since the drain of its node
 *     is not Ready      after twice the time that the slowest one took before, at least a minute
 *
 * So does a workload in the record of the node itself that needs a label or an extended resource that the node had then and has
 * lost, after as long: no pod of it runs there any more, wherever its pods run now or wait (docs/adr/0075). What the scheduler
 * says of pods that wait is not asked for: it gives no names of nodes, and room is not the version.
 *
 * A workload that was broken before is in no record. One that is not Ready on nodes of other versions either fails
 * everywhere: all pods are listed once before anything is concluded. What no node of another version has either is lost
 * everywhere.
 */
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import { isTerminating } from '@brupop/shared/drain/pods';
import { certainSkew } from '@brupop/shared/kube/server-clock';
import { parseTime } from '@brupop/shared/runtime/clock';
import { firstFew } from '@brupop/shared/runtime/errors';
import { offers } from '../../cluster/needs.ts';
import { RESTARTED_MS } from '../../cluster/pods.ts';
import type { NodePair, ObservedPod } from '../../cluster/snapshot.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { isAccepted } from './deadlines.ts';
import { comparedAs, isCompared } from './drainability.ts';
import type { Moment } from '../../kept/moment.ts';
import type { Parts } from '../../kept/parts.ts';

export interface Suspect {
  /** `Kind namespace/name`, and the revision of a DaemonSet or StatefulSet. */
  readonly workload: string;
  readonly problem: string;
  /** The node whose drain moved the pod, if it is another one. */
  readonly from?: string;
  /** What the node has lost; not recorded. */
  readonly need?: string;
}

/** A workload that fails on a node, as its record says. */
export interface SuspectNode extends Suspect {
  readonly node: string;
  readonly version: string;
  /** Epoch milliseconds. */
  readonly at: number;
}

interface Drain {
  readonly name: string;
  /** Epoch milliseconds. */
  readonly at: number;
  /** The version that its node ran. */
  readonly release: string;
  /** How many seconds their pods took to become Ready. */
  readonly workloads: Readonly<Record<string, number>>;
}

/** What was Ready on a node within this time is compared. */
const COUNTS_MS = 3_600_000;
const LEAST_MS = 60_000;
export const MOST_MS = 600_000;
/** A drain has moved pods that were created within this time after its start. */
const MOVES_MS = 1_800_000;
/** Two clocks give creation times and starts of drains, with whole seconds. */
const TOLERANCE_MS = 2_000;

/** What was Ready on the nodes that were drained in the last hour. */
export class ReadyBefore {
  readonly #pairs: Parts<NodePair>;
  readonly #now: number;
  #found: readonly Drain[] | undefined;
  readonly #byWorkload = new Map<string, readonly Drain[]>();

  constructor(pairs: Parts<NodePair>, now: number) {
    this.#pairs = pairs;
    this.#now = now;
  }

  /** How long a pod may be not Ready on `version`, milliseconds; undefined: no node of another version shows it. */
  limitMs(workload: string, version: string): number | undefined {
    const release = releaseOf(version);
    const seconds = this.#of(workload).flatMap((drain) =>
      drain.release === release ? [] : (drain.workloads[workload] ?? []),
    );
    if (seconds.length === 0) return undefined;
    return Math.min(MOST_MS, Math.max(LEAST_MS, 2_000 * Math.max(...seconds)));
  }

  /** The node whose drain moved a pod that was created at `createdAt`, if it is another one. */
  originOf(workload: string, createdAt: number, node: string): string | undefined {
    const before = this.#of(workload).filter(({ at }) => at <= createdAt + TOLERANCE_MS && createdAt <= at + MOVES_MS);
    const latest = before.toSorted((a, b) => b.at - a.at)[0]?.name;
    return latest === node ? undefined : latest;
  }

  #of(workload: string): readonly Drain[] {
    const found = this.#byWorkload.get(workload) ?? this.#drains.filter((one) => one.workloads[workload] !== undefined);
    this.#byWorkload.set(workload, found);
    return found;
  }

  get #drains(): readonly Drain[] {
    this.#found ??= this.#pairs.flat().flatMap((pair) => drainOf(pair, this.#now) ?? []);
    return this.#found;
  }
}

function drainOf({ name, shadow: { record } }: NodePair, now: number): Drain | undefined {
  const { readyBefore, from: version } = record;
  if (readyBefore === undefined || version === undefined) return undefined;
  const at = parseTime(readyBefore.at) ?? 0;
  return now - at > COUNTS_MS || at > now
    ? undefined
    : { name, at, release: releaseOf(version), workloads: readyBefore.workloads };
}

/** True when pods are compared after an update. */
export function isObserved({ health: { pods, watchForMs } }: Pick<UpdatePolicy, 'health'>): boolean {
  return pods !== 'Ignored' && watchForMs > 0;
}

/**
 * Returns the workloads that fail, without those that a user has accepted.
 * @param fleet - whose `rollout.resume` counts: a suspect may hold or freeze a version for all, so no group can accept it
 */
export function suspectsOf({ name, shadow, policy }: NodePair, now: Moment, fleet: UpdatePolicy): SuspectNode[] {
  const { record, updated, status } = shadow;
  if (record.suspects === undefined || updated === undefined || !isObserved(policy)) return [];
  if (!sameVersion(updated.version, status?.current_version)) return [];
  return record.suspects.flatMap(({ at: time, ...suspect }) => {
    const at = parseTime(time) ?? now.ms;
    return isAccepted(at, fleet, now) ? [] : [{ ...suspect, at, node: name, version: updated.version }];
  });
}

interface ListedPods {
  /** The name of the node. */
  readonly node: string;
  readonly version: string;
  readonly pods: readonly ObservedPod[];
  /** Epoch milliseconds, as the next. */
  readonly listedAt: number;
  /** By how much this process' clock is ahead of that of kube-apiserver, if that is known. */
  readonly skewMs: number | undefined;
  /** When the drain of the node started, and its update succeeded. */
  readonly drainedAt: number;
  readonly since: number;
  /** By workload, what the node had then and has not now. */
  readonly lost: ReadonlyMap<string, string>;
  readonly health: UpdatePolicy['health'];
  /** The workloads that were found before: they count for as long as they fail. */
  readonly known: ReadonlySet<string>;
}

interface Found {
  readonly suspects: readonly Suspect[];
  /** When the next pod that is not Ready yet counts, epoch milliseconds; Infinity: none. */
  readonly nextAt: number;
}

/** Returns the workloads that fail on a node, each once. */
export function suspectsAmong(listed: ListedPods, before: ReadyBefore): Found {
  const { version, known } = listed;
  const limitOf: LimitOf = (workload) =>
    before.limitMs(workload, version) ?? (known.has(workload) ? LEAST_MS : undefined);
  const failing = failingAmong(listed, before, limitOf);
  const lost = lostAmong(listed, limitOf);
  // What the pods show says more.
  const suspects = new Map([...lost.suspects, ...failing.suspects].map((one) => [one.workload, one]));
  return {
    suspects: [...suspects.values()],
    nextAt: Math.min(failing.nextAt, lost.nextAt),
  };
}

/** How long it may take to be Ready, milliseconds; undefined: it does not count. */
type LimitOf = (workload: string) => number | undefined;

function failingAmong(listed: ListedPods, before: ReadyBefore, limitOf: LimitOf): Found {
  const { node, listedAt } = listed;
  const aheadMs = certainSkew(listed.skewMs);
  const suspects = new Map<string, Suspect>();
  let nextAt = Infinity;
  for (const pod of listed.pods.filter((one) => counts(one, listed.health))) {
    const workload = comparedAs(pod);
    const limitMs = limitOf(workload);
    if (limitMs === undefined || suspects.has(workload)) continue;
    const createdAt = (parseTime(pod.metadata.creationTimestamp) ?? listedAt - aheadMs) + aheadMs;
    // Kubelets go by the time of kube-apiserver as well.
    const lateAt = Math.max(createdAt, (pod.readyChanged ?? 0) + aheadMs) + limitMs;
    const problem = problemOf(pod, listed, createdAt, lateAt);
    if (problem !== undefined) suspects.set(workload, { workload, problem, ...movedBy(pod, createdAt, node, before) });
    else if (!pod.ready) nextAt = Math.min(nextAt, lateAt);
  }
  return { suspects: [...suspects.values()], nextAt };
}

function lostAmong({ lost, since, listedAt }: ListedPods, limitOf: LimitOf): Found {
  const late = [...lost].map(([workload, need]) => ({ workload, need, at: since + (limitOf(workload) ?? Infinity) }));
  return {
    suspects: late
      .filter(({ at }) => at <= listedAt)
      .map(({ workload, need }) => ({ workload, problem: `no longer finds ${need}`, need })),
    nextAt: Math.min(...late.map(({ at }) => (at > listedAt ? at : Infinity))),
  };
}

/** By workload, what the node had when its drain started and has not now, of what it needs. */
export function lostOn({ node, shadow, policy }: NodePair): ReadonlyMap<string, string> {
  const { needs = {} } = shadow.record.readyBefore ?? {};
  const { ignoredNamespaces } = policy.health;
  const lost = new Map<string, string>();
  for (const [workload, all] of Object.entries(needs)) {
    const need = all.find((one) => !offers(node, one));
    if (need !== undefined && !ignoredNamespaces.includes(namespaceOf(workload))) lost.set(workload, need);
  }
  return lost;
}

/** No drain moves the pods of a DaemonSet. */
function movedBy(pod: ObservedPod, createdAt: number, node: string, before: ReadyBefore): Pick<Suspect, 'from'> {
  const from = pod.daemonSet === undefined ? before.originOf(comparedAs(pod), createdAt, node) : undefined;
  return from === undefined ? {} : { from };
}

function counts(pod: ObservedPod, { ignoredNamespaces }: UpdatePolicy['health']): boolean {
  const { namespace = '' } = pod.metadata;
  return isCompared(pod) && !pod.healthIgnored && !isTerminating(pod) && !ignoredNamespaces.includes(namespace);
}

/** The boot restarts the containers of pods that were there before, which says nothing. */
function problemOf(pod: ObservedPod, { listedAt, drainedAt }: ListedPods, createdAt: number, lateAt: number) {
  if (pod.failing) return 'cannot start';
  const { mostRestarts, restartedAt = 0 } = pod;
  const isNew = createdAt + TOLERANCE_MS >= drainedAt;
  if (isNew && mostRestarts > 1 && listedAt - restartedAt < RESTARTED_MS) return 'is restarted again and again';
  return !pod.ready && listedAt >= lateAt ? 'does not become Ready' : undefined;
}

/** `Kind namespace/name` */
export function controllerOf({ workload }: Suspect): string {
  return workload.split(' ', 2).join(' ');
}

/** True for a workload of a namespace whose users may stop the updates of the fleet. */
export function isTrusted(workload: string, { health }: Pick<UpdatePolicy, 'health'>, ownNamespace: string): boolean {
  if (health.pods === 'Required') return true;
  const namespace = namespaceOf(workload);
  return namespace === ownNamespace || health.trustedNamespaces.includes(namespace);
}

/** For messages, such as `these workloads fail on the node: ReplicaSet shop/web does not become Ready, moved there by the drain of node-b`. */
export function describeSuspects(suspects: readonly Suspect[]): string {
  const list = suspects.map(({ workload, problem, from }) => {
    const moved = from === undefined ? '' : ` (its pod was moved there by the drain of ${from})`;
    return `${workload} ${problem}${moved}`;
  });
  return `these workloads fail on the node: ${firstFew(list)}`;
}

/**
 * Returns items about workloads in the order in which they are kept where there is room for some only, as in the record of
 * a node. By rank first; among those of one rank each namespace has one in turn, so that users who may create pods in a few
 * namespaces do not crowd out the workloads of others.
 * @param workloadOf - `Kind namespace/name`
 * @param rankOf - of a workload; lower ones come first
 */
export function byPrecedence<T>(
  items: readonly T[],
  workloadOf: (item: T) => string,
  rankOf: (workload: string) => number,
): T[] {
  const turns = new Map<string, number>();
  const placed = items
    .map((item) => ({ item, workload: workloadOf(item) }))
    .toSorted((a, b) => (a.workload < b.workload ? -1 : 1))
    .map(({ item, workload }) => {
      const rank = rankOf(workload);
      const key = `${rank} ${namespaceOf(workload)}`;
      const turn = turns.get(key) ?? 0;
      turns.set(key, turn + 1);
      return { item, rank, turn };
    });
  return placed.toSorted((a, b) => a.rank - b.rank || a.turn - b.turn).map(({ item }) => item);
}

function namespaceOf(workload: string): string {
  const [namespace = ''] = workload.slice(workload.indexOf(' ') + 1).split('/');
  return namespace;
}
