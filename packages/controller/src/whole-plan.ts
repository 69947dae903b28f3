/**
 * One turn of the controller: the plan, the upkeep beside it, what is reported of both, and when to look again. It is pure: the
 * same snapshot and time give the same result. `controller.ts` calls {@link wholePlan} in each reconcile, and `apply/` sends it.
 */
import type { Snapshot } from './cluster/snapshot.ts';
import { checkWork, lookUpsOf, timesOf } from './plan/look-ups.ts';
import { KeptFacts, plan } from './plan/plan.ts';
import { reportOf, type WholePlan } from './report/report.ts';
import { upkeepOf } from './upkeep/upkeep.ts';

export { KeptFacts } from './plan/plan.ts';
export type { WholePlan } from './report/report.ts';

/** @param kept - of this process; without it, everything is found anew */
export function wholePlan(snapshot: Snapshot, now: number, kept = new KeptFacts()): WholePlan {
  const decided = plan(snapshot, now, kept);
  const checks = checkWork(decided);
  const { upkeepTimes, ...upkeep } = upkeepOf(decided, snapshot, kept.facts);
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
    ...lookUpsOf(decided, upkeep.metadata.lookUps ?? [], snapshot),
    wakeAt: earliest(times, now),
  };
}

function earliest(candidates: readonly (number | undefined)[], now: number): number | undefined {
  const later = candidates.filter((time): time is number => time !== undefined && time > now);
  return later.length === 0 ? undefined : later.reduce((a, b) => Math.min(a, b));
}
