import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { type Member, type Snapshot, viewTimes } from '../cluster/snapshot.ts';
import type { FleetSettings, Rules } from '../policy/policy.ts';
import { assess, type Assessment, type Standing } from './assess.ts';
import { expectedMs, startedAt } from './attempts.ts';
import type { Room } from './capacity.ts';
import type { CleanUp } from './cleanup.ts';
import { updating, type Verdict, waiting } from './condition.ts';
import { isOverdue } from './deadlines.ts';
import { type Scene, sceneOf } from './fleet.ts';
import { type Outlook, outlookOf } from './forecast.ts';
import { type Candidate, whyNot, whyNotDrained } from './gates/index.ts';
import { isConcerned } from './gates/selection.ts';
import { inOrder } from './order.ts';
import type { Reason, Wait } from './reasons.ts';
import { type SpecChange, startSpec } from './transition.ts';

export interface SpecWrite extends SpecChange {
  readonly shadow: ShadowView;
  readonly node: NodeView;
}

export interface NodeVerdict {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly verdict: Verdict;
  /** It is about an update that the same plan calls off. */
  readonly calledOff: boolean;
}

/** Managed nodes by standing; `managed` is the sum of the others. */
export type NodeCounts = Readonly<Record<Standing | 'managed', number>>;

/** What is to be written, and why everything else waits. */
export interface Plan {
  readonly specs: readonly SpecWrite[];
  /** More hosts are to be set otherwise than `specs` says: the next plan goes on with them. */
  readonly moreSpecs: boolean;
  readonly verdicts: readonly NodeVerdict[];
  /** Those that are due. */
  readonly cleanUps: readonly CleanUp[];
  /** Nodes whose pods are to be looked up before it goes on. */
  readonly lookUps: readonly NodeView[];
  readonly taints: readonly TaintChange[];
  readonly fleet: FleetSettings;
  /** Resources of which nothing was heard for too long: nothing starts. */
  readonly stale: readonly string[];
  readonly counts: NodeCounts;
  readonly outlook: Outlook;
  /** The configuration has taken effect on all hosts that are heard of. */
  readonly isInEffect: boolean;
  /** When to plan again even if nothing changes, epoch milliseconds. */
  readonly wakeAt: number | undefined;
}

/** What one member adds to the plan. */
export interface Decision {
  readonly assessment: Assessment;
  readonly change?: SpecChange;
  readonly verdict?: Verdict;
  readonly standing?: Standing;
  readonly wait?: Wait;
  readonly lookUp?: boolean;
}

/** Decides what happens next in the whole fleet. Pure: the same snapshot and time give the same plan. */
export function plan(snapshot: Snapshot, now: number): Plan {
  const scene = sceneOf(snapshot, now);
  const { fleet, stale, drainOf, room, placeUntil } = scene;
  const assessments = snapshot.members.map((member) =>
    assess(member, {
      rules: rulesFor(member, scene),
      drainOf,
      whyNotDrained: (candidate) => holdsDrain(candidate, scene),
      now,
    }),
  );
  const contenders = inOrder(assessments.flatMap(contender), snapshot.ownNode, fleet.order);
  const admitted = admit(contenders, scene, room);
  const decisions = assessments.map((assessment) => admitted.get(assessment) ?? { ...assessment, assessment });
  const counted = decisions.filter(({ assessment }) => isCounted(assessment, fleet));
  const outlook = outlookOf({
    scene,
    counted,
    waiting: contenders.flatMap((one) => admitted.get(one.assessment) ?? []),
  });
  const wakes = [...decisions.flatMap(times), ...placeUntil.values(), ...outlook.times];
  return {
    ...specsOf(decisions),
    cleanUps: assessments.flatMap(({ cleanUp }) => (cleanUp !== undefined && cleanUp.dueAt <= now ? [cleanUp] : [])),
    ...lookUpsOf(
      decisions.map((decision) => (snapshot.config === undefined ? decision : withExpectation(decision, outlook))),
      snapshot,
      now,
    ),
    taints: decisions.flatMap((decision) => taintChange(decision.assessment.member, wantsTaint(decision, fleet))),
    fleet,
    stale,
    counts: count(counted),
    outlook,
    isInEffect: !counted.some(({ assessment }) => assessment.pending === true),
    wakeAt: earliest([...wakes, ...viewTimes(snapshot.silences, now), ...retries(snapshot)], now),
  };
}

/** Hosts that the configuration is not about keep their settings, or get them back. */
function rulesFor({ node }: Member, { rules, fleet }: Scene): Rules {
  return node === undefined || isConcerned(node, fleet) ? rules : { ...rules, hostSettings: undefined };
}

interface Contender {
  readonly assessment: Assessment;
  readonly candidate: Candidate;
}

function contender(assessment: Assessment): Contender[] {
  const { candidate } = assessment;
  return candidate === undefined ? [] : [{ assessment, candidate }];
}

function isCounted({ member: { node } }: Assessment, fleet: FleetSettings): boolean {
  return node !== undefined && isConcerned(node, fleet);
}

/** Sends the candidates through the gates, in their order, until the free places are taken. */
function admit(contenders: readonly Contender[], scene: Scene, room: Room): Map<Assessment, Decision> {
  const decisions = new Map<Assessment, Decision>();
  for (const { assessment, candidate } of contenders) {
    const { node, shadow } = candidate;
    const needMs = expectedMs(shadow, scene.estimate) + scene.estimate.marginMs;
    const drain = scene.drainOf(node);
    const wait = whyNot({ ...scene, candidate, drain, room: room.whyFull(node), needMs });
    // The place is kept for a node whose pods are being looked up.
    if (wait === undefined || wait.lookUp === true) room.take(node, true);
    decisions.set(assessment, wait === undefined ? start(assessment, candidate, scene) : hold(assessment, wait));
  }
  return decisions;
}

/** Why a staged node is not drained. The window must still be open for what is left of its update. */
function holdsDrain(candidate: Candidate, scene: Scene): Wait | undefined {
  const { node, shadow } = candidate;
  const { estimate, now } = scene;
  const since = startedAt(shadow) ?? now;
  const needMs = Math.max(1, estimate.marginMs + Math.max(0, expectedMs(shadow, estimate) - (now - since)));
  const yields = scene.yielding.has(node.metadata.name) ? TOO_MANY_AWAY : undefined;
  const late = isOverdue(shadow, scene.rules, now) ? PLACE_GONE : undefined;
  return whyNotDrained({ ...scene, candidate, drain: scene.drainOf(node), room: undefined, needMs }) ?? yields ?? late;
}

/** It does not count any more: others may have been drained since. */
const PLACE_GONE: Wait = {
  reason: 'WaitingForCapacity',
  message: 'Its drain could not begin before the deadline of its staging: its place may have gone to others',
};
const TOO_MANY_AWAY: Wait = { reason: 'WaitingForCapacity', message: 'More nodes are away than may be at once' };

function start(assessment: Assessment, { version }: Candidate, { rules, now }: Scene): Decision {
  const change = { spec: startSpec(version, rules, now), outcome: 'Started' } as const;
  return { assessment, change, verdict: updating(version), standing: 'updating' };
}

function hold(assessment: Assessment, wait: Wait): Decision {
  const { standing = 'waiting' } = assessment;
  return { assessment, standing, lookUp: wait.lookUp ?? false, wait, verdict: waiting(wait) };
}

/** The nodes that update next are told when that is expected to be. The status of the configuration keeps what they were told before. */
function withExpectation(decision: Decision, { turns }: Outlook): Decision {
  const { assessment, verdict } = decision;
  const time = turns.find(({ node }) => node === assessment.member.name)?.expectedTime;
  if (time === undefined || verdict === undefined || assessment.candidate === undefined) return decision;
  return { ...decision, verdict: { ...verdict, message: `${verdict.message}; expected to be up to date by ${time}` } };
}

/** In one turn; the next one goes on with the others at once. */
const MAX_LOOK_UPS = 10;

/** A node whose pods are looked up for the first time is not said to wait for that: it takes a moment. */
function lookUpsOf(
  decisions: readonly Decision[],
  { pods }: Snapshot,
  now: number,
): Pick<Plan, 'lookUps' | 'verdicts'> {
  const wanted = decisions.filter(({ lookUp }) => lookUp === true);
  const nodes = wanted.flatMap(({ assessment: { member } }) => (member.node === undefined ? [] : [member.node]));
  const due = nodes.filter(({ metadata: { name } }) => (pods.get(name)?.retryAt ?? 0) <= now);
  const troubled = ({ assessment: { member } }: Decision): boolean => pods.get(member.name)?.problem !== undefined;
  const said = decisions.filter((decision) => decision.lookUp !== true || troubled(decision));
  return { lookUps: due.slice(0, MAX_LOOK_UPS), verdicts: said.flatMap(nodeVerdicts) };
}

function retries({ pods }: Snapshot): number[] {
  return [...pods.values()].map(({ retryAt }) => retryAt);
}

/** Nodes that wait for this will not go unless people change something. */
const STAYS: ReadonlySet<Reason> = new Set<Reason>([
  'NotSelected',
  'Skipped',
  'VersionDenied',
  'VersionNotOffered',
  'NotRetried',
]);

/** Nodes that could run a newer version, or are on their way to it; not those that failed, nor new ones of which nothing is known. */
function wantsTaint({ standing, assessment, wait }: Decision, { drain }: FleetSettings): boolean {
  const waits = standing === 'waiting' && assessment.candidate !== undefined;
  const goes = wait === undefined || !STAYS.has(wait.reason);
  return drain.taintWaitingNodes && assessment.managed && ((waits && goes) || standing === 'updating');
}

/** So many hosts are set otherwise in one turn, so that the specs of updates under way never wait long for those of a large fleet. */
const MAX_CONFIGURED = 100;

function specsOf(decisions: readonly Decision[]): Pick<Plan, 'specs' | 'moreSpecs'> {
  const all = decisions.flatMap(specWrites);
  const configured = all.filter(({ outcome }) => outcome === 'Configured');
  const others = all.filter(({ outcome }) => outcome !== 'Configured');
  return { specs: [...others, ...configured.slice(0, MAX_CONFIGURED)], moreSpecs: configured.length > MAX_CONFIGURED };
}

function specWrites({ assessment: { member }, change }: Decision): SpecWrite[] {
  const { node, shadow } = member;
  return change === undefined || node === undefined || shadow === undefined ? [] : [{ ...change, shadow, node }];
}

function nodeVerdicts({ assessment: { member }, verdict, change }: Decision): NodeVerdict[] {
  const { node, shadow } = member;
  if (verdict === undefined || node === undefined || shadow === undefined) return [];
  return [{ shadow, node, verdict, calledOff: change?.outcome === 'Cancelled' }];
}

function count(counted: readonly Decision[]): NodeCounts {
  const counts = { managed: counted.length, upToDate: 0, updating: 0, waiting: 0, failed: 0 };
  for (const { standing = 'waiting' } of counted) counts[standing] += 1;
  return counts;
}

function times({ assessment, wait }: Decision): (number | undefined)[] {
  return [...assessment.times, assessment.cleanUp?.dueAt, wait?.retryAt];
}

function earliest(candidates: readonly (number | undefined)[], now: number): number | undefined {
  const later = candidates.filter((time): time is number => time !== undefined && time > now);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}

/** A Node that is to get or to lose the taint of nodes that wait. */
export interface TaintChange {
  readonly node: NodeView;
  readonly wanted: boolean;
}

/** The change that a member needs, or none. A Node without a shadow may be one that is no longer ours. */
export function taintChange({ node }: Member, wanted: boolean): readonly TaintChange[] {
  return node === undefined || node.hasWaitingTaint === wanted ? [] : [{ node, wanted }];
}
