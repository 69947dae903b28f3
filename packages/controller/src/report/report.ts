/** What is reported of a plan: the condition of each node, and what the status of the configuration and of groups is made of. */
import type { Edit } from '@brupop/shared/api/edits';
import { isSelected } from '../cluster/node.ts';
import type { Snapshot } from '../cluster/snapshot.ts';
import type { Decision } from '../plan/assess.ts';
import type { CompletedCanary } from '../plan/fleet/canaries.ts';
import { ofParts, type Parts } from '../kept/parts.ts';
import type { FleetState } from '../plan/fleet/fleet-state.ts';
import type { CheckWork, LookUps } from '../plan/look-ups.ts';
import type { Observation } from '../plan/fleet/observation.ts';
import type { Plan } from '../plan/plan.ts';
import type { Upkeep } from '../upkeep/upkeep.ts';
import { type FleetForecast, forecastOf } from './forecast.ts';
import { type NodeCondition, nodeConditionsOf } from './node-conditions.ts';
import { type Progress, progressOf } from './progress.ts';
import { type ObjectEdit, type Release, releasesOf } from './rollouts.ts';
import { countsOf, type GroupRollout, groupRollouts, type Pace, type Rollout, unconfirmedOf } from './rollout.ts';

export interface Report
  extends
    Rollout,
    Pick<FleetState, 'stale' | 'connectivity' | 'clockSkewMs' | 'failed' | 'frozen'>,
    Pick<Observation, 'holds' | 'suspects'> {
  readonly conditions: Parts<NodeCondition>;
  readonly canaries: readonly CompletedCanary[];
  readonly forecast: FleetForecast;
  /** Undefined when no node needs an update. */
  readonly progress: Progress | undefined;
  readonly groups: readonly GroupRollout[];
  readonly releases: readonly Release[];
  /** Of the configuration and the groups. */
  readonly edits: readonly ObjectEdit[];
  /** Names of Nodes that have annotations of the operator, but hold no slot. */
  readonly orphanedNodes: readonly string[];
}

/** Everything that was decided of one snapshot, and what is reported of it. */
export interface WholePlan
  extends Pick<Plan, 'specs' | 'taints' | 'records'>, Omit<Upkeep, 'upkeepTimes'>, LookUps, Report {
  readonly checks: CheckWork;
  /** When to plan again even if nothing changes, epoch milliseconds. */
  readonly wakeAt: number | undefined;
}

export function reportOf(
  { fleetState, decisions, admitted, grants }: Plan,
  { lost, metadata }: Pick<Upkeep, 'lost' | 'metadata'>,
  snapshot: Pick<Snapshot, 'pods' | 'config' | 'groupObjects'>,
): Report {
  const { policy, stale, connectivity, clockSkewMs, stuck, failed, frozen, canaries, orphaned, moment } = fleetState;
  const { holds, suspects } = fleetState.observation;
  const counted = countedIn(decisions);
  const forecast = forecastOf(fleetState, counted, admitted);
  const stuckNodes = stuck.map(({ metadata: { name } }) => name);
  const counts = countsOf(counted);
  const ofSlots = counts.updating + grants.granted.size > 0 ? 'moves' : paceOfSlots(fleetState);
  return {
    conditions: nodeConditionsOf(decisions, { pods: snapshot.pods, lost }, moment),
    policy,
    stale,
    connectivity,
    clockSkewMs,
    counts,
    failed,
    frozen,
    canaries: canaries.completed(),
    holds,
    suspects,
    forecast,
    progress: progressOf(fleetState, counted),
    stuckNodes,
    groups: groupRollouts(fleetState, counted, { forecast, stuckNodes, lost, grants, ofSlots, metadata }),
    releases: releasesOf(counted),
    edits: editsIn(snapshot),
    orphanedNodes: orphaned,
    lost,
    ...unconfirmedOf(counted, grants, ofSlots),
  };
}

/** Nodes that hold no slot and are unavailable count towards limits as well: these may be for as long as users want. */
function paceOfSlots({ capacity, stuck }: FleetState): Pace {
  if (capacity.updating > stuck.length) return 'moves';
  return stuck.length > 0 ? 'heldUp' : 'waits';
}

/** The nodes of the fleet's rollout. */
const countedIn = ofParts((part: readonly Decision[]) =>
  part.filter(({ managedNode: { node, policy } }) => node !== undefined && isSelected(node, policy)),
);

function editsIn({ config, groupObjects }: Pick<Snapshot, 'config' | 'groupObjects'>): ObjectEdit[] {
  return [...namedEdits(config?.edits), ...groupObjects.flatMap((one) => namedEdits(one.edits, one.metadata.name))];
}

function namedEdits(edits: readonly Edit[] = [], group?: string): ObjectEdit[] {
  return edits.map((edit) => ({ ...edit, group }));
}
