import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { HostSettingsStatus, ReplacedSetting } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import type { UpdaterSettings } from '../host/host.ts';

/** The settings that were changed for a spec, without words. */
export type SettingRecords = Omit<HostSettingsStatus, 'message'>;

/** What is left to do for `spec.hostSettings`. */
export interface SettingsPlan {
  /** What must be on record before anything is set, so that the host's own settings can be put back after a crash at any instant. */
  readonly records: SettingRecords;
  /** What differs on the host; empty when nothing does. */
  readonly changes: Partial<UpdaterSettings>;
  /** All that is on record with the value that it must have now: what to store again when it is not known to have been applied. */
  readonly recorded: Partial<UpdaterSettings>;
  /** What stays on record when all this is in force and the host has looked for updates with it. */
  readonly kept: SettingRecords;
}

interface Setting<T extends string | boolean> {
  readonly wanted: T | null | undefined;
  readonly record: ReplacedSetting<T> | undefined;
  readonly live: T;
  readonly same: (a: T, b: T) => boolean;
}

interface Step<T extends string | boolean> {
  /** On record before the value is set. */
  readonly record?: ReplacedSetting<T> | undefined;
  readonly kept?: ReplacedSetting<T> | undefined;
  readonly value: T;
}

/** True when the agent has anything to do with the host's settings: in a state in which it may, and something is asked for or on record. */
export function concernsSettings({ spec, status }: AgentShadow): boolean {
  const { versionLock: wantedLock, ignoreWaves: wantedWaves } = spec.hostSettings ?? {};
  const { versionLock, ignoreWaves } = status?.hostSettings ?? {};
  // Later nothing may disturb the update.
  const early = spec.state !== 'RebootedIntoUpdate' && spec.state !== 'MonitoringUpdate';
  return early && [wantedLock, wantedWaves, versionLock, ignoreWaves].some((one) => one != null);
}

/** Compares what the spec asks for with what is on record and what the host has. */
export function planSettings({ spec, status }: AgentShadow, live: UpdaterSettings): SettingsPlan {
  const wanted = spec.hostSettings ?? {};
  const records = status?.hostSettings ?? {};
  const lock = stepOf({
    wanted: wanted.versionLock,
    record: records.versionLock,
    live: live.versionLock,
    same: sameVersion,
  });
  const waves = stepOf({
    wanted: wanted.ignoreWaves,
    record: records.ignoreWaves,
    live: live.ignoreWaves,
    same: Object.is,
  });
  return {
    records: bothOf(lock.record, waves.record),
    changes: {
      ...(sameVersion(lock.value, live.versionLock) ? {} : { versionLock: lock.value }),
      ...(waves.value === live.ignoreWaves ? {} : { ignoreWaves: waves.value }),
    },
    recorded: {
      ...(lock.record === undefined ? {} : { versionLock: lock.value }),
      ...(waves.record === undefined ? {} : { ignoreWaves: waves.value }),
    },
    kept: bothOf(lock.kept, waves.kept),
  };
}

/**
 * The host's value is ours when it is the one on record. A value of ours that is not asked for any more is put back first, also when another one is asked
 * for: a record says what one change has replaced, and during the next one it would say so of neither. Any other value is somebody's own: when
 * it must give way, it is what will be put back.
 */
function stepOf<T extends string | boolean>(setting: Setting<T>): Step<T> {
  const { wanted, record, live, same } = setting;
  const asked = recordAsked(setting);
  if (record !== undefined && asked === undefined && isOurs(record, setting)) return { record, value: record.before };
  if (wanted == null || same(wanted, live)) return { record, kept: asked, value: live };
  const written = asked !== undefined && same(asked.before, live) ? asked : { value: wanted, before: live };
  return { record: written, kept: written, value: wanted };
}

/** The record when it is of the value that is asked for. */
function recordAsked<T extends string | boolean>({ wanted, record, same }: Setting<T>): ReplacedSetting<T> | undefined {
  return record !== undefined && wanted != null && same(record.value, wanted) ? record : undefined;
}

function isOurs<T extends string | boolean>(
  { value, before }: ReplacedSetting<T>,
  { live, same }: Setting<T>,
): boolean {
  return same(value, live) && !same(value, before);
}

function bothOf(
  versionLock: ReplacedSetting<string> | undefined,
  ignoreWaves: ReplacedSetting<boolean> | undefined,
): SettingRecords {
  return {
    ...(versionLock === undefined ? {} : { versionLock }),
    ...(ignoreWaves === undefined ? {} : { ignoreWaves }),
  };
}

/** True when both say the same of every setting. */
export function sameRecords(a: SettingRecords | undefined, b: SettingRecords): boolean {
  return (['versionLock', 'ignoreWaves'] as const).every(
    (name) => a?.[name]?.value === b[name]?.value && a?.[name]?.before === b[name]?.before,
  );
}
