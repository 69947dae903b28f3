/** Why a host does not have the settings that its group requests, or still has those of an earlier group: the condition of its shadow. */
import { allowedAtReboot, CHANGE_LIMIT, isChanging, isComplete, type SettingsFacts } from './facts/settings.ts';
import type { Blocked, Reason } from './gates/reasons.ts';

export const CHANGING: Blocked = {
  reason: 'ChangingSettings',
  message: 'Other settings of its host are being proved; see status.settings of its BottlerocketShadow',
};

/** Undefined: the host has the settings, or they were requested just now. */
export function whyNotInForce(facts: SettingsFacts | undefined): Blocked | undefined {
  if (facts === undefined || isComplete(facts) || facts.state === 'requested') return undefined;
  if (isChanging(facts)) return CHANGING;
  const [reason, message] = problemOf(facts);
  return { reason, message };
}

function problemOf(facts: SettingsFacts): readonly [reason: Reason, message: string] {
  const { state, isLate, conflicts } = facts;
  const pending = keysOf(facts.pending);
  const refused = facts.pending.find((one) => one.class === 'Refused');
  if (state === 'failed') return ['HostSettingsNotApplied', FAILED];
  if (isLate === true) return ['HostSettingsNotApplied', state === 'changing' ? NOT_RESTORED : NOT_READY];
  if (refused !== undefined)
    return [
      'HostSettingsNotApplied',
      `${refused.key} cannot be set, so no setting of its group is set: ${refused.reason}`,
    ];
  if (conflicts.length > 0)
    return ['SettingsConflict', `A user has set other values on its host: ${named(conflicts)}; ${RESOLVE}`];
  if (facts.isRebooted && allowedAtReboot(facts) === 'NeedsReboot')
    return [
      'HostSettingsNotApplied',
      `The node was rebooted for settings that its host still reports as pending: ${pending}`,
    ];
  return ['ChangingSettings', `Its host has not set ${pending === '' ? 'its settings' : pending} yet; ${WAITS}`];
}

const FAILED =
  'The settings of its group failed, and the former ones are requested of its host again; status.settings of its ' +
  'BottlerocketShadow has what is still pending, and an Event SettingsFailed on the Node has the cause. ' +
  'Change spec.settings of the group, or set spec.rollout.resume of the BrupopConfig to the current time to try again';
const NOT_RESTORED =
  `Its host has not restored the former values within ${CHANGE_LIMIT}, and its agent keeps retrying; ` +
  'see status.settings of its BottlerocketShadow, and the log of the agent';
const NOT_READY = `Its settings have changed, and the Node is not Ready ${CHANGE_LIMIT} later`;
const RESOLVE = 'remove them there, or set spec.settingsConflicts of the group to Force';
const WAITS = 'the condition SettingsApplied of its BottlerocketNodeGroup says what they wait for';

const MAX_KEYS = 5;

function keysOf(pending: SettingsFacts['pending']): string {
  return named(pending.map(({ key }) => key));
}

function named(keys: readonly string[]): string {
  const more = keys.length > MAX_KEYS ? [`${keys.length - MAX_KEYS} more`] : [];
  return [...keys.slice(0, MAX_KEYS), ...more].join(', ');
}
