/**
 * Compares the settings that the host has with those that the spec requests, leaf by leaf. For each
 * there is a record of the value that the agent set and the one that the host had before:
 *
 *     requested, without a record     record what the host has, set it
 *     requested, recorded             set it, if the host has the former value or one of the agent's
 *     no longer requested, recorded   restore the former value, if the host has one of the agent's
 *     anything else on the host       a user's: a conflict; with `force` it becomes the former value
 *
 * The record is stored before anything is set, and outlives the process. When another value is
 * requested while a change is in flight, the one before is kept in `earlier`: the host may have
 * either, and both are the agent's. Only the classes that `spec.settings.allow` covers are set, and
 * none of them if the host refuses one; what needs a reboot, after the drain. Its record has the boot ID
 * and stays until another boot.
 */
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import { is } from '@brupop/shared/api/schema';
import {
  MAX_LEAVES,
  MAX_VALUE,
  sameValue,
  SETTING_CLASSES,
  settingValue,
  UPDATER_DEFAULTS,
  UPDATER_SETTINGS,
  type Classified,
  type Leaves,
} from '@brupop/shared/api/settings';
import {
  type Allowed,
  MAX_EARLIER,
  type PendingSetting,
  type Setting,
  type SettingRecord,
} from '@brupop/shared/api/shadow';

export interface SettingsPlan {
  /** What must be on record before anything is set. */
  readonly records: readonly SettingRecord[];
  /** What differs on the host. */
  readonly changes: Leaves;
  /** What is set or restored by now, and may be set: stored again when it may not have been applied. */
  readonly recorded: Leaves;
  /** What stays on record when all this is in force. */
  readonly kept: readonly SettingRecord[];
  readonly pending: readonly PendingSetting[];
  /** What is stored and takes effect with the next boot. */
  readonly waitsForBoot: readonly PendingSetting[];
  readonly conflicts: readonly string[];
  readonly cannotUnset: readonly string[];
  /** Changes whose class is not known yet. */
  readonly unclassified: Leaves;
}

/** What happens to one leaf. */
interface Step {
  readonly record?: SettingRecord | undefined;
  readonly kept?: SettingRecord | undefined;
  /** What is set, if anything. */
  readonly change?: string;
  /** What the host has when it is done. */
  readonly target?: string | undefined;
  readonly problem?: 'conflicts' | 'cannotUnset';
}

/** Longest records of one host, in characters of JSON. */
const MAX_RECORDS = 32_768;

/** The classes of changes, by {@link changeKey}. */
export type Classes = ReadonlyMap<string, Classified>;

export function changeKey(key: string, value: string): string {
  return `${key}=${value}`;
}

interface Host {
  readonly live: Leaves;
  readonly classes: Classes;
  readonly bootID: string;
  /** False: what is on record may be stored without being applied. */
  readonly isApplied?: boolean;
}

export function planSettings({ spec, status }: AgentShadow, host: Host): SettingsPlan {
  const { live, classes, bootID } = host;
  const wanted = new Map((spec.settings?.leaves ?? []).map((one) => [one.key, one]));
  const records = new Map((status?.settings?.records ?? []).map((one) => [one.key, one]));
  const keys = [...new Set([...wanted.keys(), ...records.keys()])].toSorted();
  const first = keys.map((key): [string, Step] => {
    const record = records.get(key);
    const origin = originOf(key, record, live.get(key));
    return [key, stepOf(wanted.get(key), record, { live: live.get(key), origin })];
  });
  const asked = first.filter(([key, { change }]) => change !== undefined && !UPDATER_SETTINGS.includes(key));
  const tooLong = refusalOf(first.flatMap(([, { record }]) => record ?? []));
  const found = new Map(asked.map(([key, { change = '' }]) => [key, tooLong ?? classes.get(changeKey(key, change))]));
  const limit = [...found.values()].some((one) => one?.class === 'Refused') ? 'None' : allowedNow(spec);
  const held = new Set(asked.map(([key]) => key).filter((key) => !isCovered(found.get(key), limit)));
  const steps = first.map(([key, step]): [string, Step] => {
    const record = records.get(key);
    // What the host has already needs no record before the others fit into the report.
    const isLeftOut = tooLong !== undefined && record === undefined && !UPDATER_SETTINGS.includes(key);
    if (held.has(key) || isLeftOut) return [key, { record, kept: record }];
    const isForBoot = step.change !== undefined && found.get(key)?.class === 'NeedsReboot';
    return [key, isForBoot ? storedForBoot(step, live.get(key), bootID) : untilBoot(step, bootID, record?.bootID)];
  });
  const kept = steps.flatMap(([, one]) => one.kept ?? []);
  const notAgain = notStoredAgain(first, limit, host);
  const withheld = limit === 'None' ? steps : notAgain;
  const isWithheld = (one: string): boolean => withheld.some(([key]) => key === one);
  const mayBeSet = steps.filter(([key]) => UPDATER_SETTINGS.includes(key) || !isWithheld(key));
  const problems = (problem: Step['problem']): string[] =>
    steps.filter(([, one]) => one.problem === problem).map(([key]) => key);
  return {
    records: steps.flatMap(([, { record }]) => record ?? []),
    changes: leaves(steps, ({ change }) => change),
    recorded: leaves(mayBeSet, ({ record, target }) => record && target),
    kept,
    pending: [...held].flatMap((key) => pendingOf(key, found.get(key))).slice(0, MAX_LEAVES),
    waitsForBoot: kept.filter((one) => one.bootID === bootID).map(({ key }) => ({ key, ...STORED })),
    conflicts: problems('conflicts'),
    cannotUnset: problems('cannotUnset'),
    unclassified: new Map([
      ...asked.flatMap(([key, { change = '' }]) => (found.get(key) === undefined ? [[key, change] as const] : [])),
      ...notAgain.filter(([key, value]) => !classes.has(changeKey(key, value))),
    ]),
  };
}

/** A grant of Live restarts no service, also not for settings that are stored again. */
function notStoredAgain(
  first: readonly (readonly [string, Step])[],
  limit: Allowed,
  { classes, isApplied = true }: Host,
): [key: string, value: string][] {
  if (isApplied || limit !== 'Live') return [];
  return first.flatMap(unchanged).filter(([key, value]) => classes.get(changeKey(key, value))?.class !== 'Live');
}

/** What the host has of a group already. */
function unchanged([key, { record, change, target }]: readonly [string, Step]): [key: string, value: string][] {
  const isSame = record !== undefined && change === undefined && target !== undefined;
  return isSame && !UPDATER_SETTINGS.includes(key) ? [[key, target]] : [];
}

const STORED = { class: 'NeedsReboot', reason: 'it is stored, and takes effect with the next boot' } as const;

function allowedNow({ state, settings }: AgentShadow['spec']): Allowed {
  const allow = settings?.allow ?? 'None';
  return allow === 'NeedsReboot' && state === 'StagedAndPerformedUpdate' ? 'None' : allow;
}

/** A former value that is stored becomes the agent's own, so that its record stays until the boot. */
function storedForBoot(step: Step, live: string | undefined, bootID: string): Step {
  const { record, kept, change: value } = step;
  if (record === undefined || value === undefined) return step;
  const { key, owner } = record;
  const stored = { ...(kept === undefined ? changed({ key, value, owner }, record, live) : record), bootID };
  return { ...step, record: stored, kept: { ...settled(stored, owner), bootID } };
}

/** @param since - the boot in which the value was stored, if it takes effect with the next one */
function untilBoot(step: Step, bootID: string, since: string | undefined): Step {
  const { record, kept } = step;
  if (since !== bootID) return { ...step, kept: kept && inEffect(kept) };
  const isFormer = record !== undefined && sameValue(record.key, record.before, record.value);
  const waits = kept ?? (isFormer ? settled(record, record.owner) : undefined);
  return { ...step, record: record && { ...record, bootID }, kept: waits && { ...waits, bootID } };
}

function inEffect({ bootID: _former, ...record }: SettingRecord): SettingRecord {
  return record;
}

/** The records of a host have to fit into one report, and the report into the shadow. */
function refusalOf(records: readonly SettingRecord[]): Classified | undefined {
  const former = records.flatMap(({ before }) => before ?? []);
  const isTooMany = records.length > MAX_LEAVES || JSON.stringify(records).length > MAX_RECORDS;
  const found = FORMER.find(([holds]) => former.some(holds));
  if (found !== undefined) {
    const reason = `the host has ${found[1]} for a requested setting, which could not be restored`;
    return { class: 'Refused', reason };
  }
  if (!isTooMany) return undefined;
  const limits = `${MAX_LEAVES} settings, or ${MAX_RECORDS} characters`;
  return { class: 'Refused', reason: `with those to be restored there are more than ${limits}: request fewer at once` };
}

/** Former values that no record can have. */
const FORMER: readonly (readonly [holds: (before: string) => boolean, what: string])[] = [
  [(before) => before.length > MAX_VALUE, `a value of more than ${MAX_VALUE} characters`],
  [(before) => !is(settingValue, before), `a whole number beyond ${Number.MAX_SAFE_INTEGER}`],
];

function leaves(steps: readonly (readonly [string, Step])[], of: (step: Step) => string | undefined): Leaves {
  return new Map(
    steps.flatMap(([key, step]) => {
      const value = of(step);
      return value === undefined ? [] : [[key, value] as const];
    }),
  );
}

function isCovered(found: Classified | undefined, allowed: Allowed): boolean {
  if (found === undefined || allowed === 'None') return false;
  return SETTING_CLASSES.indexOf(found.class) <= SETTING_CLASSES.indexOf(allowed);
}

function pendingOf(key: string, found: Classified | undefined): PendingSetting[] {
  return found === undefined ? [] : [{ key, class: found.class, reason: found.reason }];
}

/** Whose value the host has, by the record. */
type Origin = 'unrecorded' | 'former' | 'agent' | 'user';

function originOf(key: string, record: SettingRecord | undefined, live: string | undefined): Origin {
  if (record === undefined) return 'unrecorded';
  if (sameValue(key, record.before, live)) return 'former';
  const set = [record.value, ...(record.earlier ?? [])];
  return set.some((one) => sameValue(key, one, live)) ? 'agent' : 'user';
}

/** The value that the host has. */
interface Live {
  readonly live: string | undefined;
  readonly origin: Origin;
}

function stepOf(wanted: Setting | undefined, record: SettingRecord | undefined, found: Live): Step {
  if (wanted !== undefined) return wantedStep(wanted, record, found);
  return record !== undefined && found.origin === 'agent' ? restored(record, found) : { record, target: found.live };
}

function wantedStep(
  { key, value, owner, force = false }: Setting,
  record: SettingRecord | undefined,
  { live, origin }: Live,
): Step {
  const isEqual = sameValue(key, value, live);
  if (origin === 'user' && !force && !isEqual) return { record, kept: record, problem: 'conflicts' };
  // Without a record, an equal value may be the host's own, or one whose record was lost with its shadow.
  const former = origin === 'unrecorded' && isEqual ? undefined : live;
  const next = changed({ key, value, owner }, origin === 'user' ? undefined : record, former);
  const step = { record: next, kept: settled(next, owner) };
  return isEqual ? { ...step, target: live } : { ...step, change: value, target: value };
}

function restored(record: SettingRecord, { live }: Live): Step {
  const { before } = record;
  if (before === undefined) return { record, kept: record, target: live, problem: 'cannotUnset' };
  return { record, change: before, target: before };
}

/**
 * A record that exists stays as it is while it has the value already. The value that the host has is never left out. What
 * `spec.versions` has set ends with the default, whatever the host had: with a lock from a lost record, the host would not follow the fleet.
 */
function changed(
  to: Pick<SettingRecord, 'key' | 'value' | 'owner'>,
  record: SettingRecord | undefined,
  live: string | undefined,
): SettingRecord {
  if (record === undefined) {
    const before = UPDATER_DEFAULTS.get(to.key) ?? live;
    return { ...to, ...(before !== undefined && { before }) };
  }
  if (record.value === to.value) return record;
  const { before, value, earlier = [] } = record;
  const former = [value, ...earlier].filter((one, index, all) => one !== to.value && all.indexOf(one) === index);
  const liveFirst = former.toSorted((a, b) => Number(b === live) - Number(a === live));
  return { ...to, ...(before !== undefined && { before }), earlier: liveFirst.slice(0, MAX_EARLIER) };
}

function settled({ key, value, before }: SettingRecord, owner: string): SettingRecord {
  return { key, value, ...(before !== undefined && { before }), owner };
}
