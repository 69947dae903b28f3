/**
 * The settings of one host: what its spec requests and what its agent reports. Settings of
 * `spec.versions` are always set, since no workload notices them; the others of a group go on in these
 * states. The class of each change comes from the agent, which asks its host, before anything is set.
 *
 *     requested    the spec is to be written, with `allow: None`
 *     classified   the agent has reported the classes, and waits for more than `allow` covers
 *     changing     `allow` covers some: the agent sets them, restarts services, and confirms
 *     proving      all is in force; the node must be Ready for a while, on the same boot
 *     inForce      nothing is left to do, but perhaps for the next reboot or for a user; `allow: None` is written again, so that
 *                  a later change, such as that of a user which the agent would replace, waits for a grant of its own
 *     failed       the change failed: what was in force before it is set again, once, and stays
 *
 * A failure is recorded with a hash of the settings on the shadow. Other settings, or a user who sets
 * `rollout.resume` later, end it. What needs a reboot is pending until the node has booted: for an update,
 * or for these settings alone, but only once, whatever its agent reports.
 */
import { HOST_SETTINGS_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { hashOf, SETTING_CLASSES, type SettingClass, UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import type { Allowed, PendingSetting } from '@brupop/shared/api/shadow';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import { idleSince } from './deadlines.ts';
import { restored } from './proved-settings.ts';
import { failedAt, hashOfSettings, ownSettings, recordedAt, requestedOf, sameSettings } from './requested-settings.ts';
import { answers } from '../../cluster/state.ts';
import type { Moment } from './moment.ts';

/** How long a node must be Ready with a change since that was seen in force, which is longer than a kubelet that ended counts as running. */
const PROVING_MS = 60_000;
/** How long a change may take until it has failed. */
const CHANGE_LIMIT_MS = HOST_SETTINGS_LIMIT_MS + PROVING_MS;

/** What a host at rest may be allowed to set. */
const AT_REST: ReadonlySet<SettingClass> = new Set(['Live', 'RestartsService']);

export type SettingsState = 'none' | 'requested' | 'classified' | 'changing' | 'proving' | 'inForce' | 'failed';

export interface SettingsFacts {
  readonly state: SettingsState;
  /** Stands for the settings of the group. */
  readonly hash: string;
  /** What waits for a grant, a reboot or a user. */
  readonly pending: readonly PendingSetting[];
  readonly conflicts: readonly string[];
  readonly cannotUnset: readonly string[];
  /** Why its agent does not change them. */
  readonly message: string | undefined;
  /** Why a change has failed; only before it is put back. */
  readonly failure?: string;
  /** The change is past its time limit. It continues, but no longer holds a slot or delays updates of the node. */
  readonly isLate?: true;
  /** When they failed with the reboot for them, epoch milliseconds. */
  readonly rebootFailedAt?: number;
  /** The node was rebooted for what it is to have now. */
  readonly isRebooted: boolean;
  /** When the state may change by time alone, epoch milliseconds. */
  readonly changesAt?: number;
}

type Input = Pick<NodePair, 'node' | 'shadow' | 'policy' | 'settingsSince'> & { readonly now: Moment };

/** Only former values are requested of a node on which the settings failed. */
function wasRebooted({ shadow, policy, now }: Input, hash: string): boolean {
  return recordedAt(shadow.record.settingsRebooted, hash, policy, now) !== undefined;
}

/** @param input - with the policy before {@link withoutFailed} */
export function settingsFacts(input: Input): SettingsFacts {
  const { shadow, policy, now } = input;
  const hash = hashOfSettings(policy.settings);
  const isWanted = ownSettings(policy.settings).length > 0;
  const failed = isWanted ? failedAt(shadow, hash, policy, now) : undefined;
  const isRebooted = wasRebooted(
    input,
    failed === undefined ? hash : hashOfSettings(restored(policy, shadow).settings),
  );
  const found = { hash, isRebooted, ...reportedOf(shadow) };
  if (failed !== undefined) return { ...found, ...afterFailure(input, hash, failed) };
  if (!isWanted && !isAnyLeft(shadow)) return { ...found, state: 'none' };
  if (!sameSettings(requestedOf(shadow), policy.settings)) return { ...found, state: 'requested' };
  const isChange = isGranted(shadow) && !needsMore(shadow);
  return isChange ? { ...found, ...changeOf(input, isWanted) } : { ...found, state: restingState(shadow) };
}

/** The grant with which the former values are set again ends when they are proved. */
function afterFailure(
  input: Input,
  hash: string,
  at: number,
): Pick<SettingsFacts, 'state' | 'rebootFailedAt' | 'changesAt'> {
  return {
    state: 'failed',
    ...(wasRebooted(input, hash) && { rebootFailedAt: at }),
    ...(isGranted(input.shadow) && { changesAt: provesAt(input) }),
  };
}

/** A host of another version may tell another class than before. */
function needsMore({ spec, status }: ShadowView): boolean {
  const { pending = [] } = status?.settings ?? {};
  return pending.some((one) => AT_REST.has(one.class) && !covers(spec.settings?.allow, one.class));
}

function reportedOf({ status }: ShadowView): Pick<SettingsFacts, 'pending' | 'conflicts' | 'cannotUnset' | 'message'> {
  const { pending = [], conflicts = [], cannotUnset = [], message } = status?.settings ?? {};
  return { pending, conflicts, cannotUnset, message };
}

function restingState(shadow: ShadowView): SettingsState {
  const { pending = [] } = shadow.status?.settings ?? {};
  return isOpen(shadow) || pending.some((one) => one.class !== 'NeedsReboot') ? 'classified' : 'inForce';
}

function isGranted({ spec }: ShadowView): boolean {
  return (spec.settings?.allow ?? 'None') !== 'None';
}

/** True when the host has settings of a group, or is to restore some. */
function isAnyLeft(shadow: ShadowView): boolean {
  const { pending = [], records = [] } = shadow.status?.settings ?? {};
  const recorded = records.some(({ key }) => !UPDATER_SETTINGS.includes(key));
  return recorded || pending.length > 0 || ownSettings(requestedOf(shadow)).length > 0 || isGranted(shadow);
}

/** True until the agent has confirmed that all is in force. */
function isOpen(shadow: ShadowView): boolean {
  const { inFlight, message } = shadow.status?.settings ?? {};
  if (inFlight !== undefined) return true;
  if (message !== undefined) return !isAllSet(shadow);
  // They were in force already, if only what may be disrupted has changed since.
  return !answers(shadow) && !isApplied(shadow);
}

/** True when a message of the agent is about something else, such as a refresh. What no host at rest sets may wait. */
function isAllSet(shadow: ShadowView): boolean {
  const { pending = [], conflicts = [] } = shadow.status?.settings ?? {};
  const waiting = pending.filter((one) => !AT_REST.has(one.class)).map(({ key }) => key);
  return answers(shadow) && isApplied(shadow, [...waiting, ...conflicts]);
}

/** True when the agent has confirmed what is requested now, without `others`. */
function isApplied(shadow: ShadowView, others: readonly string[] = []): boolean {
  const set = requestedOf(shadow).filter(({ key }) => !others.includes(key));
  return shadow.status?.settings?.lastApplied?.hash === hashOf(set.map(({ key, value }) => [key, value]));
}

/** @param isWanted - false: values that are restored were good before, so they do not fail, but are late after the time limit */
function changeOf(input: Input, isWanted: boolean): Pick<SettingsFacts, 'state' | 'failure' | 'isLate' | 'changesAt'> {
  const { shadow, now } = input;
  const grantedAt = idleSince(shadow, now);
  const [provedAt, failsAt] = [provesAt(input), grantedAt + CHANGE_LIMIT_MS];
  const failure = isWanted ? failureOf(input, grantedAt) : undefined;
  if (failure !== undefined) return { state: 'changing', failure };
  if (isProved(input)) return { state: 'inForce' };
  const state = isOpen(shadow) ? 'changing' : 'proving';
  if (now.reached(failsAt)) return { state, isLate: true };
  return { state, changesAt: state === 'proving' && !now.reached(provedAt) ? provedAt : failsAt };
}

/** True when what was granted has been done, and the node has been Ready with it long enough. */
export function isProved(input: ProofInput): boolean {
  const { node, shadow, now } = input;
  const isDone = isGranted(shadow) && !isOpen(shadow) && !needsMore(shadow);
  return isDone && node.ready && now.reached(provesAt(input));
}

type ProofInput = Pick<Input, 'node' | 'shadow' | 'settingsSince' | 'now'>;

/** An agent may take minutes from the grant until the settings are in force, and the node may be Ready since then only. */
function provesAt({ node, shadow, settingsSince = 0, now }: ProofInput): number {
  return Math.max(idleSince(shadow, now), settingsSince, node.readySince ?? 0) + PROVING_MS;
}

export const CHANGE_LIMIT = `${CHANGE_LIMIT_MS / 60_000} min`;

function failureOf({ node, shadow, now }: Input, grantedAt: number): string | undefined {
  const message = rejectionOf(shadow);
  if (message !== undefined) return message;
  if (hasRebooted(shadow)) return 'the host has rebooted since they were set';
  if (!now.reached(grantedAt + CHANGE_LIMIT_MS)) return undefined;
  if (downSince(node) <= grantedAt + PROVING_MS) return `the Node is not Ready ${CHANGE_LIMIT} after they were set`;
  return isOpen(shadow) ? `the agent has not confirmed them within ${CHANGE_LIMIT}` : undefined;
}

function rejectionOf(shadow: ShadowView): string | undefined {
  return answers(shadow) && !isAllSet(shadow) ? shadow.status?.settings?.message : undefined;
}

function hasRebooted({ record, status }: ShadowView): boolean {
  const bootID = record.settingsBoot;
  return bootID !== undefined && status?.bootID !== undefined && status.bootID !== bootID;
}

function downSince({ ready, readySince }: NodePair['node']): number {
  return ready ? Infinity : (readySince ?? 0);
}

/** True from the grant until the change is proved, or late. */
export function isChanging(facts: SettingsFacts | undefined): boolean {
  return (facts?.state === 'changing' || facts?.state === 'proving') && facts.isLate !== true;
}

/** False while something that is requested is not in force. */
export function isComplete(facts: SettingsFacts | undefined): boolean {
  if (facts === undefined || facts.state === 'none') return true;
  return facts.state === 'inForce' && facts.pending.length + facts.conflicts.length === 0;
}

/** The least that the next grant has to allow; undefined: nothing that is pending can be granted while the node is at rest. */
export function grantable({ state, pending }: SettingsFacts): 'Live' | 'RestartsService' | undefined {
  const classes = new Set<SettingClass>(pending.map((one) => one.class));
  if (state !== 'classified' || classes.has('Refused')) return undefined;
  if (classes.has('RestartsService')) return 'RestartsService';
  return classes.has('Live') ? 'Live' : undefined;
}

/** True when a reboot is all that is left to do for the settings. */
export function needsReboot(facts: SettingsFacts | undefined): facts is SettingsFacts {
  if (facts === undefined) return false;
  const isDone = facts.state === 'inForce' || facts.state === 'failed';
  return isDone && allowedAtReboot(facts) === 'NeedsReboot' && !facts.isRebooted;
}

/** True while a reboot is to bring back what was before settings with which a reboot has failed. */
export function awaitsRestore(facts: SettingsFacts | undefined): facts is SettingsFacts & { rebootFailedAt: number } {
  return needsReboot(facts) && facts.rebootFailedAt !== undefined;
}

/** True while the node is rebooted with what it had before settings with which a reboot has failed. */
export function restoresSettings(shadow: ShadowView, facts: SettingsFacts | undefined): boolean {
  return shadow.purpose === 'Settings' && facts?.rebootFailedAt !== undefined;
}

/** What an update that starts may set before its reboot. */
export function allowedAtReboot({ pending }: SettingsFacts): Allowed {
  const isPending =
    pending.some((one) => one.class === 'NeedsReboot') && !pending.some((one) => one.class === 'Refused');
  return isPending ? 'NeedsReboot' : 'None';
}

/** True when one class covers the other. */
export function covers(allowed: Allowed | undefined, needed: SettingClass): boolean {
  if (allowed === undefined || allowed === 'None') return false;
  return SETTING_CLASSES.indexOf(allowed) >= SETTING_CLASSES.indexOf(needed);
}
