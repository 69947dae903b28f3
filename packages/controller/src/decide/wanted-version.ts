import { sameVersion } from '../cluster/version.ts';
import type { VersionSettings } from '../settings/fleet-settings.ts';

/** True when the configuration lets nodes go to this version. */
export function isWanted(version: string, { pin, deny }: VersionSettings): boolean {
  if (deny.some((one) => sameVersion(one, version))) return false;
  return pin === undefined || sameVersion(pin, version);
}

/** The version that a node is to run: the pinned one, or what its host is offered. */
export function wantedVersion(offered: string, { pin }: VersionSettings): string {
  return pin ?? offered;
}
