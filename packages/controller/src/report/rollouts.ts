/**
 * The last rollouts, for the status of the configuration: one for each version and group. It is open while a node of the group
 * updates to the version, or waits for it; a rollout that goes on after its end is opened again. Its counts only grow, since a
 * node that succeeds or is deleted must not take its failure with it. They change only when a node starts or ends, when the
 * status is written anyway. With the same input the result is the same.
 */
import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { MAX_CHANGES, MAX_ROLLOUTS, readRollouts, type RolloutStatus } from '@brupop/shared/api/rollouts';
import type { Edit } from '@brupop/shared/api/edits';
import { releaseOf, sameVersion } from '@brupop/shared/api/version';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../cluster/shadow.ts';
import type { Decision } from '../plan/assess.ts';
import { WITNESSES } from '../plan/facts/freezes.ts';
import { countOf, ofParts, type Parts } from '../kept/parts.ts';
import { objectOf } from '../policy/node-groups.ts';

type Change = NonNullable<RolloutStatus['changes']>[number];

/** What the nodes of one group, or those without one, say about one version. */
export interface Release {
  readonly version: string;
  readonly group: string | undefined;
  updating: number;
  waiting: number;
  /** When nodes succeeded or failed with it, epoch milliseconds. */
  readonly succeeded: Parts<number>;
  readonly failed: Parts<number>;
}

/** An edit of the configuration, or of a group. */
export interface ObjectEdit extends Edit {
  readonly group: string | undefined;
}

/** @param decisions - of the nodes of the fleet's rollout */
export function releasesOf(decisions: Parts<Decision>): Release[] {
  const parts = releasesIn(decisions).flat();
  const byKey = Map.groupBy(parts, ({ version, group = '' }) => `${version}/${group}`);
  return [...byKey.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [others.reduce<Release>(sumOf, first)],
  );
}

function sumOf(a: Release, b: Release): Release {
  return {
    ...a,
    updating: a.updating + b.updating,
    waiting: a.waiting + b.waiting,
    succeeded: [...a.succeeded, ...b.succeeded],
    failed: [...a.failed, ...b.failed],
  };
}

/** Of one part. */
interface PartOfRelease extends Release {
  readonly succeeded: readonly [number[]];
  readonly failed: readonly [number[]];
}

const releasesIn = ofParts((part: readonly Decision[]) => {
  const found = new Map<string, PartOfRelease>();
  for (const decision of part) countIn(decision, releaseIn(found, decision));
  return [...found.values()];
});

function releaseIn(found: Map<string, PartOfRelease>, { managedNode }: Decision): (version: string) => PartOfRelease {
  const group = managedNode.group?.name;
  return (text) => {
    const version = releaseOf(text);
    const key = `${version}/${group ?? ''}`;
    const known = found.get(key);
    if (known !== undefined) return known;
    const release: PartOfRelease = { version, group, updating: 0, waiting: 0, succeeded: [[]], failed: [[]] };
    found.set(key, release);
    return release;
  };
}

function countIn(decision: Decision, of: (version: string) => PartOfRelease): void {
  const { shadow } = decision.managedNode;
  if (shadow === undefined) return;
  const next = nextOf(decision, shadow);
  if (next !== undefined) of(next).updating += 1;
  else countWaiting(decision, shadow, of);
  const { updated, record } = shadow;
  if (updated !== undefined) of(updated.version).succeeded[0].push(updated.at);
  const failedAt = parseTime(record.failed?.at);
  if (record.failed !== undefined && failedAt !== undefined) of(record.failed.version).failed[0].push(failedAt);
}

/** The version that the node updates to, or starts to; not that of a reboot for settings. */
function nextOf({ change }: Decision, { spec, purpose, status }: ShadowView): string | undefined {
  if (purpose === 'Update') return spec.version ?? undefined;
  const started = change?.outcome === 'Started' ? change.spec.version : undefined;
  return sameVersion(started, status?.current_version) ? undefined : (started ?? undefined);
}

function countWaiting({ phase }: Decision, { status }: ShadowView, of: (version: string) => PartOfRelease): void {
  const { target_version: target = '', current_version: current = '' } = status ?? {};
  if (phase === 'waiting' && target !== '' && !sameVersion(target, current)) of(target).waiting += 1;
}

/** The latest first. What a user has made unreadable in `before` is left out. */
export function rolloutsOf(
  before: BrupopConfigStatus | undefined,
  releases: readonly Release[],
  edits: readonly ObjectEdit[],
  now: number,
): Pick<BrupopConfigStatus, 'rollouts'> {
  const known = readRollouts(before?.rollouts);
  const starting = releases
    .filter(({ updating }) => updating > 0)
    .filter((one) => !known.some((old) => isOf(old, one)));
  const all = withinLimit(
    starting.map((one) => started(one, now)),
    known,
    releases,
  );
  const rollouts = all.map((one) =>
    continued(
      one,
      releases.find((release) => isOf(one, release)),
      edits,
      now,
    ),
  );
  return rollouts.length === 0 ? {} : { rollouts };
}

/**
 * Those that have ended make room: first those of versions that the fewest nodes know, since agents may invent any number of
 * them, the earliest first. While all are open, no other one begins: it would take their place.
 */
function withinLimit(
  starting: readonly RolloutStatus[],
  known: readonly RolloutStatus[],
  releases: readonly Release[],
): RolloutStatus[] {
  const isOpen = (one: RolloutStatus): boolean =>
    one.endTime === undefined || releases.some((release) => release.updating > 0 && isOf(one, release));
  const room = MAX_ROLLOUTS - known.filter(isOpen).length;
  const added = starting.slice(0, room);
  if (added.length + known.length <= MAX_ROLLOUTS) return [...added, ...known];
  const witnesses = new Map(known.map((one) => [one, witnessesOf(one, releases)]));
  const ended = known
    .filter((one) => !isOpen(one))
    .toSorted((a, b) => (witnesses.get(b) ?? 0) - (witnesses.get(a) ?? 0));
  const kept = new Set(ended.slice(0, room - added.length));
  return [...added, ...known.filter((one) => isOpen(one) || kept.has(one))];
}

/** Its nodes, or as many as know its version now: it is that of other groups, too. */
function witnessesOf({ version, nodes, failures }: RolloutStatus, releases: readonly Release[]): number {
  const known = releases.filter((release) => release.version === version);
  const sum = (of: (release: Release) => number): number => known.reduce((all, release) => all + of(release), 0);
  const now = [
    sum(({ updating, waiting }) => updating + waiting),
    sum(({ succeeded }) => countOf(succeeded)),
    sum(({ failed }) => countOf(failed)),
  ];
  return Math.min(WITNESSES, Math.max(nodes, failures, ...now));
}

function isOf(rollout: RolloutStatus, release: Release): boolean {
  return rollout.group === release.group && rollout.version === release.version;
}

function started({ version, group }: Release, now: number): RolloutStatus {
  return { version, ...(group !== undefined && { group }), startTime: rfc3339(now), nodes: 0, failures: 0 };
}

function continued(
  rollout: RolloutStatus,
  release: Release | undefined,
  edits: readonly ObjectEdit[],
  now: number,
): RolloutStatus {
  const { endTime, nodes, failures, ...kept } = rollout;
  const { updating, waiting, succeeded, failed } = release ?? NO_NODES;
  const isOpen = updating > 0 || (endTime === undefined && waiting > 0);
  if (!isOpen && endTime !== undefined) return rollout;
  const start = parseTime(rollout.startTime) ?? now;
  const changes = changesOf(rollout, edits, start);
  return {
    ...kept,
    ...(!isOpen && { endTime: rfc3339(now) }),
    nodes: Math.max(nodes, countSince(start, succeeded)),
    failures: Math.max(failures, countSince(start, failed)),
    ...(changes.length > 0 && { changes }),
  };
}

const NO_NODES = { updating: 0, waiting: 0, succeeded: [], failed: [] };

function countSince(start: number, times: Parts<number>): number {
  return times.reduce((sum, part) => sum + part.filter((at) => at >= start).length, 0);
}

/** An approval, or the end of a pause, lets the first node start. */
const BEFORE_MS = 600_000;

/** The latest first; of the configuration, and of its own group. */
function changesOf(
  { group, changes = [] }: RolloutStatus,
  edits: readonly ObjectEdit[],
  start: number,
): NonNullable<RolloutStatus['changes']> {
  const isKnown = (object: string, { manager, time }: Edit): boolean =>
    changes.some((one) => one.object === object && one.manager === manager && one.time === time);
  const added = edits
    .filter(
      (one) => (one.group === undefined || one.group === group) && (parseTime(one.time) ?? 0) >= start - BEFORE_MS,
    )
    .map(({ group: of, ...edit }) => ({ object: objectOf(of), ...edit }))
    .filter(({ object, ...edit }) => !isKnown(object, edit));
  return [...added, ...changes].toSorted(latestFirst).slice(0, MAX_CHANGES);
}

/** The order of edits in the same second is fixed too, or each plan would write the status. */
function latestFirst(...both: readonly [Change, Change]): number {
  const [a = '', b = ''] = both.map(({ time, object, manager }) => `${time} ${object} ${manager}`);
  return a === b ? 0 : a < b ? 1 : -1;
}
