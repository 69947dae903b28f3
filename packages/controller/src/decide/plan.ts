import type { ShadowView } from '../cluster/shadow-view.ts';
import type { SpecChange } from './advance.ts';
import { startSpec } from './advance.ts';
import type { Assessment, Standing } from './assess.ts';
import { assess } from './assess.ts';
import type { CleanUp } from './clean-up.ts';
import { failures } from './failures.ts';
import type { FleetSettings } from './fleet-settings.ts';
import { nodesAtOnce, readFleetSettings } from './fleet-settings.ts';
import type { Candidate, GateInput } from './gates/index.ts';
import { whyNot } from './gates/index.ts';
import type { NodeView } from '../cluster/node-view.ts';
import type { Snapshot } from '../cluster/snapshot.ts';
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
}

/** Decides what happens next in the whole fleet. Pure: the same snapshot and time give the same plan. */
export function plan(snapshot: Snapshot, now: number): Plan {
  const fleet = readFleetSettings(snapshot.config);
  const stale = staleResources(snapshot.silences);
  const assessments = snapshot.members.map((member) => assess(member, snapshot.monitoringMs, now));
  const managed = assessments.filter((one) => one.managed).length;
  const held = assessments.filter((one) => one.holdsSlot).length;
  const free = nodesAtOnce(fleet.maxUpdating, managed) - held;
  const admitted = admit(assessments, snapshot.ownNode, { fleet, stale, free, now });
  const decisions = assessments.map((assessment) => admitted.get(assessment) ?? { ...assessment, assessment });
  return {
    specs: decisions.flatMap(specWrites),
    verdicts: decisions.flatMap(nodeVerdicts),
    cleanUps: assessments.flatMap(({ cleanUp }) => (cleanUp !== undefined && cleanUp.dueAt <= now ? [cleanUp] : [])),
    fleet,
    stale,
    counts: count(decisions),
    wakeAt: earliest([...decisions.flatMap(times), ...viewTimes(snapshot.silences, now)], now),
  };
}

/** Sends the candidates through the gates, in their order, until the free places are taken. */
function admit(
  assessments: readonly Assessment[],
  ownNode: string,
  { free, ...common }: Omit<GateInput, 'candidate'>,
): Map<Assessment, Decision> {
  const decisions = new Map<Assessment, Decision>();
  let left = free;
  for (const { assessment, candidate } of inOrder(assessments, ownNode)) {
    const wait = whyNot({ ...common, candidate, free: left });
    if (wait === undefined) left -= 1;
    decisions.set(assessment, wait === undefined ? start(assessment, candidate, common.now) : hold(assessment, wait));
  }
  return decisions;
}

function start(assessment: Assessment, { status }: Candidate, now: number): Decision {
  const version = status.target_version;
  const change = { spec: startSpec(version, now), outcome: 'Started' } as const;
  return { assessment, change, verdict: updating(version), standing: 'updating' };
}

function hold(assessment: Assessment, wait: Parameters<typeof waiting>[0] & { readonly retryAt?: number }): Decision {
  const { standing = 'waiting' } = assessment;
  const { retryAt } = wait;
  return { assessment, verdict: waiting(wait), standing, ...(retryAt !== undefined && { retryAt }) };
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
