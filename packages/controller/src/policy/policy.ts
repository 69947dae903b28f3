import {
  type BrupopConfig,
  type Day,
  DAYS,
  type DrainSettings,
  type InForce,
  inForceOf,
  type Order,
  ORDERS,
  PAUSE_MODES,
  type PauseMode,
  readDrainSettings,
  SpecReader,
  withDefaults,
} from '@brupop/shared/api/brupop-config';
import { FORCE_LIMIT_MS, REBOOT_TIMEOUT_MIN_MS, STEP_LIMITS_MS } from '@brupop/shared/api/deadlines';
import type { HostSettings } from '@brupop/shared/api/shadow';
import { isVersionText, sameVersion } from '@brupop/shared/api/version';
import type { LabelSelector } from '@brupop/shared/api/meta';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { type Blackout, type Calendar, calendarOf, type Maintenance, problemOf } from './calendar.ts';
import type { Window } from './schedule.ts';
import { readSelector } from './selector.ts';

/** How many nodes may be away at once; undefined: that does not limit. */
export interface Concurrency {
  readonly maxUpdating: NodeLimit;
  readonly maxUnavailable: NodeLimit | undefined;
  readonly maxPerZone: number | undefined;
  readonly maxZones: number | undefined;
}

/** Which versions nodes go to. */
export interface VersionSettings {
  readonly pin: string | undefined;
  readonly minimumAgeMs: number;
  readonly ignoreWaves: boolean;
  readonly deny: readonly string[];
}

/** How long steps may take, milliseconds. */
export interface Timeouts {
  readonly stageMs: number;
  readonly rebootMs: number;
}

/** How a node is watched after its update, milliseconds. */
export interface Monitoring {
  /** How long it must have been healthy. */
  readonly healthyForMs: number;
  /** How much longer than that it may take. */
  readonly timeoutMs: number;
}

/** When failed nodes are tried again. Times are milliseconds. */
export interface RetrySettings {
  readonly baseMs: number;
  readonly capMs: number;
  /** With one version. */
  readonly attempts: number;
}

/** How nodes are updated: the configuration, checked, with every default filled in, and what follows from it. */
export interface UpdatePolicy {
  readonly paused: boolean;
  readonly pauseMode: PauseMode;
  /** Updates whose host was not yet asked to reboot are cancelled. */
  readonly interrupt: boolean;
  readonly pauseReason: string | undefined;
  readonly maintenance: MaintenanceSettings;
  readonly calendar: Calendar;
  readonly concurrency: Concurrency;
  readonly versions: VersionSettings;
  /** What the hosts are to be set to; undefined: they keep what they have. */
  readonly hostSettings: HostSettings | undefined;
  readonly drain: DrainSettings;
  /** How long load balancers and the drain may take together, milliseconds. */
  readonly drainMs: number;
  readonly timeouts: Timeouts;
  readonly monitoring: Monitoring;
  readonly retry: RetrySettings;
  /** Undefined: all nodes with the label of managed ones. */
  readonly nodeSelector: LabelSelector | undefined;
  readonly order: Order;
  /** What all of this was read from; undefined: nothing but the defaults. */
  readonly inForce: InForce | undefined;
  /** Why the configuration cannot be followed, and what to write instead. Nothing new starts then; all else is as it was before. */
  readonly problem: string | undefined;
}

/** Windows that nobody can make out let nothing begin. */
const NEVER_OPEN: Calendar = {
  at: () => ({ open: false, reason: 'OutsideWindows', until: undefined, blackout: undefined }),
  nextFit: () => undefined,
};

type Read = Omit<UpdatePolicy, 'inForce'>;

/** Reads a BrupopConfig; undefined: there is none. The API server's schema refuses most mistakes; what slips through is named in `problem`. */
export function readPolicy(config: BrupopConfig | undefined, monitoringMs = 0): UpdatePolicy {
  const policy = readConfig(config);
  return { ...policy, monitoring: { ...policy.monitoring, healthyForMs: monitoringMs } };
}

function readConfig(config: BrupopConfig | undefined): UpdatePolicy {
  if (config === undefined) return { ...readSpec(withDefaults(undefined)), inForce: undefined };
  const inForce = inForceOf(config);
  const settings = readSpec(inForce.spec);
  if (settings.problem === undefined) return { ...settings, inForce };
  // The record may be what is wrong: of a later release, or edited by hand.
  const anew = { generation: inForce.generation, spec: withDefaults(config.spec) };
  const own = readSpec(anew.spec);
  if (own.problem === undefined) return { ...own, inForce: anew };
  const good = config.status?.inForce;
  return { ...lastGood(good, own), problem: own.problem, inForce: good };
}

/** What held before holds for nodes under way; a pause is honoured all the same, but it interrupts nothing. */
function lastGood(good: InForce | undefined, own: Read): Read {
  const { paused, pauseReason } = own;
  // Of what nobody has ever put in force all counts that can be made out.
  if (good === undefined) return { ...own, pauseMode: 'Finish', interrupt: false };
  const before = readSpec(good.spec);
  if (!paused || before.paused) return before;
  return { ...before, paused, pauseMode: 'Finish', interrupt: false, pauseReason };
}

/** Fields that have fields of their own. */
const GROUPS = ['maintenance', 'concurrency', 'versions', 'drain', 'loadBalancer', 'timeouts', 'retry', 'nodeSelector'];

/**
 * What is wrong is taken as not given. What is neither given nor on record is as it was before there was such a field, or has the value with which
 * the field came: that is not to follow the defaults of later releases.
 */
function readSpec(spec: unknown): Read {
  const read = new SpecReader(spec);
  for (const group of GROUPS) readGroup(read, group);
  const drain = readDrainSettings(spec);
  const maintenance = readMaintenance(read);
  const paused = read.flag('paused');
  const pauseMode = read.oneOf('pauseMode', PAUSE_MODES);
  const versions = readVersions(read);
  const settings = {
    paused,
    pauseMode,
    interrupt: paused && pauseMode === 'Interrupt',
    pauseReason: read.text('pauseReason'),
    maintenance,
    concurrency: readConcurrency(read),
    versions,
    hostSettings: hostSettingsOf(versions),
    drain: drain.settings,
    drainMs: drainLimitMs(drain.settings),
    ...readTimeouts(read),
    retry: readRetry(read),
    nodeSelector: readSelector(read, 'nodeSelector'),
    order: read.oneOf('order', ORDERS),
  };
  const unusable = calendarProblem(maintenance);
  const problem = read.problem ?? drain.problem ?? unusable;
  return { ...settings, calendar: unusable === undefined ? calendarOf(maintenance) : NEVER_OPEN, problem };
}

function readGroup(read: SpecReader, field: string): void {
  const value = read.valueOf(field);
  const hasFields = typeof value === 'object' && !Array.isArray(value);
  if (value !== undefined && !hasFields) read.wrong(field, 'fields of its own', value);
}

function calendarProblem(maintenance: MaintenanceSettings): string | undefined {
  const problem = problemOf(maintenance);
  return problem && `spec.${problem}`;
}

function readConcurrency(read: SpecReader): Concurrency {
  const many = { min: 1, max: Number.MAX_SAFE_INTEGER };
  return {
    maxUpdating: readNodeLimit(read, 'concurrency.maxUpdating') ?? { nodes: 1 },
    maxUnavailable: readNodeLimit(read, 'concurrency.maxUnavailable'),
    maxPerZone: read.wholeNumber('concurrency.maxPerZone', many),
    maxZones: read.wholeNumber('concurrency.maxZones', many),
  };
}

function readVersions(read: SpecReader): VersionSettings {
  const pin = read.valueOf('versions.pin') === undefined ? undefined : readVersion(read, 'versions.pin');
  const deny = read.items('versions.deny').flatMap((field) => readVersion(read, field) ?? []);
  if (pin !== undefined && deny.some((version) => sameVersion(version, pin))) {
    read.wrong('versions.pin', 'a version that is not one of deny', pin);
  }
  const minimumAgeMs = readDuration(read, 'versions.minimumAge', { min: '0m', max: '8760h' }) ?? 0;
  return { pin, minimumAgeMs, ignoreWaves: read.flag('versions.ignoreWaves'), deny };
}

function readVersion(read: SpecReader, field: string): string | undefined {
  const value = read.valueOf(field);
  return isVersionText(value)
    ? value
    : read.wrong(field, 'a semantic version such as 1.21.0, without a leading v', value);
}

function readTimeouts(read: SpecReader): Pick<UpdatePolicy, 'timeouts' | 'monitoring'> {
  const milliseconds = (field: string, min: number, fallback: number): number =>
    (read.wholeNumber(`timeouts.${field}`, { min, max: 86_400 }) ?? fallback) * 1000;
  return {
    timeouts: {
      stageMs: milliseconds('stageSeconds', 60, STEP_LIMITS_MS.Stage / 1000),
      rebootMs: milliseconds('rebootSeconds', REBOOT_TIMEOUT_MIN_MS / 1000, STEP_LIMITS_MS.Reboot / 1000),
    },
    monitoring: { healthyForMs: 0, timeoutMs: milliseconds('monitorSeconds', 60, 1_800) },
  };
}

function readRetry(read: SpecReader): RetrySettings {
  const baseMs = (read.wholeNumber('retry.backoffSeconds', { min: 10, max: 86_400 }) ?? 300) * 1000;
  const capMs = (read.wholeNumber('retry.maxBackoffSeconds', { min: 10, max: 604_800 }) ?? 86_400) * 1000;
  if (capMs < baseMs) read.wrong('retry.maxBackoffSeconds', 'at least backoffSeconds', capMs / 1000);
  return { baseMs, capMs, attempts: read.wholeNumber('retry.attempts', { min: 1, max: 100 }) ?? 10 };
}

/** What the hosts are to be set to; undefined: they keep what they have. */
function hostSettingsOf({ pin, ignoreWaves }: VersionSettings): HostSettings | undefined {
  if (pin === undefined && !ignoreWaves) return undefined;
  return { ...(pin !== undefined && { versionLock: pin }), ...(ignoreWaves && { ignoreWaves }) };
}

function drainLimitMs({ exclusionMs, timeoutMs, onTimeout }: DrainSettings): number {
  return exclusionMs + timeoutMs + (onTimeout === 'Force' ? FORCE_LIMIT_MS : 0);
}

/** True when the configuration lets nodes go to this version. */
export function isWanted(version: string, { pin, deny }: VersionSettings): boolean {
  if (deny.some((one) => sameVersion(one, version))) return false;
  return pin === undefined || sameVersion(pin, version);
}

/** The version that a node is to run: the pinned one, or what its host is offered. */
export function wantedVersion(offered: string, { pin }: VersionSettings): string {
  return pin ?? offered;
}

/** When nodes may begin updates, and how long one is expected to take. */
export interface MaintenanceSettings extends Maintenance {
  /** How long an update is taken to last while none was measured, milliseconds. */
  readonly estimateMs: number;
  /** How much longer than expected an update may take before its window closes, milliseconds. */
  readonly marginMs: number;
}

const MINUTE_MS = 60_000;
/** RFC 3339 to the millisecond. */
const TIME = /^(?<date>\d{4}-\d{2}-\d{2})T(?!24)\d{2}:\d{2}:\d{2}(?:\.\d{1,3})?(?:Z|[+-]\d{2}:\d{2})$/u;
/** Intl takes offsets such as +01:00, too, which know no daylight saving. */
const ZONE_NAME = /^[A-Za-z]/u;

/** Reads `maintenance`. What croner alone can judge is left to the calendar. */
export function readMaintenance(read: SpecReader): MaintenanceSettings {
  return {
    timeZone: readTimeZone(read, 'maintenance.timeZone') ?? 'UTC',
    windows: read.items('maintenance.windows').map((field) => readWindow(read, field)),
    blackouts: read.items('maintenance.blackouts').map((field) => readBlackout(read, field)),
    estimateMs: readDuration(read, 'maintenance.updateEstimate', { min: '1m', max: '24h' }) ?? 30 * MINUTE_MS,
    marginMs: readDuration(read, 'maintenance.margin', { min: '0m', max: '24h' }) ?? 10 * MINUTE_MS,
  };
}

function readTimeZone(read: SpecReader, field: string): string | undefined {
  const value = read.valueOf(field);
  if (value === undefined || (typeof value === 'string' && ZONE_NAME.test(value))) return value;
  return read.wrong(field, 'an IANA time zone such as Europe/Berlin or UTC', value);
}

function readWindow(read: SpecReader, field: string): Window {
  const schedule = read.text(`${field}.schedule`);
  const durationMs = readDuration(read, `${field}.duration`, { min: '1m', max: '168h' });
  if (schedule === undefined) read.wrong(`${field}.schedule`, 'five cron fields, such as 0 2 * * SAT', schedule);
  if (durationMs === undefined) read.wrong(`${field}.duration`, 'hours and minutes, such as 4h', durationMs);
  const days = read.items(`${field}.days`).flatMap((day) => readDay(read, day));
  return { schedule: schedule ?? '', durationMs: durationMs ?? 0, days };
}

function readDay(read: SpecReader, field: string): Day[] {
  const value = read.valueOf(field);
  const day = DAYS.find((one) => one === value);
  if (day === undefined) read.wrong(field, `one of ${DAYS.join(', ')}`, value);
  return day === undefined ? [] : [day];
}

function readBlackout(read: SpecReader, field: string): Blackout {
  const fromMs = readTime(read, `${field}.from`);
  const toMs = readTime(read, `${field}.to`);
  if (fromMs >= toMs) read.wrong(`${field}.to`, 'a time later than from', read.valueOf(`${field}.to`));
  return { fromMs, toMs, reason: read.text(`${field}.reason`) };
}

function readTime(read: SpecReader, field: string): number {
  const value = read.valueOf(field);
  const ms = typeof value === 'string' ? timeOf(value) : undefined;
  if (ms === undefined)
    read.wrong(field, 'a date and time with an offset from UTC, such as 2026-12-20T00:00:00Z', value);
  return ms ?? 0;
}

/** Without an offset it would depend on the machine's time zone, and the engine takes February 30 for March 2. */
function timeOf(text: string): number | undefined {
  const date = TIME.exec(text)?.groups?.['date'];
  const midnight = parseTime(date && `${date}T00:00:00Z`);
  const isDay = midnight !== undefined && rfc3339(midnight).slice(0, 10) === date;
  return isDay ? parseTime(text) : undefined;
}

/** How many nodes: so many, or a percentage of the managed ones. */
export type NodeLimit = { readonly nodes: number } | { readonly percent: number };

const PERCENT = /^(?<number>[1-9]\d?|100)%$/u;
const DURATION = /^(?:(?<hours>\d{1,4})h)?(?:(?<minutes>\d{1,5})m)?$/u;
const LIMIT_EXPECTED = 'a whole number from 1, such as 2, or a percentage from "1%" to "100%"';

/** How many of `managed` nodes a limit allows: a percentage is rounded down, but at least 1. */
export function nodesAtOnce(limit: NodeLimit, managed: number): number {
  return 'nodes' in limit ? limit.nodes : Math.max(1, Math.floor((managed * limit.percent) / 100));
}

/** Reads a limit; undefined when none is given, or it is wrong, which `read` takes note of. */
export function readNodeLimit(read: SpecReader, field: string): NodeLimit | undefined {
  const value = read.valueOf(field);
  if (value === undefined) return undefined;
  return nodeLimit(value) ?? read.wrong(field, LIMIT_EXPECTED, value);
}

function nodeLimit(value: unknown): NodeLimit | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 1 ? { nodes: value } : undefined;
  const percent = typeof value === 'string' ? PERCENT.exec(value)?.groups?.['number'] : undefined;
  return percent === undefined ? undefined : { percent: Number(percent) };
}

/** Reads a duration, milliseconds, as {@link readNodeLimit} does. */
export function readDuration(
  read: SpecReader,
  field: string,
  { min, max }: { readonly min: string; readonly max: string },
): number | undefined {
  const value = read.valueOf(field);
  if (value === undefined) return undefined;
  const ms = durationMs(value);
  const fits = ms !== undefined && ms >= (durationMs(min) ?? 0) && ms <= (durationMs(max) ?? 0);
  return fits ? ms : read.wrong(field, `hours and minutes from ${min} to ${max}, such as 1h30m`, value);
}

/** Of a text such as `4h`, `90m` or `1h30m`; undefined when it is none. */
function durationMs(value: unknown): number | undefined {
  const { hours, minutes } = (typeof value === 'string' ? DURATION.exec(value)?.groups : undefined) ?? {};
  if (hours === undefined && minutes === undefined) return undefined;
  return (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * MINUTE_MS;
}
