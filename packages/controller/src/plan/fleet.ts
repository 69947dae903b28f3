import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { sameVersion } from '@brupop/shared/api/version';
import { carriesOurs } from '@brupop/shared/node/ownership';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import { type Member, type Snapshot, staleResources } from '../cluster/snapshot.ts';
import { type FleetSettings, readFleetSettings, type Rules, rulesOf } from '../policy/policy.ts';
import { type Estimate, estimateOf } from './attempts.ts';
import { isUnavailable, Room, yielding } from './capacity.ts';
import { placeUntil } from './deadlines.ts';
import { type Drainable, drainable } from './drainability.ts';
import { isConcerned } from './gates/selection.ts';

/** What the decision on one node takes from the rest of the fleet. */
export interface Scene {
  readonly fleet: FleetSettings;
  readonly rules: Rules;
  /** Resources of which nothing was heard for too long. */
  readonly stale: readonly string[];
  readonly drainOf: (node: NodeView) => Drainable;
  readonly offeredSince: (version: string) => number | undefined;
  readonly estimate: Estimate;
  /** Until when members take a place, epoch milliseconds. */
  readonly placeUntil: ReadonlyMap<Member, number | undefined>;
  /** The status of the configuration as it was before. */
  readonly before: BrupopConfigStatus | undefined;
  /** Nodes, by name, that must not be drained since more are away than may be. */
  readonly yielding: ReadonlySet<string>;
  /** Counts the nodes that are away now, and then those that are let go. */
  readonly room: Room;
  readonly now: number;
}

/** Puts it together. */
export function sceneOf(snapshot: Snapshot, now: number): Scene {
  const { members, config, monitoringMs } = snapshot;
  const fleet = readFleetSettings(config);
  const rules = rulesOf(fleet, monitoringMs);
  const places = new Map(members.map((member) => [member, placeUntil(member, rules, now)]));
  const versions = config?.status?.versions ?? [];
  return {
    fleet,
    rules,
    stale: staleResources(snapshot.silences),
    drainOf: (node) => drainable(node, snapshot, fleet.drain, now),
    offeredSince: (version) => parseTime(versions.find((one) => sameVersion(one.version, version))?.firstOfferedTime),
    estimate: estimateOf(members, fleet.maintenance),
    placeUntil: places,
    before: config?.status,
    yielding: yielding(takingPlaces(places, now), roomOf(fleet, places, now, isDisturbed)),
    room: roomOf(fleet, places, now),
    now,
  };
}

function takingPlaces(places: ReadonlyMap<Member, number | undefined>, now: number): Member[] {
  return [...places].flatMap(([member, until]) => (until !== undefined && now < until ? [member] : []));
}

/** A node at rest that has not confirmed a change of its host's settings takes a place, but nothing has happened to it. */
function isDisturbed({ node, shadow }: Member): boolean {
  return shadow?.spec.state !== 'Idle' || (node !== undefined && carriesOurs(node));
}

/** Every node that takes a place counts, and the nodes that the configuration is about also when they are away for another reason. */
function roomOf(
  fleet: FleetSettings,
  places: ReadonlyMap<Member, number | undefined>,
  now: number,
  counts: (member: Member) => boolean = () => true,
): Room {
  const nodes = [...places].flatMap(([member, until]) => {
    const { node } = member;
    return node === undefined ? [] : [{ node, updating: until !== undefined && now < until && counts(member) }];
  });
  const room = new Room(fleet.concurrency, nodes.filter(({ node }) => isConcerned(node, fleet)).length);
  for (const { node, updating } of nodes) {
    if (updating || (isConcerned(node, fleet) && isUnavailable(node))) room.take(node, updating);
  }
  return room;
}
