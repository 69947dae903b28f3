import type { ShadowView } from '../cluster/shadow-view.ts';
import type { SpecChange } from './advance.ts';
import { startSpec } from './advance.ts';
import type { Assessment, Standing } from './assess.ts';
import { assess } from './assess.ts';
import type { CleanUp } from './clean-up.ts';
import type { Drainable } from './drainable.ts';
import { drainable } from './drainable.ts';
import { failures } from './failures.ts';
import type { FleetSettings } from './fleet-settings.ts';
import { nodesAtOnce, readFleetSettings } from './fleet-settings.ts';
import type { Candidate, GateInput } from './gates/index.ts';
import { whyNot } from './gates/index.ts';
import type { NodeView } from '../cluster/node-view.ts';
import type { Snapshot } from '../cluster/snapshot.ts';
import type { Wait } from './reasons.ts';
import { rulesOf } from './rules.ts';
import type { TaintChange } from './taint.ts';
import { taintChange } from './taint.ts';
import type { Verdict } from './verdict.ts';
import { updating, waiting } from './verdict.ts';
import { staleResources, viewTimes } from './view.ts';

export interface SpecWrite extends SpecChange {
  readonly shadow: ShadowView;
  readonly node: NodeView;
}

export interface NodeVerdict {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly verdict: Verdict;
}

/** Managed nodes by standing; `managed` is the sum of the others. */
export type NodeCounts = Readonly<Record<Standing | 'managed', number>>;

/** What is to be written, and why everything else waits. */
export interface Plan {
  readonly specs: readonly SpecWrite[];
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
  /** When to plan again even if nothing changes, epoch milliseconds. */
  readonly wakeAt: number | undefined;
}

/** What one member adds to the plan. */
interface Decision {
  readonly assessment: Assessment;
  readonly change?: SpecChange;
  readonly verdict?: Verdict;
  readonly standing?: Standing;
  readonly retryAt?: number;
  readonly lookUp?: boolean;
}

/** Decides what happens next in the whole fleet. Pure: the same snapshot and time give the same plan. */
export function plan(snapshot: Snapshot, now: number): Plan {
  const fleet = readFleetSettings(snapshot.config);
  const stale = staleResources(snapshot.silences);
  const rules = rulesOf(fleet, snapshot.monitoringMs);
  const drainOf = (node: NodeView): Drainable => drainable(node, snapshot, fleet.drain, now);
  const assessments = snapshot.members.map((member) => assess(member, { rules, drainOf, now }));
  const managed = assessments.filter((one) => one.managed).length;
  const held = assessments.filter((one) => one.holdsSlot).length;
  const free = nodesAtOnce(fleet.maxUpdating, managed) - held;
  const admitted = admit(assessments, snapshot.ownNode, { fleet, stale, free, drainOf, now });
  const decisions = assessments.map((assessment) => admitted.get(assessment) ?? { ...assessment, assessment });
  return {
    specs: decisions.flatMap(specWrites),
    cleanUps: assessments.flatMap(({ cleanUp }) => (cleanUp !== undefined && cleanUp.dueAt <= now ? [cleanUp] : [])),
    ...lookUpsOf(decisions, snapshot, now),
    taints: decisions.flatMap((decision) => taintChange(decision.assessment.member, wantsTaint(decision, fleet))),
    fleet,
    stale,
    counts: count(decisions),
    wakeAt: earliest([...decisions.flatMap(times), ...viewTimes(snapshot.silences, now), ...retries(snapshot)], now),
  };
}

interface AdmitInput extends Omit<GateInput, 'candidate' | 'drain'> {
  readonly drainOf: (node: NodeView) => Drainable;
}

/** Sends the candidates through the gates, in their order, until the free places are taken. */
function admit(
  assessments: readonly Assessment[],
  ownNode: string,
  { free, drainOf, ...common }: AdmitInput,
): Map<Assessment, Decision> {
  const decisions = new Map<Assessment, Decision>();
  let left = free;
  for (const { assessment, candidate } of inOrder(assessments, ownNode)) {
    const wait = whyNot({ ...common, candidate, drain: drainOf(candidate.node), free: left });
    // The place is kept for a node whose pods are being looked up.
    if (wait === undefined || wait.lookUp === true) left -= 1;
    decisions.set(assessment, wait === undefined ? start(assessment, candidate, common.now) : hold(assessment, wait));
  }
  return decisions;
}

function start(assessment: Assessment, { status }: Candidate, now: number): Decision {
  const version = status.target_version;
  const change = { spec: startSpec(version, now), outcome: 'Started' } as const;
  return { assessment, change, verdict: updating(version), standing: 'updating' };
}

function hold(assessment: Assessment, wait: Wait): Decision {
  const { standing = 'waiting' } = assessment;
  const { retryAt, lookUp = false } = wait;
  const held = { assessment, standing, lookUp, ...(retryAt !== undefined && { retryAt }) };
  return { ...held, verdict: waiting(wait) };
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

/** Nodes that could run a newer version, or are on their way to it; not those that failed, nor new ones of which nothing is known. */
function wantsTaint({ standing, assessment }: Decision, { drain }: FleetSettings): boolean {
  const waits = standing === 'waiting' && assessment.candidate !== undefined;
  return drain.taintWaitingNodes && assessment.managed && (waits || standing === 'updating');
}

interface Contender {
  readonly assessment: Assessment;
  readonly candidate: Candidate;
}

/** The controller's own node last, then fewest failures first, then by name. */
function inOrder(assessments: readonly Assessment[], ownNode: string): Contender[] {
  const isOwn = ({ candidate }: Contender): number => (candidate.node.metadata.name === ownNode ? 1 : 0);
  return assessments
    .flatMap((assessment) =>
      assessment.candidate === undefined ? [] : [{ assessment, candidate: assessment.candidate }],
    )
    .toSorted(
      (a, b) =>
        isOwn(a) - isOwn(b) ||
        failures(a.candidate.shadow) - failures(b.candidate.shadow) ||
        compare(a.candidate.node.metadata.name, b.candidate.node.metadata.name),
    );
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function specWrites({ assessment: { member }, change }: Decision): SpecWrite[] {
  const { node, shadow } = member;
  return change === undefined || node === undefined || shadow === undefined ? [] : [{ ...change, shadow, node }];
}

function nodeVerdicts({ assessment: { member }, verdict }: Decision): NodeVerdict[] {
  const { node, shadow } = member;
  return verdict === undefined || node === undefined || shadow === undefined ? [] : [{ shadow, node, verdict }];
}

function count(decisions: readonly Decision[]): NodeCounts {
  const counts = { managed: 0, upToDate: 0, updating: 0, waiting: 0, failed: 0 };
  for (const { assessment, standing = 'waiting' } of decisions) {
    if (!assessment.managed) continue;
    counts.managed += 1;
    counts[standing] += 1;
  }
  return counts;
}

function times({ assessment, retryAt }: Decision): (number | undefined)[] {
  return [...assessment.times, assessment.cleanUp?.dueAt, retryAt];
}

function earliest(candidates: readonly (number | undefined)[], now: number): number | undefined {
  const later = candidates.filter((time): time is number => time !== undefined && time > now);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}
