/**
 * The settings of one host: what its spec requests, what its agent reports, and what it has proved. Settings of
 * `spec.versions` are always set, since no workload notices them; the others of a group go on in these states. The
 * class of each change comes from the agent, which asks its host, before anything is set.
 *
 *     requested    the spec is to be written, with `allow: None`
 *     classified   the agent has reported the classes, and waits for more than `allow` covers
 *     changing     `allow` covers some: the agent sets them, restarts services, and confirms
 *     proving      all is in force; the node must be Ready for a while, on the same boot
 *     inForce      nothing is left to do, but perhaps for the next reboot or for a user; `allow: None` is written
 *                  again, so that a later change, such as that of a user which the agent would replace, waits for a
 *                  grant of its own
 *     failed       the change failed: what was in force before it is set again, once, and stays
 *
 * A failure is recorded with a hash of the settings on the shadow. Other settings, or a user who sets `rollout.resume`
 * later, end it. What needs a reboot is pending until the node has booted: for an update, or for these settings alone,
 * but only once, whatever its agent reports. What a host has proved is recorded as well, and is set again when a later
 * change fails:
 *
 *     all is proved           each setting that is requested and does not wait is recorded with its value
 *     a change is granted     a setting that is to be set again to the recorded value is not in force: its record ends
 *     others are requested    a setting that no longer is, and that the host no longer has of the group: its record
 *                             ends
 *     the change fails        the record is requested; for other settings of the group, the values from before the
 *                             group
 */
import { HOST_SETTINGS_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { hashOf, SETTING_CLASSES, type SettingClass, UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import type { Allowed, PendingSetting, Setting, SettingRecord, SettingsSpec } from '@brupop/shared/api/shadow';
import type { NodeRecord } from '@brupop/shared/api/record';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import { answers } from '../../cluster/state.ts';
import type { UpdatePolicy } from '../../policy/policy.ts';
import { idleSince, isAccepted } from './deadlines.ts';
import type { Moment } from '../../kept/moment.ts';

/** How long a node must be Ready with a change since that was seen in force, which is longer than a kubelet that ended counts as running. */
const PROVING_MS = 60_000;
/** How long a change may take until it has failed. */
const CHANGE_LIMIT_MS = HOST_SETTINGS_LIMIT_MS + PROVING_MS;

/** What a host at rest may be allowed to disrupt. */
export type Grant = 'Live' | 'RestartsService';
const AT_REST: ReadonlySet<SettingClass> = new Set<Grant>(['Live', 'RestartsService']);

type SettingsState = 'none' | 'requested' | 'classified' | 'changing' | 'proving' | 'inForce' | 'failed';

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
  /** Why a change has failed; only before the former values are set again. */
  readonly failure?: string;
  /** The change is past its time limit. It continues, but no longer holds a slot or delays updates of the node. */
  readonly isLate?: true;
  /** All is in force, and its Node was not Ready with it for long enough yet. */
  readonly isUnproved?: true;
  /** When they failed with the reboot for them, epoch milliseconds. */
  readonly rebootFailedAt?: number;
  /** Former values wait for a grant: an update has ended that of the failed change, or a reboot had made it. */
  readonly isWithheld?: true;
  /** The node was rebooted for what it is to have now. */
  readonly isRebooted: boolean;
  /** When the state may change by time alone, epoch milliseconds. */
  readonly changesAt?: number;
}

type Input = Pick<NodePair, 'node' | 'shadow' | 'policy' | 'settingsSince'> & { readonly now: Moment };

/** @param input - with the policy before {@link withoutFailed} */
export function settingsFacts(input: Input): SettingsFacts {
  const { shadow, policy, now } = input;
  const hash = hashOfSettings(policy.settings);
  const isWanted = ownSettings(policy.settings).length > 0;
  const failed = isWanted ? recordedAt(shadow.record.settingsFailed, hash, policy, now) : undefined;
  // Only former values are requested of a node on which the settings failed.
  const requested = failed === undefined ? hash : hashOfSettings(restored(policy, shadow).settings);
  const found = { hash, isRebooted: wasRebooted(input, requested), ...reportedOf(shadow) };
  if (failed !== undefined) return { ...found, ...afterFailure(input, hash, failed) };
  if (!isWanted && !isAnyLeft(shadow)) return { ...found, state: 'none' };
  if (!sameSettings(requestedOf(shadow), policy.settings)) return { ...found, state: 'requested' };
  const isChange = isGranted(shadow) && !needsMore(shadow);
  return isChange ? { ...found, ...changeOf(input, isWanted) } : { ...found, ...restingOf(input) };
}

function wasRebooted({ shadow, policy, now }: Input, hash: string): boolean {
  return recordedAt(shadow.record.settingsRebooted, hash, policy, now) !== undefined;
}

/** The grant with which the former values are set again ends when they are proved. Another reboot brings all of them. */
function afterFailure(
  input: Input,
  hash: string,
  at: number,
): Pick<SettingsFacts, 'state' | 'isWithheld' | 'rebootFailedAt' | 'changesAt'> {
  const { shadow } = input;
  const isWithheld = answers(shadow) && needsMore(shadow) && allowedAtReboot(reportedOf(shadow)) === 'None';
  return {
    state: 'failed',
    ...(isWithheld && { isWithheld }),
    ...(wasRebooted(input, hash) && { rebootFailedAt: at }),
    ...(isGranted(shadow) && { changesAt: provesAt(input) }),
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

/** A grant may have ended before its change was proved: with another edit of the group, or of `spec.versions`. */
function restingOf(input: Input): Pick<SettingsFacts, 'state' | 'isUnproved' | 'changesAt'> {
  const { node, shadow, now } = input;
  const { pending = [] } = shadow.status?.settings ?? {};
  if (isOpen(shadow) || pending.some((one) => one.class !== 'NeedsReboot')) return { state: 'classified' };
  const at = readySince(input) + PROVING_MS;
  if (unprovedIn(shadow).length === 0 || (node.ready && now.reached(at))) return { state: 'inForce' };
  return { state: 'inForce', isUnproved: true, ...(node.ready && { changesAt: at }) };
}

/** True when what waits for a grant would replace a value that the host has not proved. */
export function replacesUnproved(shadow: ShadowView): boolean {
  const { pending = [] } = shadow.status?.settings ?? {};
  return unprovedIn(shadow).some(({ key }) => pending.some((one) => one.key === key));
}

/** The same of a reboot, but for one that restores what was in force before settings that failed without a reboot. */
export function repairs(shadow: ShadowView, facts: SettingsFacts | undefined): boolean {
  return facts?.state !== 'failed' && replacesUnproved(shadow);
}

/** What the host has of a group, by its agent, and has not proved by the record. */
function unprovedIn({ status, record }: ShadowView): readonly SettingRecord[] {
  const proved = new Map(record.settingsProved ?? []);
  const { records = [] } = status?.settings ?? {};
  return ownSettings(records).filter(({ key, value }) => proved.get(key) !== value);
}

export function isGranted({ spec }: Pick<ShadowView, 'spec'>): boolean {
  return (spec.settings?.allow ?? 'None') !== 'None';
}

/** True when the host has settings of a group, or is to restore some. */
function isAnyLeft(shadow: ShadowView): boolean {
  const { pending = [], records = [] } = shadow.status?.settings ?? {};
  const own = [...ownSettings(records), ...ownSettings(requestedOf(shadow))];
  return own.length > 0 || pending.length > 0 || isGranted(shadow);
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
function provesAt(input: ProofInput): number {
  return Math.max(idleSince(input.shadow, input.now), readySince(input)) + PROVING_MS;
}

/** Since when the Node is Ready with what its host has now. */
function readySince({ node, settingsSince = 0 }: Pick<Input, 'node' | 'settingsSince'>): number {
  return Math.max(settingsSince, node.readySince ?? 0);
}

export const CHANGE_LIMIT = `${CHANGE_LIMIT_MS / 60_000} min`;

function failureOf({ node, shadow, settingsSince = 0, now }: Input, grantedAt: number): string | undefined {
  const message = rejectionOf(shadow);
  if (message !== undefined) return message;
  if (hasRebooted(shadow)) return 'the host has rebooted since they were set';
  if (!now.reached(grantedAt + CHANGE_LIMIT_MS)) return undefined;
  const setAt = Math.max(grantedAt, settingsSince);
  if (downSince(node) <= setAt + PROVING_MS) return `the Node is not Ready ${CHANGE_LIMIT} after they were set`;
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
export function grantable({ state, pending, isWithheld }: SettingsFacts): Grant | undefined {
  const classes = new Set<SettingClass>(pending.map((one) => one.class));
  if ((state !== 'classified' && isWithheld !== true) || classes.has('Refused')) return undefined;
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
export function waitsForRestore(facts: SettingsFacts | undefined): facts is SettingsFacts & { rebootFailedAt: number } {
  return needsReboot(facts) && facts.rebootFailedAt !== undefined;
}

/** True while the node is rebooted with what it had before settings with which a reboot has failed. */
export function restoresSettings(shadow: ShadowView, facts: SettingsFacts | undefined): boolean {
  return shadow.purpose === 'Settings' && facts?.rebootFailedAt !== undefined;
}

/** What an update that starts may set before its reboot. */
export function allowedAtReboot({ pending }: Pick<SettingsFacts, 'pending'>): Allowed {
  const isPending =
    pending.some((one) => one.class === 'NeedsReboot') && !pending.some((one) => one.class === 'Refused');
  return isPending ? 'NeedsReboot' : 'None';
}

/** True when one class covers the other. */
export function covers(allowed: Allowed | undefined, needed: SettingClass): boolean {
  if (allowed === undefined || allowed === 'None') return false;
  return SETTING_CLASSES.indexOf(allowed) >= SETTING_CLASSES.indexOf(needed);
}

/** The settings that no `spec.versions` asks for. */
export function ownSettings<T extends { readonly key: string }>(settings: readonly T[]): readonly T[] {
  return settings.filter(({ key }) => !UPDATER_SETTINGS.includes(key));
}

function updaterSettings(settings: readonly Setting[]): readonly Setting[] {
  return settings.filter(({ key }) => UPDATER_SETTINGS.includes(key));
}

/** Most nodes have none, and each plan asks for all nodes. */
const HASH_OF_NONE = hashOf([]);

export function hashOfSettings(settings: readonly Setting[]): string {
  const own = ownSettings(settings);
  return own.length === 0 ? HASH_OF_NONE : hashOf(own.map(({ key, value }) => [key, value]));
}

export function sameSettings(a: readonly Setting[], b: readonly Setting[]): boolean {
  const texts = new Set(b.map(textOf));
  return a.length === b.length && a.every((one) => texts.has(textOf(one)));
}

function textOf({ key, value, owner, force = false }: Setting): string {
  return JSON.stringify([key, value, owner, force]);
}

export function requestedOf({ spec }: Pick<ShadowView, 'spec'>): readonly Setting[] {
  return spec.settings?.leaves ?? [];
}

/** The spec for settings; null: none are requested, and none wait to be restored. */
export function specOf(settings: readonly Setting[], allow: Allowed): SettingsSpec | null {
  return settings.length === 0 && allow === 'None' ? null : { leaves: settings, allow };
}

/** Returns the time of a record of these settings; undefined also when a user has accepted it. */
function recordedAt(
  record: NodeRecord['settingsFailed'],
  hash: string,
  policy: UpdatePolicy,
  now: Moment,
): number | undefined {
  if (record?.hash !== hash) return undefined;
  const at = parseTime(record.at);
  return at === undefined || isAccepted(at, policy, now) ? undefined : at;
}

/** Settings that failed on this node are no longer requested of it. */
export function withoutFailed(policy: UpdatePolicy, shadow: ShadowView, now: Moment): UpdatePolicy {
  const { settings } = policy;
  if (ownSettings(settings).length === 0) return policy;
  const isFailed = recordedAt(shadow.record.settingsFailed, hashOfSettings(settings), policy, now) !== undefined;
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

/**
 * The record when settings are about to be set. If the host has lost a setting, a failure restores what it has now. If the
 * node was rebooted for other settings, a return to these may need another reboot, unless they have failed.
 */
export function recordAtGrant(shadow: ShadowView, settings: readonly Setting[]): Partial<NodeRecord> {
  const waiting = waitingIn(shadow);
  const { settingsProved = [], settingsRebooted, settingsFailed } = shadow.record;
  const isKept = [hashOfSettings(settings), settingsFailed?.hash].includes(settingsRebooted?.hash);
  const isLost = ([key, value]: readonly [string, string]): boolean =>
    waiting.has(key) && settings.some((one) => one.key === key && one.value === value);
  return {
    settingsProved: bounded(settingsProved.filter((one) => !isLost(one))),
    settingsRebooted: isKept ? settingsRebooted : undefined,
  };
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
