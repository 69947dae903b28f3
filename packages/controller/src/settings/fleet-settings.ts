import { ORDERS, PAUSE_MODES } from '@brupop/shared/brupop-config';
import type { BrupopConfig, InForce, Order, PauseMode } from '@brupop/shared/brupop-config';
import { inForceOf, withDefaults } from '@brupop/shared/default-spec';
import { readDrainSettings } from '@brupop/shared/drain/settings';
import type { DrainSettings } from '@brupop/shared/drain/settings';
import type { LabelSelector } from '@brupop/shared/label-selector';
import { isVersionText } from '@brupop/shared/shadow';
import type { HostSettings } from '@brupop/shared/shadow';
import { SpecReader } from '@brupop/shared/spec-reader';
import { sameVersion } from '../cluster/version.ts';
import { calendarOf } from '../calendar/calendar.ts';
import type { Calendar } from '../calendar/calendar.ts';
import { problemOf } from '../calendar/maintenance.ts';
import type { MaintenanceSettings } from './maintenance.ts';
import { readMaintenance } from './maintenance.ts';
import { readSelector } from './selector.ts';
import type { NodeLimit } from './quantities.ts';
import { readDuration, readNodeLimit } from './quantities.ts';

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
  readonly monitorMs: number;
}

/** When failed nodes are tried again. Times are milliseconds. */
export interface RetrySettings {
  readonly baseMs: number;
  readonly capMs: number;
  /** With one version. */
  readonly attempts: number;
}

/** What people have set for the whole fleet, checked, with every default filled in. */
export interface FleetSettings {
  readonly paused: boolean;
  readonly pauseMode: PauseMode;
  readonly pauseReason: string | undefined;
  readonly maintenance: MaintenanceSettings;
  readonly calendar: Calendar;
  readonly concurrency: Concurrency;
  readonly versions: VersionSettings;
  readonly drain: DrainSettings;
  readonly timeouts: Timeouts;
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
  outlook: () => () => undefined,
  opening: () => undefined,
};

type Read = Omit<FleetSettings, 'inForce'>;

/** Reads a BrupopConfig; undefined: there is none. The API server's schema refuses most mistakes; what slips through is named in `problem`. */
export function readFleetSettings(config: BrupopConfig | undefined): FleetSettings {
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
  if (good === undefined) return { ...own, pauseMode: 'Finish' };
  const before = readSpec(good.spec);
  if (!paused || before.paused) return before;
  return { ...before, paused, pauseMode: 'Finish', pauseReason };
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
  const settings = {
    paused: read.flag('paused'),
    pauseMode: read.oneOf('pauseMode', PAUSE_MODES),
    pauseReason: read.text('pauseReason'),
    maintenance,
    concurrency: readConcurrency(read),
    versions: readVersions(read),
    drain: drain.settings,
    timeouts: readTimeouts(read),
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

function readTimeouts(read: SpecReader): Timeouts {
  const milliseconds = (field: string, min: number, fallback: number): number =>
    (read.wholeNumber(`timeouts.${field}`, { min, max: 86_400 }) ?? fallback) * 1000;
  return {
    stageMs: milliseconds('stageSeconds', 60, 2_700),
    // Below that no agent could ask for a reboot whose answer may be lost: see its limits.
    rebootMs: milliseconds('rebootSeconds', 480, 900),
    monitorMs: milliseconds('monitorSeconds', 60, 1_800),
  };
}

function readRetry(read: SpecReader): RetrySettings {
  const baseMs = (read.wholeNumber('retry.backoffSeconds', { min: 10, max: 86_400 }) ?? 300) * 1000;
  const capMs = (read.wholeNumber('retry.maxBackoffSeconds', { min: 10, max: 604_800 }) ?? 86_400) * 1000;
  if (capMs < baseMs) read.wrong('retry.maxBackoffSeconds', 'at least backoffSeconds', capMs / 1000);
  return { baseMs, capMs, attempts: read.wholeNumber('retry.attempts', { min: 1, max: 100 }) ?? 10 };
}

/** What the hosts are to be set to; undefined: they keep what they have. */
export function hostSettings({ versions: { pin, ignoreWaves } }: FleetSettings): HostSettings | undefined {
  if (pin === undefined && !ignoreWaves) return undefined;
  return { ...(pin !== undefined && { versionLock: pin }), ...(ignoreWaves && { ignoreWaves }) };
}
