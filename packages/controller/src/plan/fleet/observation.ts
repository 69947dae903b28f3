/**
 * Observes nodes after their updates, while others start: do workloads on them do what they did before? For each node,
 * from its success for `spec.health.watchFor`,
 *
 *     listed once      at the end; but when one of the first nodes of a version has succeeded, and another one after
 *                      it, no further node starts before the pods of the first are listed, nor while a pod on it
 *                      is not Ready that would count: with three nodes or fewer, however long that takes, and
 *                      with ten or fewer if it would within a minute
 *     listed again     when a pod that was not Ready then would count, once before the end and once after it; and at
 *                      the end in any case
 *     suspect          pods of workloads fail on it (`facts/suspects.ts`): listed every minute, later every hour, until
 *                      they are Ready, a user accepts it or the node starts another update
 *
 * The record of the node has its suspects. A workload of a trusted namespace counts as a failure of its node
 * (`facts/failed-nodes.ts`). When a workload fails on two nodes, or on one node to which the drain of another has moved
 * it, the version is held (`facts/freezes.ts`).
 */
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { namesOf } from '@brupop/shared/runtime/errors';
import type { PlacedPod } from '../../cluster/all-pods.ts';
import { offers } from '../../cluster/needs.ts';
import type { NodeView } from '../../cluster/node.ts';
import type { ManagedNode, NodePair, Snapshot } from '../../cluster/snapshot.ts';
import { isUnderWay } from '../../cluster/state.ts';
import { isPrevious } from '../facts/attempts.ts';
import { isAccepted } from '../facts/deadlines.ts';
import type { Drains } from '../facts/drainability.ts';
import { type HeldVersion, holdsOf } from '../facts/holds.ts';
import { Moment } from '../../kept/moment.ts';
import { ofKey, ofParts, ofPartsAt, pairsIn, type Parts } from '../../kept/parts.ts';
import {
  byPrecedence,
  controllerOf,
  isObserved,
  isTrusted,
  lostOn,
  MOST_MS,
  ReadyBefore,
  type Suspect,
  suspectsAmong,
  type SuspectNode,
  suspectsOf,
} from '../facts/suspects.ts';
import { type Successes, successesOf } from '../facts/versions.ts';
import type { Workloads } from '../facts/workloads.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import type { Blocked, Candidate } from '../facts/reasons.ts';

/** Nodes of a version whose pods are listed before others start. */
const FIRST_NODES = 10;
/** While no more nodes run the version, others wait for slow workloads as well. */
const SLOW_NODES = 3;
/** A node whose pods cannot be listed delays others no longer than this after its success. */
const MISSING_MS = 300_000;
/** After the end, for the last list. */
const GRACE_MS = 60_000;
const RECHECK_MS = 60_000;
const MAX_RECHECK_MS = 3_600_000;
const MAX_SUSPECTS = 10;

/** A node that is observed. */
interface Observed {
  readonly pair: NodePair;
  readonly version: string;
  /** When its update succeeded, epoch milliseconds. */
  readonly since: number;
  /** When its pods were listed since then, epoch milliseconds. */
  readonly listedAt: readonly number[];
  /** Undefined: its pods were not listed since. */
  readonly suspects: readonly Suspect[] | undefined;
  /** When a pod that is not Ready yet counts, epoch milliseconds. */
  readonly nextAt: number;
}

/** The suspects of a node have changed. */
interface SuspectsChange {
  readonly pair: NodePair;
  readonly suspects: NonNullable<NodePair['shadow']['record']['suspects']>;
}

type Known = Pick<Snapshot, 'observed' | 'config' | 'policy' | 'ownNamespace' | 'clockSkewMs'>;

export class Observation {
  readonly #now: number;
  readonly #drains: Drains;
  readonly #workloads: Workloads;
  readonly #pairs: Parts<NodePair>;
  readonly #observed: readonly Observed[];
  readonly holds: readonly HeldVersion[];
  /** The workloads that fail, without those that a user has accepted. */
  readonly suspects: readonly SuspectNode[];
  /** By release, as all that follow. */
  readonly #held: ReadonlyMap<string, Blocked>;
  /** Those that may not be held again. */
  readonly #over: ReadonlySet<string>;
  /** How many nodes have updated to it, and when the latest one did, epoch milliseconds. */
  readonly #successes: ReadonlyMap<string, Successes>;
  /** What was answered to nodes that are to start. */
  readonly #unknown = new Map<string, Blocked | undefined>();
  /** Whether a workload fails on a version only, as all pods show it. */
  readonly #confirmed = new Map<string, boolean>();
  /** The version of each node. */
  #running: ReadonlyMap<string, string> | undefined;

  constructor(
    known: Known,
    parts: Parts<ManagedNode>,
    { drains, workloads }: { drains: Drains; workloads: Workloads },
    now: number,
  ) {
    this.#now = now;
    this.#drains = drains;
    this.#workloads = workloads;
    this.#pairs = pairsIn(parts);
    const before = new ReadyBefore(this.#pairs, now);
    const moment = new Moment(now);
    this.#observed = observable(this.#pairs, known, now).flatMap((pair) => observedOf(pair, known, before, now) ?? []);
    this.suspects = suspectedIn(this.#pairs)
      .flat()
      .flatMap((one) => suspectsOf(one, moment, known.policy));
    this.holds = holdsOf(this.suspects, this.#pairs, known, moment);
    this.#held = new Map(this.holds.flatMap((one) => (one.suspects.length > 0 ? [blockedBy(one)] : [])));
    this.#over = new Set(this.holds.flatMap(({ version, isOver }) => (isOver ? [releaseOf(version)] : [])));
    this.#successes = this.#observed.length === 0 ? new Map() : successesOf(this.#pairs);
  }

  /** Names of the nodes of whose pods something is kept. */
  get names(): ReadonlySet<string> {
    return new Set(this.#observed.map(({ pair }) => pair.name));
  }

  /** The nodes whose pods must be listed now. */
  get lookUps(): readonly NodeView[] {
    const due = this.#observed.filter((one) => this.#isDue(one));
    for (const { pair } of due) this.#drains.requested.add(pair.name);
    return due.map(({ pair }) => pair.node);
  }

  /** When to look again, epoch milliseconds. */
  get times(): readonly number[] {
    const holds = this.holds.flatMap(({ until, suspects }) => (suspects.length > 0 ? [until] : []));
    return [...this.#observed.map((one) => dueAt(one, this.#now)), ...holds];
  }

  /** Whether it still fails, as a list of the pods since it was recorded (in whole seconds) shows; undefined: there is none. */
  stillFails({ node, workload, at }: SuspectNode): boolean | undefined {
    const { suspects, listedAt = [] } = this.#observed.find(({ pair }) => pair.name === node) ?? {};
    return (listedAt.at(-1) ?? 0) < at + 1_000 ? undefined : suspects?.some((one) => one.workload === workload);
  }

  /** What is to be recorded. All pods are listed before a suspect is recorded. */
  get changes(): readonly SuspectsChange[] {
    return this.#observed.flatMap((one) => this.#changeOf(one) ?? []);
  }

  /** Why the version is held. A reboot for settings does not change the version. */
  heldFor({ version, isReboot }: Pick<Candidate, 'version' | 'isReboot'>): Blocked | undefined {
    return isReboot || this.#held.size === 0 ? undefined : this.#held.get(releaseOf(version));
  }

  /** Why it is not known yet whether workloads fail on the first nodes that run the version. Asks for what is missing. */
  unknownFor({ version, isReboot }: Pick<Candidate, 'version' | 'isReboot'>): Blocked | undefined {
    if (isReboot) return undefined;
    const release = releaseOf(version);
    if (!this.#unknown.has(release)) this.#unknown.set(release, this.#whyUnknown(release));
    return this.#unknown.get(release);
  }

  #whyUnknown(release: string): Blocked | undefined {
    const { count } = this.#successes.get(release) ?? { count: 0 };
    // Later nodes are only observed, and after its hour a version is not held again.
    if (count > FIRST_NODES || this.#over.has(release)) return undefined;
    const ofVersion = this.#observed.filter(({ version }) => releaseOf(version) === release);
    const missing = ofVersion.filter((one) => this.#isMissing(one)).map(({ pair }) => pair);
    const [first] = missing;
    if (first !== undefined) {
      const { problem } = this.#drains.known(first.node, first.policy);
      const message = `The pods on ${namesOf(missing.map(({ name }) => name))}, whose update has succeeded, are being listed`;
      return problem === undefined
        ? { reason: 'PodListFailed', message, isUnknown: true }
        : { reason: 'PodListFailed', message: `${message}: ${problem}`, keepsPosition: true };
    }
    if (!ofVersion.some((one) => this.#isUnconfirmed(one) || this.#isSoonKnown(one))) return undefined;
    return { reason: 'PodListFailed', message: 'It is being found out whether workloads fail', isUnknown: true };
  }

  #isDue(one: Observed): boolean {
    const isDemanded = this.#unknown.has(releaseOf(one.version)) && this.#isMissing(one);
    return isDemanded || this.#now >= dueAt(one, this.#now);
  }

  /** True for one of the first nodes of its version that was not listed yet, after another one has succeeded. */
  #isMissing({ pair, version, since, suspects }: Observed): boolean {
    const { count, latest } = this.#successes.get(releaseOf(version)) ?? { count: 0, latest: 0 };
    const isOver = this.#now >= since + Math.min(pair.policy.health.watchForMs, MISSING_MS) + GRACE_MS;
    return suspects === undefined && !isOver && count <= FIRST_NODES && latest > since;
  }

  /** True for one of the first nodes while a pod on it is not Ready, and counts unless it becomes so. */
  #isSoonKnown({ version, listedAt, nextAt }: Observed): boolean {
    const [last = 0] = listedAt;
    const { count } = this.#successes.get(releaseOf(version)) ?? { count: 0 };
    const mostMs = count <= SLOW_NODES ? MOST_MS : RECHECK_MS;
    return listedAt.length === 1 && this.#now <= nextAt && nextAt - last <= mostMs;
  }

  /** True while all pods are being listed for a new suspect of the node. */
  #isUnconfirmed(one: Observed): boolean {
    return (one.suspects ?? []).some((suspect) => this.#isConfirmed(one, suspect) === undefined);
  }

  #changeOf(one: Observed): SuspectsChange | undefined {
    const { pair, suspects: found } = one;
    if (found === undefined) return undefined;
    const known = pair.shadow.record.suspects ?? [];
    const suspects = found
      .filter((suspect) => this.#isConfirmed(one, suspect) === true)
      .map((suspect) => known.find(isOf(suspect)) ?? { ...recordOf(suspect), at: rfc3339(this.#now) });
    return isSame(known, suspects) ? undefined : { pair, suspects };
  }

  /** Undefined: not known yet. Without a list of all pods, what was found counts. */
  #isConfirmed({ pair, version, listedAt }: Observed, suspect: Suspect): boolean | undefined {
    if (pair.shadow.record.suspects?.some(isOf(suspect)) === true) return true;
    // A list of a large cluster may take longer than until the next list of the node.
    const pods = this.#workloads.podsSince((listedAt.length > 2 ? listedAt.at(-2) : listedAt.at(-1)) ?? 0);
    if (pods === undefined) return this.#workloads.problem === undefined ? undefined : true;
    const key = `${releaseOf(version)} ${suspect.workload} ${suspect.need ?? ''}`;
    const known = this.#confirmed.get(key) ?? this.#failsOnlyOn(version, pods, suspect);
    this.#confirmed.set(key, known);
    return known;
  }

  /** False when the workload fails on nodes of other versions as well. */
  #failsOnlyOn(version: string, pods: readonly PlacedPod[], suspect: Suspect): boolean {
    this.#running ??= new Map(
      this.#pairs.flat().map(({ name, shadow: { status } }) => [name, status?.current_version ?? '']),
    );
    const running = this.#running;
    const own = byController(pods).get(controllerOf(suspect)) ?? [];
    const others = own.filter(
      ({ node, isTerminating }) => node !== '' && !isTerminating && !sameVersion(running.get(node), version),
    );
    if (suspect.need !== undefined && (own.length === 0 || !this.#isElsewhere(suspect.need, version))) return false;
    const unready = others.filter(({ ready }) => !ready);
    return unready.length === 0 || 2 * unready.length < others.length;
  }

  /** True when a node of another version has what one has lost. */
  #isElsewhere(need: string, version: string): boolean {
    return this.#pairs
      .flat()
      .some(({ node, shadow: { status } }) => !sameVersion(status?.current_version, version) && offers(node, need));
  }
}

const suspectedIn = ofParts((part: readonly NodePair[]) =>
  part.filter(({ shadow }) => shadow.record.suspects !== undefined),
);

const pairOf = ofKey(({ name }: NodePair) => name);

/** Of each list, since many suspects may be asked for. */
const indexes = new WeakMap<readonly PlacedPod[], ReadonlyMap<string, readonly PlacedPod[]>>();

function byController(pods: readonly PlacedPod[]): ReadonlyMap<string, readonly PlacedPod[]> {
  const index = indexes.get(pods) ?? Map.groupBy(pods, ({ controller }) => controller);
  indexes.set(pods, index);
  return index;
}

function blockedBy({ version, until }: HeldVersion): [release: string, blocked: Blocked] {
  const message = `Workloads fail on nodes that run ${version}; see the condition Held of BrupopConfig "cluster"`;
  return [releaseOf(version), { reason: 'Held', message, retryAt: until }];
}

const isOf =
  ({ workload }: Suspect) =>
  (other: Suspect): boolean =>
    other.workload === workload;

function recordOf({ workload, problem, from }: Suspect): Suspect {
  return { workload, problem, ...(from !== undefined && { from }) };
}

function isSame(known: SuspectsChange['suspects'], found: SuspectsChange['suspects']): boolean {
  return known.length === found.length && found.every((one) => known.includes(one));
}

/** Undefined: the node is not observed, or not any more. */
function observedOf(pair: NodePair, known: Known, before: ReadyBefore, now: number): Observed | undefined {
  const { updated } = pair.shadow;
  const isOver = updated === undefined || !isObserved(pair.policy) || now < updated.at;
  if (isOver || !runsIt(pair, updated.version)) return undefined;
  const one = seenOf(pair, updated, known, before, now);
  return isDuringObservation(one, known.policy, now) ? one : undefined;
}

/** Without the many nodes whose update ended a while ago, and of which nothing is known that might still count. */
function observable(pairs: Parts<NodePair>, { observed }: Known, now: number): NodePair[] {
  const recent = recentIn(pairs, now).flat();
  const names = new Set(recent.map(({ name }) => name));
  const others = [...observed.keys()].filter((name) => !names.has(name));
  return [...recent, ...others.flatMap((name) => pairOf(name, pairs) ?? [])];
}

const recentIn = ofPartsAt((part: readonly NodePair[], now) =>
  part.filter(({ shadow: { updated, record }, policy }) => {
    if (updated === undefined || !isObserved(policy) || !now.reached(updated.at)) return false;
    const end = updated.at + Math.max(policy.health.watchForMs, RECHECK_MS) + GRACE_MS;
    return record.suspects !== undefined || !now.reached(end);
  }),
);

function seenOf(
  pair: NodePair,
  { at: since, version }: NonNullable<NodePair['shadow']['updated']>,
  { observed, ownNamespace, clockSkewMs: skewMs }: Known,
  before: ReadyBefore,
  now: number,
): Observed {
  const found = observed.get(pair.name);
  const isOfNode = found?.nodeUID === pair.node.metadata.uid;
  const listedAt = isOfNode ? found.listedAt.filter((time) => time > since && time <= now) : [];
  const last = listedAt.at(-1);
  if (found === undefined || last === undefined)
    return { pair, version, since, listedAt, suspects: undefined, nextAt: Infinity };
  const listed = listedOn(pair, since);
  const { suspects, nextAt } = suspectsAmong({ ...listed, version, pods: found.pods, listedAt: last, skewMs }, before);
  const rankOf = (workload: string): number => {
    if (isTrusted(workload, pair.policy, ownNamespace)) return 0;
    return listed.known.has(workload) ? 1 : 2;
  };
  // Those that may freeze a version come first, and what is recorded is not displaced by what fails later.
  const kept = byPrecedence(suspects, ({ workload }) => workload, rankOf).slice(0, MAX_SUSPECTS);
  return { pair, version, since, listedAt, suspects: kept, nextAt };
}

function listedOn(pair: NodePair, since: number) {
  const {
    name,
    shadow: { record },
    policy: { health },
  } = pair;
  const drainedAt = parseTime(record.readyBefore?.at) ?? since;
  return {
    node: name,
    drainedAt,
    since,
    lost: lostOn(pair),
    health,
    known: new Set(record.suspects?.map(({ workload }) => workload)),
  };
}

/** After `watchFor` until a pod that was not Ready then is listed again, and while a workload fails. */
function isDuringObservation(one: Observed, fleet: UpdatePolicy, now: number): boolean {
  const { pair, since, listedAt } = one;
  if (now < since + pair.policy.health.watchForMs + GRACE_MS) return true;
  const next = nextListAt(one);
  const again = Number.isFinite(next) ? next : (listedAt.at(-1) ?? since) + RECHECK_MS;
  if (now < again + GRACE_MS) return true;
  const moment = new Moment(now);
  const { suspects = [] } = pair.shadow.record;
  return suspects.some(({ at }) => !isAccepted(parseTime(at) ?? 0, fleet, moment));
}

/** True while it is at rest on the version to which it was updated. */
function runsIt({ shadow }: NodePair, version: string): boolean {
  const isRunning = sameVersion(shadow.status?.current_version, version);
  return isRunning && !isPrevious(shadow, version) && !isUnderWay(shadow);
}

/** When the pods on the node are to be listed by time alone, epoch milliseconds. */
function dueAt(one: Observed, now: number): number {
  const { pair, listedAt, suspects } = one;
  const { record } = pair.shadow;
  const last = listedAt.at(-1) ?? 0;
  if (suspects === undefined) return record.suspects === undefined ? nextListAt(one) : now;
  if (suspects.length > 0 || record.suspects !== undefined) return last + recheckMs(record, last);
  return nextListAt(one);
}

/** At the end, and before and after it once more when a pod was not Ready; Infinity: not again. */
function nextListAt({ pair, since, listedAt, nextAt }: Observed): number {
  const end = since + pair.policy.health.watchForMs;
  const late = listedAt.filter((time) => time >= end);
  const { length } = late.length > 0 ? late : listedAt;
  if (length === 1 && Number.isFinite(nextAt)) return nextAt;
  return late.length > 0 ? Infinity : end;
}

/** The longer the workloads have failed, the later. */
function recheckMs({ suspects = [] }: NodePair['shadow']['record'], last: number): number {
  const since = Math.min(last, ...suspects.map(({ at }) => parseTime(at) ?? last));
  return Math.min(MAX_RECHECK_MS, Math.max(RECHECK_MS, (last - since) / 6));
}
