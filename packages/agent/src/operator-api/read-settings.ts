import type { HostSettings, HostSettingsStatus, ReplacedSetting } from '@brupop/shared/shadow';

import { isLock } from '../host/host-settings.ts';
import { shorten } from '../host/host-status.ts';

const MAX_MESSAGE = 4_096;

type Fields = Readonly<Record<string, unknown>>;

/** Reads `spec.hostSettings`. What cannot be read counts as absent: an agent that is blind because of it could not give its Node back. */
export function readWanted(value: unknown): { hostSettings?: HostSettings } {
  const { versionLock, ignoreWaves } = fieldsOf(value);
  const hostSettings = {
    ...(isLock(versionLock) ? { versionLock } : {}),
    ...(typeof ignoreWaves === 'boolean' ? { ignoreWaves } : {}),
  };
  return Object.keys(hostSettings).length === 0 ? {} : { hostSettings };
}

/** Reads `status.hostSettings`. A record that cannot be read cannot be put back either, and our apiserver would not take it in a report. */
export function readDone(value: unknown): { hostSettings?: HostSettingsStatus } {
  const { versionLock, ignoreWaves, message } = fieldsOf(value);
  const lock = recordOf(versionLock, isLock);
  const waves = recordOf(ignoreWaves, (one) => typeof one === 'boolean');
  const hostSettings = {
    ...(lock === undefined ? {} : { versionLock: lock }),
    ...(waves === undefined ? {} : { ignoreWaves: waves }),
    ...(typeof message === 'string' ? { message: shorten(message, MAX_MESSAGE - 3) } : {}),
  };
  return Object.keys(hostSettings).length === 0 ? {} : { hostSettings };
}

function recordOf<T extends string | boolean>(
  value: unknown,
  is: (one: unknown) => one is T,
): ReplacedSetting<T> | undefined {
  const { value: set, before } = fieldsOf(value);
  return is(set) && is(before) ? { value: set, before } : undefined;
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}
