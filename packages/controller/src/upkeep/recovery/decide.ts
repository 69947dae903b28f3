/**
 * Which pods are evicted after a recovery, pure. What has recovered, a Service or a node after its update, has one
 * {@link Recovery}, a window of time:
 *
 *     closed -- recovers --> open -- recovers: later end, an hour after its start at most --> open -- end --> closed
 *
 * A pod of an open window that waits in CrashLoopBackOff is evicted, if fewer than `maxPerMinute` evictions were requested in the
 * last minute. Invariants:
 *
 * - Each UID is requested once. It is in the record of its window before its request is sent, and stays there at least for a minute,
 *   also when the window closes meanwhile, and in an open window until its pod is gone. A new leader reads the record, so it
 *   requests no UID of a former one.
 * - Only a response that refuses the eviction takes a UID out of the record; it is requested again after a backoff. Without a
 *   response it stays, since the eviction may have happened.
 * - A window has at most MAX_RECORDED_PODS pods on record, and there are at most MAX_RECOVERIES windows; more wait.
 */
import { MAX_RECORDED_PODS, MAX_RECOVERIES, type RecoveryKind } from '@brupop/shared/api/config-recovery';
import { isOfRBAC } from '@brupop/shared/kube/error';
import { delayAfter } from '@brupop/shared/runtime/backoff';
import type { Instant } from '@brupop/shared/runtime/clock';
import type { CrashingPod } from './pods.ts';

export interface Scope {
  readonly kind: RecoveryKind;
  /** Of the Node, or of the entry of `spec.recovery.services`. */
  readonly name: string;
}

/** Times are epoch milliseconds. */
export interface Recovery extends Scope {
  readonly since: number;
  readonly until: number;
  readonly evicted: number;
  /** By UID: when the eviction was recorded. */
  readonly pods: ReadonlyMap<string, number>;
}

export interface RecoveryState {
  readonly recoveries: readonly Recovery[];
  /** Of the last minute, on the monotonic clock, milliseconds: a step of the other one must not end the minute. */
  readonly requests: readonly number[];
  /** By UID, of pods whose eviction was refused. */
  readonly refused: ReadonlyMap<string, Refusal>;
  /** By UID of the pod whose eviction is forbidden. */
  readonly forbidden: ReadonlyMap<string, Prohibition>;
}

interface Refusal {
  readonly count: number;
  readonly retryAt: number;
}

interface Prohibition {
  readonly scope: Scope;
  readonly namespace: string;
  readonly message: string;
}

export const CLOSED: RecoveryState = { recoveries: [], requests: [], refused: new Map(), forbidden: new Map() };

/** What former leaders have recorded, in whole seconds. Each eviction may have been requested as late as they may send it. */
export function resumed(recoveries: readonly Recovery[], now: Instant): RecoveryState {
  const recordedAt = recoveries.flatMap(({ pods }) => [...pods.values()]);
  const requests = recordedAt.map((at) => now.monotonic - (now.wall - at) + SECOND_MS + FRESH_MS);
  return { ...CLOSED, recoveries, requests };
}

export interface Eviction {
  readonly scope: Scope;
  readonly pod: CrashingPod;
  /** When the list that has the pod began, on the monotonic clock. */
  readonly listedAt: number;
}

/** At most once in this time, milliseconds, pods are listed or an end is written because something recovers again and again. */
export const FLAP_MS = 30_000;
/** An eviction is requested within this time after the list that has its pod began. An older one may show a pod that runs by now. */
export const FRESH_MS = 15_000;
const MAX_WINDOW_MS = 3_600_000;
const MINUTE_MS = 60_000;
const SECOND_MS = 1_000;
/** Of an eviction that was refused, such as by a disruption budget. */
const RETRY = { baseMs: 10_000, capMs: 60_000 };

export function isSame(a: Scope, b: Scope): boolean {
  return a.kind === b.kind && a.name === b.name;
}

/** Opens a window for what has recovered, or extends its open one. Returns the same state if there are too many. */
export function recovered(state: RecoveryState, scope: Scope, watchForMs: number, now: number): RecoveryState {
  const known = state.recoveries.find((one) => isSame(one, scope));
  if (!hasSpace(state, scope)) return state;
  const { kind, name } = scope;
  const pods = known?.pods ?? new Map<string, number>();
  const open =
    known !== undefined && known.until > now ? known : { kind, name, since: now, until: now, evicted: 0, pods };
  const until = Math.min(open.since + MAX_WINDOW_MS, Math.max(open.until, now + watchForMs));
  const others = state.recoveries.filter((one) => one !== known);
  return { ...state, recoveries: [...others, { ...open, until }] };
}

/** Whether what has recovered has a window, or may get one. */
export function hasSpace({ recoveries }: RecoveryState, scope: Scope): boolean {
  return recoveries.length < MAX_RECOVERIES || recoveries.some((one) => isSame(one, scope));
}

/** Whether this recovery may open a window, or extend one for the first time since a while, so that pods are to be listed at once. */
export function isNews(state: RecoveryState, scope: Scope, watchForMs: number, at: number): boolean {
  const known = state.recoveries.find((one) => isSame(one, scope));
  if (known === undefined) return hasSpace(state, scope);
  return known.until <= at || at - (known.until - watchForMs) >= FLAP_MS;
}

/** Whether a window is not extended yet, so that its pods are listed more often. */
export function isFirst(state: RecoveryState, watchForMs: number, now: number): boolean {
  return openIn(state, now).some(({ since }) => now - since < watchForMs);
}

/** The windows that are open. */
export function openIn({ recoveries }: RecoveryState, now: number): readonly Recovery[] {
  return recoveries.filter(({ until }) => until > now);
}

/** Forgets the windows that have ended, and those that are no longer asked for, and what no longer counts. */
export function current(state: RecoveryState, isWanted: (scope: Scope) => boolean, now: Instant): RecoveryState {
  const isRecent = ({ pods }: Recovery): boolean => [...pods.values()].some((at) => at > now.wall - MINUTE_MS);
  const recoveries = state.recoveries.filter((one) => (one.until > now.wall || isRecent(one)) && isWanted(one));
  const requests = state.requests.filter((at) => at > now.monotonic - MINUTE_MS);
  const open = new Set(openIn({ ...state, recoveries }, now.wall).map(keyOf));
  const forbidden = new Map([...state.forbidden].filter(([, { scope }]) => open.has(keyOf(scope))));
  return { recoveries, requests, refused: recoveries.length === 0 ? new Map() : state.refused, forbidden };
}

/** Takes the pods that are gone out of the record. `found`: the UIDs of all pods of the scope, as just listed. */
export function listed(state: RecoveryState, scope: Scope, found: ReadonlySet<string>, now: number): RecoveryState {
  const isLeft = ([uid, one]: [string, Prohibition]): boolean => found.has(uid) || !isSame(one.scope, scope);
  const forbidden = new Map([...state.forbidden].filter(isLeft));
  return changed({ ...state, forbidden }, scope, (one) => ({
    ...one,
    pods: new Map([...one.pods].filter(([uid, at]) => found.has(uid) || at > now - MINUTE_MS)),
  }));
}

/**
 * Records the pods that are to be evicted now: one of each window in its turn, first those that were not refused yet. The windows
 * that get none, or got theirs first, are first next time, also with the next leader.
 */
export function choose(
  state: RecoveryState,
  crashing: readonly Eviction[],
  maxPerMinute: number,
  now: Instant,
): { readonly state: RecoveryState; readonly evictions: readonly Eviction[] } {
  const known = new Set(state.recoveries.flatMap(({ pods }) => [...pods.keys()]));
  const left = Math.max(0, maxPerMinute - state.requests.filter((at) => at > now.monotonic - MINUTE_MS).length);
  const space = new Map(openIn(state, now.wall).map((one) => [keyOf(one), MAX_RECORDED_PODS - one.pods.size]));
  const due = crashing.filter(
    ({ pod: { uid } }) => !known.has(uid) && (state.refused.get(uid)?.retryAt ?? 0) <= now.wall,
  );
  const evictions: Eviction[] = [];
  for (const one of inTurn(due, state)) {
    const room = space.get(keyOf(one.scope)) ?? 0;
    if (evictions.length >= left) break;
    if (room <= 0 || known.has(one.pod.uid)) continue;
    space.set(keyOf(one.scope), room - 1);
    known.add(one.pod.uid);
    evictions.push(one);
  }
  const next = evictions.reduce((before, one) => recorded(before, one, now), state);
  const lastOf = (one: Recovery): number => evictions.findLastIndex(({ scope }) => isSame(scope, one));
  const recoveries = next.recoveries.toSorted((a, b) => lastOf(a) - lastOf(b));
  return { state: { ...next, recoveries }, evictions };
}

function inTurn(due: readonly Eviction[], { recoveries, refused }: RecoveryState): readonly Eviction[] {
  const refusals = ({ pod: { uid } }: Eviction): number => refused.get(uid)?.count ?? 0;
  const byScope = Map.groupBy(due, ({ scope }) => keyOf(scope));
  const turns = recoveries.flatMap((one) =>
    (byScope.get(keyOf(one)) ?? [])
      .toSorted((a, b) => refusals(a) - refusals(b))
      .map((eviction, turn) => ({ eviction, turn })),
  );
  return turns.toSorted((a, b) => a.turn - b.turn).map(({ eviction }) => eviction);
}

function recorded(state: RecoveryState, { scope, pod }: Eviction, { wall, monotonic }: Instant): RecoveryState {
  const next = changed(state, scope, (one) => ({
    ...one,
    evicted: one.evicted + 1,
    pods: new Map(one.pods).set(pod.uid, wall),
  }));
  return { ...next, requests: [...next.requests, monotonic] };
}

/** The evictions that were chosen at `chosenAt` have been requested by now, both on the monotonic clock. */
export function requested(state: RecoveryState, chosenAt: number, now: number): RecoveryState {
  return { ...state, requests: state.requests.map((at) => (at >= chosenAt ? Math.max(at, now) : at)) };
}

/** kube-apiserver has refused the eviction. The request counts for the minute. */
export function refuse(state: RecoveryState, eviction: Eviction, retryAfterMs: number, now: number): RecoveryState {
  const { uid } = eviction.pod;
  const count = (state.refused.get(uid)?.count ?? 0) + 1;
  const retryAt = now + Math.min(RETRY.capMs, Math.max(retryAfterMs, delayAfter(count, RETRY)));
  return { ...forget(state, eviction), refused: new Map(state.refused).set(uid, { count, retryAt }) };
}

/** RBAC or admission forbids the eviction: reported until it is accepted, the pod is gone, or the window closes. */
export function forbid(state: RecoveryState, { scope, pod }: Eviction, message: string): RecoveryState {
  const { namespace, uid } = pod;
  const first = state.forbidden.get(uid)?.message;
  const isSameCause = first !== undefined && isOfRBAC(first) === isOfRBAC(message);
  const prohibition = { scope, namespace, message: isSameCause ? first : message };
  return { ...state, forbidden: new Map(state.forbidden).set(uid, prohibition) };
}

/** kube-apiserver has accepted the eviction: the pod's own, and what RBAC denies for the whole namespace, is over. */
export function accept(state: RecoveryState, { pod }: Eviction): RecoveryState {
  const isOver = ([uid, { namespace, message }]: [string, Prohibition]): boolean =>
    uid === pod.uid || (namespace === pod.namespace && isOfRBAC(message));
  return { ...state, forbidden: new Map([...state.forbidden].filter((one) => !isOver(one))) };
}

/** Nothing was requested for the pod. */
export function forget(state: RecoveryState, { scope, pod }: Eviction): RecoveryState {
  return changed(state, scope, (one) => ({
    ...one,
    evicted: one.evicted - 1,
    pods: new Map([...one.pods].filter(([uid]) => uid !== pod.uid)),
  }));
}

/** When the next eviction may be requested, on the monotonic clock as `now`, milliseconds. */
export function nextRequestAt({ requests }: RecoveryState, maxPerMinute: number, now: number): number {
  const recent = requests.filter((at) => at > now - MINUTE_MS).toSorted((a, b) => a - b);
  const oldest = recent.at(-maxPerMinute);
  return oldest === undefined ? now : oldest + MINUTE_MS;
}

function changed(state: RecoveryState, scope: Scope, change: (one: Recovery) => Recovery): RecoveryState {
  return { ...state, recoveries: state.recoveries.map((one) => (isSame(one, scope) ? change(one) : one)) };
}

export function keyOf({ kind, name }: Scope): string {
  return `${kind} ${name}`;
}
