/**
 * What a host has proved of the settings of its group, recorded on its shadow: what is set again when a later change fails.
 *
 *     all is proved            each setting that is requested and does not wait is recorded with its value
 *     a change is granted      a setting that is to be set again to the recorded value is not in force: its record ends
 *     others are requested     a setting that no longer is, and that the host no longer has of the group: its record ends
 *     the change fails         the record is requested; for other settings of the group, the values from before the group
 */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { Setting } from '@brupop/shared/api/shadow';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { failedAt, hashOfSettings, ownSettings, requestedOf, updaterSettings } from './requested-settings.ts';
import type { Moment } from './moment.ts';

/** Settings that failed on this node are no longer requested of it. */
export function withoutFailed(policy: UpdatePolicy, shadow: ShadowView, now: Moment): UpdatePolicy {
  const { settings } = policy;
  if (ownSettings(settings).length === 0) return policy;
  const isFailed = failedAt(shadow, hashOfSettings(settings), policy, now) !== undefined;
  return isFailed ? restored(policy, shadow) : policy;
}

/** The policy with what was in force before a change that has failed: what the host has last proved, if anything. */
export function restored(policy: UpdatePolicy, shadow: ShadowView): UpdatePolicy {
  return { ...policy, settings: [...updaterSettings(policy.settings), ...provedSettings(policy.settings, shadow)] };
}

/** Of the group whose settings have failed; none if these settings were proved before. */
function provedSettings(failed: readonly Setting[], { record }: ShadowView): readonly Setting[] {
  const owner = ownSettings(failed)[0]?.owner ?? '';
  const found = (record.settingsProved ?? []).map(([key, value]): Setting => ({ key, value, owner }));
  return hashOfSettings(found) === hashOfSettings(failed) ? [] : found;
}

/** A record that is larger is not written: after a failure the host then gets what it had before the group. */
const MAX_PROVED_CHARS = 16_384;

type Proved = NodeRecord['settingsProved'];

/** What is recorded when the settings of a host are proved. For settings that still wait, such as for a reboot, the former value is kept. */
export function provedNow(shadow: ShadowView): Proved {
  const waiting = waitingIn(shadow);
  const before = shadow.record.settingsProved ?? [];
  const proved = ownSettings(requestedOf(shadow)).map(({ key, value }): [string, string] => [key, value]);
  return bounded([...proved.filter(([key]) => !waiting.has(key)), ...before.filter(([key]) => waiting.has(key))]);
}

/** The record when settings are about to be set. If the host has lost a setting, a failure restores what it has now. */
export function provedAtGrant(shadow: ShadowView, settings: readonly Setting[]): Proved {
  const waiting = waitingIn(shadow);
  const before = shadow.record.settingsProved ?? [];
  const isLost = ([key, value]: readonly [string, string]): boolean =>
    waiting.has(key) && settings.some((one) => one.key === key && one.value === value);
  return bounded(before.filter((one) => !isLost(one)));
}

/** The record when other settings are requested. What a user has replaced on the host since it was dropped is not restored. */
export function provedAtChange(shadow: ShadowView): Proved {
  const { records = [] } = shadow.status?.settings ?? {};
  const known = new Set([...requestedOf(shadow), ...records].map(({ key }) => key));
  return bounded((shadow.record.settingsProved ?? []).filter(([key]) => known.has(key)));
}

function waitingIn({ status }: ShadowView): ReadonlySet<string> {
  const { pending = [], conflicts = [] } = status?.settings ?? {};
  return new Set([...pending.map(({ key }) => key), ...conflicts]);
}

function bounded(leaves: NonNullable<Proved>): Proved {
  return leaves.length === 0 || JSON.stringify(leaves).length > MAX_PROVED_CHARS ? undefined : leaves;
}
