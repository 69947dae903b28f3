/**
 * The expected end of updates that wait for other nodes: those after canaries, and those of groups with `spec.after`.
 * They start at the expected end of what they wait for, plus the soak. `forecast.ts` calls {@link expectedInTurn}.
 */
import type { FleetState } from '../plan/fleet.ts';
import type { Blocked, Candidate, Reason } from '../plan/gates/reasons.ts';

/** Epoch milliseconds; undefined: unknown. */
type End = number | undefined;
type Waiting = readonly [candidate: Candidate, blocked: Blocked];

const FOR_OTHERS: ReadonlySet<Reason> = new Set(['WaitingForCanary', 'WaitingForNodeGroup']);
/** Groups do not wait for these nodes of earlier ones. */
const LEFT_OUT: ReadonlySet<Reason> = new Set(['Skipped', 'NotSelected', 'VersionDenied']);

export function waitsForOthers(reason: Reason): boolean {
  return FOR_OTHERS.has(reason);
}

interface Busy {
  readonly group: string | undefined;
  readonly end: End;
}
/** The expected end of an update that takes a slot and may start when `blocked` says. */
type Expect = (candidate: Candidate, blocked: Blocked) => End;

/**
 * @param waiting - in the order in which they get slots
 * @param busy - the ends of the updates under way
 */
export function expectedInTurn(
  waiting: readonly Waiting[],
  busy: readonly Busy[],
  { policy }: Pick<FleetState, 'policy'>,
  expect: Expect,
): ReadonlyMap<Candidate, End> {
  const counted = waiting.filter(([, { reason }]) => !LEFT_OUT.has(reason));
  const ends = new Map(waiting.filter((one) => !isOrdered(one)).map((one) => [one[0], expect(...one)] as const));
  const doneAt = (names: readonly string[] | undefined): End => {
    const isAwaited = (name = ''): boolean => names === undefined || names.includes(name);
    const known = counted.filter(([one]) => ends.has(one) && isAwaited(one.group?.name)).map(([one]) => ends.get(one));
    return [...known, ...busy.flatMap(({ group, end }) => (isAwaited(group) ? [end] : []))].reduce(latest, 0);
  };
  const canaries = later(doneAt(undefined), policy.rollout.soakMs);
  for (let left = waiting.filter(isOrdered); left.length > 0; left = left.filter(([one]) => !ends.has(one))) {
    const open = new Set(left.map(([{ group }]) => group?.name));
    const turn = left.filter(([{ group }]) => group?.after.some((name) => open.has(name)) !== true);
    // Groups that wait for each other have no end.
    if (turn.length === 0) for (const [one] of left) ends.set(one, undefined);
    for (const [group, members] of Map.groupBy(turn, ([one]) => one.group)) {
      const groups = later(doneAt(group?.after ?? []), group?.soakMs ?? 0);
      for (const [one, blocked] of members)
        ends.set(one, endAfter(one, blocked, startOf(blocked, canaries, groups), expect));
    }
  }
  return ends;
}

function isOrdered([{ group }, { reason }]: Waiting): boolean {
  return waitsForOthers(reason) || (reason === 'Soaking' && (group?.after.length ?? 0) > 0);
}

/** 0: nothing that is waited for updates, so its end is unknown. */
function startOf({ reason, retryAt = 0 }: Blocked, canaries: End, groups: End): End {
  if (reason === 'WaitingForNodeGroup') return groups === 0 ? undefined : groups;
  if (reason === 'WaitingForCanary') return canaries === 0 ? undefined : latest(canaries, groups);
  return latest(retryAt, groups);
}

function endAfter(candidate: Candidate, { message }: Blocked, retryAt: End, expect: Expect): End {
  return retryAt === undefined ? undefined : expect(candidate, { reason: 'Soaking', message, retryAt });
}

function latest(a: End, b: End): End {
  return a === undefined || b === undefined ? undefined : Math.max(a, b);
}

/** 0: nothing was waited for. */
function later(end: End, soakMs: number): End {
  return end === undefined || end === 0 ? end : end + soakMs;
}
