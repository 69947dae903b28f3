/**
 * One turn of the controller: the plan, the upkeep beside it, what is reported of both, and when to look again. It is pure: the
 * same snapshot and time give the same result. `controller.ts` calls {@link wholePlan} in each reconcile, and `apply/` sends it.
 */
import type { ManagedNode, Snapshot } from './cluster/snapshot.ts';
import { checkWork, lookUpsOf, timesOf } from './plan/look-ups.ts';
import type { Assessment } from './plan/assess.ts';
import { Kept } from './plan/facts/moment.ts';
import type { NodeFacts } from './plan/fleet.ts';
import { type KeptOfPlan, plan } from './plan/plan.ts';
import { reportOf, type WholePlan } from './report/report.ts';
import type { Cleanup } from './upkeep/cleanup.ts';
import { upkeepOf } from './upkeep/upkeep.ts';

export type { WholePlan } from './report/report.ts';

/** What was found of each node in earlier turns. */
export class KeptFacts implements KeptOfPlan {
  readonly facts = new Kept<ManagedNode, NodeFacts>();
  readonly assessments = new Kept<NodeFacts, Assessment>();
  readonly cleanups = new Kept<ManagedNode, Cleanup | undefined>();
}

/** @param kept - of this process; without it, everything is found anew */
export function wholePlan(snapshot: Snapshot, now: number, kept = new KeptFacts()): WholePlan {
  const decided = plan(snapshot, now, kept);
  const checks = checkWork(decided);
  const { asksFor, upkeepTimes, ...upkeep } = upkeepOf(decided, snapshot, kept.cleanups);
  const report = reportOf(decided, upkeep, snapshot);
  const { specs, taints, records } = decided;
  const times = [
    ...timesOf(decided, snapshot),
    ...upkeepTimes,
    ...[report, ...report.groups].map(({ forecast }) => forecast.window.until),
    ...[report, ...report.groups].map(({ progress }) => progress?.deadline),
  ];
  return {
    specs,
    taints,
    records,
    checks,
    ...upkeep,
    ...report,
    ...lookUpsOf(decided, asksFor, snapshot),
    wakeAt: earliest(times, now),
  };
}

function earliest(candidates: readonly (number | undefined)[], now: number): number | undefined {
  const later = candidates.filter((time): time is number => time !== undefined && time > now);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}
