/**
 * The BrupopConfig as the plan uses it. It is read once, when the spec or the record of what is in
 * force changes; the snapshot carries the result. A configuration with a mistake starts nothing new,
 * and nodes that are updating follow the last good one.
 */
import { type BrupopConfig, type InForce, inForceOf } from '@brupop/shared/api/brupop-config';
import {
  type DrainSettings,
  drainSettingsOf,
  readConfigSpec,
  type SpecValues,
  withDefaults,
} from '@brupop/shared/api/config-spec';
import type { NodeLimit } from '@brupop/shared/api/config-values';
import { FORCE_LIMIT_MS } from '@brupop/shared/api/deadlines';
import type { LabelSelector } from '@brupop/shared/api/label-selector';
import { CONFIG_KIND } from '@brupop/shared/api/names';
import { IGNORE_WAVES, VERSION_LOCK } from '@brupop/shared/api/settings';
import type { Setting } from '@brupop/shared/api/shadow';
import { type Difference, differences, problemOfShape } from '@brupop/shared/api/spec-schema';
import { isLater, sameVersion } from '@brupop/shared/api/version';
import { type Calendar, calendarOf, problemOf } from './calendar.ts';

export type Concurrency = SpecValues['concurrency'];
type MaintenanceSettings = SpecValues['maintenance'];
export type RetrySettings = SpecValues['retry'];
type VersionSettings = SpecValues['versions'];

/** The values of the spec, and what follows from them. Durations are milliseconds. */
export interface UpdatePolicy extends Omit<SpecValues, 'drain' | 'loadBalancer' | 'nodeSelector'> {
  readonly drain: DrainSettings;
  readonly drainMs: number;
  /** Updates whose host was not yet asked to reboot are cancelled. */
  readonly interrupt: boolean;
  readonly calendar: Calendar;
  /** Without the windows: for an update that a user asks for now. */
  readonly calendarOfRequests: Calendar;
  /** What the hosts are to be set to; for others they keep what they have. */
  readonly settings: readonly Setting[];
  readonly nodeSelector: LabelSelector | undefined;
  /** Failures up to these times are accepted, epoch milliseconds: `rollout.resume` of the fleet, and of the group. */
  readonly resumes: readonly number[];
  /** Time limits after a drain start at this time at the earliest, epoch milliseconds: until then nodes could not report. */
  readonly deadlinesFrom?: number;
  /** Connectivity is lost: no update ends. */
  readonly isSuspended?: boolean;
  /** All nodes of the zone are off since it was lost: what they miss says nothing about a version. */
  readonly isZoneOff?: true;
  /** By the clock of the controller no time limit passes, and no step is dated. */
  readonly isClockWrong?: true;
  /** What all of this was read from; undefined: nothing but the defaults. */
  readonly inForce: InForce | undefined;
  /** The spec that the values were read from. */
  readonly source: Fields;
  /** What the next change of the spec also changes: defaults of this release that are not in force. */
  readonly pendingChanges: readonly Difference[];
  readonly problem: string | undefined;
}

const NO_CONFIG =
  'it does not exist. The controller creates it within seconds; if it does not, look for "config_create" in its log';

type Fields = Readonly<Record<string, unknown>>;
type Read = Omit<UpdatePolicy, 'inForce' | 'pendingChanges'>;

/**
 * The API server refuses most mistakes; `problem` names any other. Without a configuration nothing starts.
 * @param before - the policy of the one that was deleted; it still holds for nodes that are updating
 */
export function readPolicy(config: BrupopConfig | undefined, before?: UpdatePolicy): UpdatePolicy {
  if (config === undefined) {
    const policy = before ?? { ...read(withDefaults(undefined)), inForce: undefined, pendingChanges: [] };
    return { ...policy, interrupt: false, problem: NO_CONFIG };
  }
  const misshapen = problemOfShape(config.spec);
  if (misshapen !== undefined) {
    const good = config.status?.inForce;
    return { ...lastGood(good, read(withDefaults(undefined))), problem: misshapen, inForce: good, pendingChanges: [] };
  }
  const inForce = inForceOf(config);
  const policy = read(inForce.spec);
  const pendingChanges = differences(inForce.spec, withDefaults(config.spec));
  if (policy.problem === undefined) return { ...policy, inForce, pendingChanges };
  // The record may be what is wrong: of a later release, or edited by hand.
  const own = { generation: inForce.generation, spec: withDefaults(config.spec) };
  const ownPolicy = read(own.spec);
  if (ownPolicy.problem === undefined) return { ...ownPolicy, inForce: own, pendingChanges: [] };
  const good = config.status?.inForce;
  return { ...lastGood(good, ownPolicy), problem: ownPolicy.problem, inForce: good, pendingChanges: [] };
}

/**
 * The policy by the spec of a group. A pause of the fleet goes before one of the group, and its mistakes stay.
 * @param known - those of the fleet and of other groups
 */
export function policyWith(policy: UpdatePolicy, spec: Fields, known: Openings): UpdatePolicy {
  const { inForce, pendingChanges, paused, pauseMode, pauseReason } = policy;
  const changed = read(spec, known);
  return {
    ...changed,
    inForce,
    pendingChanges,
    ...(paused && { paused, pauseMode, pauseReason }),
    interrupt: policy.interrupt || changed.interrupt,
    resumes: [...policy.resumes, ...changed.resumes],
    problem: policy.problem ?? changed.problem,
  };
}

/** Updating nodes follow the last good one; a pause takes effect, but interrupts nothing. */
function lastGood(good: InForce | undefined, own: Read): Read {
  const { paused, pauseReason } = own;
  // Without a good configuration before, everything that can be read counts.
  if (good === undefined) return { ...own, pauseMode: 'Finish', interrupt: false };
  const before = read(good.spec);
  if (!paused || before.paused) return before;
  return { ...before, paused, pauseMode: 'Finish', interrupt: false, pauseReason };
}

type Calendars = Pick<UpdatePolicy, 'calendar' | 'calendarOfRequests'>;

const NEVER_OPEN: Calendar = {
  at: () => ({ open: false, reason: 'OutsideWindows', until: undefined, blackout: undefined }),
  nextFit: () => undefined,
};
const CLOSED: Calendars = { calendar: NEVER_OPEN, calendarOfRequests: NEVER_OPEN };
const OF_CALENDAR = /^spec\.maintenance(?::|\.(?:timeZone|windows|blackouts))/u;

/**
 * The calendars of a maintenance, or the mistake in it, by its values: a calendar costs much, and most groups have that of
 * the fleet.
 */
export type Openings = Map<string, Calendars | { readonly mistake: string }>;

export function openingsOf({ maintenance, calendar, calendarOfRequests, problem }: UpdatePolicy): Openings {
  return new Map(problem === undefined ? [[keyOf(maintenance), { calendar, calendarOfRequests }]] : []);
}

function keyOf({ timeZone, windows, blackouts }: MaintenanceSettings): string {
  return JSON.stringify([timeZone, windows, blackouts]);
}

function openingOf(maintenance: MaintenanceSettings, known: Openings): Partial<Calendars> & { mistake?: string } {
  const key = keyOf(maintenance);
  const found = known.get(key) ?? newOpening(maintenance);
  known.set(key, found);
  return found;
}

function newOpening(maintenance: MaintenanceSettings): Calendars | { readonly mistake: string } {
  const mistake = problemOf(maintenance);
  if (mistake !== undefined) return { mistake };
  return { calendar: calendarOf(maintenance), calendarOfRequests: calendarOf({ ...maintenance, windows: [] }) };
}

function read(spec: Fields, known: Openings = new Map()): Read {
  const { value, problems } = readConfigSpec(spec);
  const { maintenance, nodeSelector, paused, pauseMode, rollout, versions } = value;
  const { mistake, ...calendars } = openingOf(maintenance, known);
  const isClosed = problems.some((problem) => OF_CALENDAR.test(problem));
  const drain = drainSettingsOf(value);
  return {
    ...value,
    source: spec,
    drain,
    drainMs: drain.exclusionMs + drain.timeoutMs + (drain.onTimeout === 'Force' ? FORCE_LIMIT_MS : 0),
    interrupt: paused && pauseMode === 'Interrupt',
    ...CLOSED,
    ...(!isClosed && calendars),
    settings: settingsOfVersions(versions),
    nodeSelector,
    resumes: rollout.resumeMs === undefined ? [] : [rollout.resumeMs],
    problem: problems[0] ?? (mistake && `spec.${mistake}`),
  };
}

/** A user's lock on the host is replaced: it would decide on the version. */
export function settingsOfVersions({ pin, ignoreWaves }: Pick<VersionSettings, 'pin' | 'ignoreWaves'>): Setting[] {
  const own = { owner: CONFIG_KIND, force: true } as const;
  return [
    ...(pin === undefined ? [] : [{ key: VERSION_LOCK, value: JSON.stringify(pin), ...own }]),
    ...(ignoreWaves ? [{ key: IGNORE_WAVES, value: 'true', ...own }] : []),
  ];
}

export function isWanted(version: string, { pin, deny }: VersionSettings): boolean {
  if (deny.some((one) => sameVersion(one, version))) return false;
  return pin === undefined || sameVersion(pin, version);
}

/** True when a node that runs `running` need not be updated to `version`; a pin may lead to an older one. */
export function isAtOrBeyond(running: string, version: string, { pin }: Pick<VersionSettings, 'pin'>): boolean {
  return sameVersion(running, version) || (isLater(running, version) && !sameVersion(pin, version));
}

/** The version that a node is to run: the pinned one, or what its host is offered. */
export function wantedVersion(offered: string, { pin }: VersionSettings): string {
  return pin ?? offered;
}

/** How many of `managed` nodes a limit allows: a percentage is rounded down, but at least 1. */
export function nodesAtOnce(limit: NodeLimit, managed: number): number {
  return 'nodes' in limit ? limit.nodes : Math.max(1, Math.floor((managed * limit.percent) / 100));
}
