/** The commands that change something, each with one patch. */
import { readShadow, type ShadowView } from '@brupop/controller/cluster/shadow';
import { isUnderWay } from '@brupop/controller/cluster/state';
import { isReason, type Reason } from '@brupop/controller/plan/facts/reasons';
import { mayHaveRebooted } from '@brupop/controller/plan/specs/transition';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import {
  ABORT_ANNOTATION,
  ABORT_VALUE,
  CONFIG_NAME,
  RETRY_ANNOTATION,
  SKIP_ANNOTATION,
  UPDATE_NOW_ANNOTATION,
} from '@brupop/shared/api/names';
import type { KubeRequest } from '@brupop/shared/kube/client';
import { configPath, corePath, nodeGroupPath, shadowPath } from '@brupop/shared/kube/paths';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { namesOf } from '@brupop/shared/runtime/errors';
import { UsageError } from '../cluster/errors.ts';
import { type Fleet, groupOf, readFleet, readGroups, readIfAllowed, shadowOf } from '../cluster/fleet.ts';
import { leaderText } from '../cluster/leader.ts';
import { checkRequest, type Request, skewText } from '../cluster/skew.ts';
import { nodeRow } from '../render/node.ts';
import { freezeText, pauseText } from '../render/pause.ts';
import { type Context, say, warnOf } from './context.ts';

async function patch<T = unknown>(
  { client }: Context,
  path: string,
  body: unknown,
  query: KubeRequest['query'] = {},
): Promise<T> {
  return await client.request({ method: 'PATCH', path, query, body, contentType: 'application/merge-patch+json' });
}

/** A field that the operator of the cluster does not know is refused: otherwise the API server drops it, and reports success. */
async function configure(context: Context, of: OfGroup, spec: object): Promise<Configured> {
  const answer = await patch<Configured>(context, pathOf(of), { spec }, { fieldValidation: 'Strict' });
  if (of.group === undefined) warnOf(context, skewText(answer));
  return answer;
}

/** The object after the change; of a group without what only a BrupopConfig has. */
type Configured = Pick<BrupopConfig, 'spec' | 'status'>;

/** Throws KubeError. */
async function specOf({ client }: Context, of: OfGroup): Promise<Spec> {
  const { spec } = await client.request<{ spec?: Spec }>({ method: 'GET', path: pathOf(of) });
  return spec ?? {};
}

interface Spec {
  readonly paused?: boolean;
  readonly pauseMode?: string;
  readonly rollout?: object;
}

interface OfGroup {
  /** Name of a BottlerocketNodeGroup; undefined: the fleet. */
  readonly group?: string | undefined;
}

function pathOf({ group }: OfGroup): string {
  return group === undefined ? configPath({ name: CONFIG_NAME }) : nodeGroupPath({ name: group });
}

/** The mode and the reason of an earlier pause may be left. Those of a pause that holds are not reset. */
export async function pause(
  context: Context,
  { reason, ...of }: OfGroup & { readonly reason?: string | undefined },
): Promise<void> {
  const before = await specOf(context, of);
  const isPaused = before.paused === true;
  const defaults = isPaused ? {} : { pauseMode: null, pauseReason: null };
  await configure(context, of, { paused: true, ...defaults, ...(reason !== undefined && { pauseReason: reason }) });
  const what = of.group === undefined ? 'The fleet' : `The group ${of.group}`;
  const underWay =
    isPaused && before.pauseMode === 'Interrupt'
      ? 'It was paused before, with pauseMode Interrupt: updates whose host was not yet asked to reboot are cancelled.'
      : 'Updates under way finish.';
  say(context, `${what} is paused: no node starts an update. ${underWay}`);
}

/**
 * A merge patch: null gives a field its default again. Failures are accepted up to the time of the API server, since a
 * clock of a user that is slow would leave out the latest ones, and one that is fast has no effect until later.
 */
export async function resume(
  context: Context,
  { failures, ...of }: OfGroup & { readonly failures: boolean },
): Promise<void> {
  if (failures) {
    const now = rfc3339((await context.client.time(pathOf(of))) ?? context.clock.now());
    await configure(context, of, { rollout: { resume: now } });
    const [budget, rest] =
      of.group === undefined
        ? ['freeze no version', '']
        : ['do not count for its own budget', ' A freeze of the fleet and a hold go on.'];
    const what = `they ${budget}, hold no slot, and send no node back to its previous version.${rest}`;
    say(context, `Failures of ${nameOf(of)} up to ${now} are accepted: ${what} A pause is not ended.`);
    return;
  }
  const { paused } = await specOf(context, of);
  await configure(context, of, { paused: false, pauseReason: null, pauseMode: null });
  const what = paused === true ? `The pause of ${nameOf(of)} is over.` : `There was no pause of ${nameOf(of)}.`;
  say(context, of.group === undefined ? what : `${what} A pause of the fleet holds for its nodes as well.`);
}

/** Fields of `spec.rollout` by which a group has canaries and an approval of its own. */
const OWN_APPROVAL = ['canary', 'soak', 'approval', 'approvedVersion'];

function hasOwnApproval(rollout: object | null | undefined): boolean {
  return Object.keys(rollout ?? {}).some((key) => OWN_APPROVAL.includes(key));
}

/** Throws UsageError for a group that waits for the approval of the fleet: the patch would give it canaries of its own. */
export async function approve(context: Context, version: string, of: OfGroup): Promise<void> {
  if (of.group !== undefined) {
    const { rollout = {} } = await specOf(context, of);
    if (!hasOwnApproval(rollout))
      throw new UsageError(
        `the group ${of.group} has no approval of its own: expected one of ${OWN_APPROVAL.join(', ')} in its ` +
          'spec.rollout, found none; approve the version for the fleet, without --group',
      );
  }
  const configured = await configure(context, of, { rollout: { approvedVersion: version } });
  if (of.group !== undefined) {
    say(context, `${version} is approved for ${nameOf(of)}.`);
    return;
  }
  warnOf(context, uselessText(configured, version));
  const others = await groupsToApprove(context, configured, version);
  const named = ` Nodes of groups with an approval of their own still wait for it, with --group: ${namesOf(others)}.`;
  say(context, `${version} is approved for the fleet.${others.length === 0 ? '' : named}`);
}

/** The names of groups that require an approval of their own, and have not approved the version. */
async function groupsToApprove({ client }: Context, { spec }: Configured, version: string): Promise<string[]> {
  const { items = [] } =
    (await readIfAllowed<{ items?: readonly BottlerocketNodeGroup[] }>(client, nodeGroupPath())) ?? {};
  return items
    .filter(({ spec: { rollout } }) => {
      const approval = rollout?.approval ?? spec.rollout?.approval;
      return hasOwnApproval(rollout) && approval === 'Required' && !sameVersion(rollout?.approvedVersion, version);
    })
    .map(({ metadata }) => metadata.name);
}

/** A sentence when an approval of the fleet lets no node start, at least for now. */
function uselessText({ spec, status }: Configured, version: string): string | undefined {
  if (spec.rollout?.approval !== 'Required')
    return 'spec.rollout.approval is not Required, so no version needs an approval of the fleet';
  const { observedGeneration = 0, versions = [] } = status ?? {};
  const offered = versions.filter((one) => one.offered > 0).map((one) => one.version);
  const wanted = [...offered, spec.versions?.pin];
  if (observedGeneration === 0 || wanted.some((one) => sameVersion(one, version))) return undefined;
  return offered.length === 0
    ? `no host offers ${version}, or any other version`
    : `no host offers ${version}; they offer ${offered.join(', ')}`;
}

function nameOf({ group }: OfGroup): string {
  return group === undefined ? 'the fleet' : `the group ${group}`;
}

/** The fleet, for a request in an annotation. Throws UsageError when its operator may not follow it, and KubeError. */
async function fleetFor(context: Context, name: Request): Promise<Fleet> {
  const fleet = await readFleet(context.client);
  checkRequest(fleet.config, name);
  warnOf(context, await leaderText(context.client, fleet));
  return fleet;
}

/**
 * Throws UsageError when there is nothing to retry, when no version is known that the node is to run, or for an operator
 * of another release.
 */
export async function retry(context: Context, node: string): Promise<void> {
  const fleet = await fleetFor(context, 'retry');
  const shadow = shadowOf(fleet, node);
  const all = { ...fleet, groups: await readGroups(context.client) };
  const version = previousOf(shadow) ?? pinOf(all, shadow) ?? shadow.status?.target_version;
  if (version === undefined) throw new UsageError(`node ${node}: expected a version that its host offers, found none`);
  checkRetry(node, shadow, version);
  await request(context, shadow, { [RETRY_ANNOTATION]: version });
  say(
    context,
    `${node} retries ${version} without waiting for its backoff. Limits and windows hold as before.` +
      remainsText(shadow, 'retry') +
      pauseText(all, shadow) +
      freezeText(all, shadow, version),
  );
}

/** The version to which a node goes back that runs one that failed: it runs that next, whatever is pinned. */
function previousOf(found: BottlerocketShadow): string | undefined {
  const { rollback, status } = readShadow(found);
  const isPending = rollback?.isDone === false && sameVersion(status?.current_version, rollback.failed);
  return isPending ? rollback.previous : undefined;
}

interface Rules extends Pick<Fleet, 'config'> {
  readonly groups: readonly BottlerocketNodeGroup[];
}

/** Of the group of the node, or else of the fleet. */
function pinOf({ config, groups }: Rules, shadow: BottlerocketShadow): string | undefined {
  return groupOf(groups, shadow)?.spec.versions?.pin ?? config?.spec.versions?.pin ?? undefined;
}

/** With these a node that is to reboot for settings starts nothing, so there is nothing that a retry could start sooner. */
const NOT_RETRIED: readonly string[] = [
  'CheckFailed',
  'HostLocked',
  'HostSettingsNotApplied',
  'SettingsConflict',
  'UpdateCheckFailed',
] satisfies Reason[];

/** A request that nothing uses up now would start an attempt later that its user does not expect. */
function checkRetry(node: string, found: BottlerocketShadow, version: string): void {
  const shadow = readShadow(found);
  if (shadow.metadata.annotations?.[ABORT_ANNOTATION] !== undefined)
    throw new UsageError(`node ${node}: its update is to end first: retry it when it shows the reason Aborted`);
  if (isUnderWay(shadow))
    throw new UsageError(`node ${node}: expected a node at rest, found an update to ${shadow.spec.version}`);
  if (sameVersion(shadow.status?.current_version, version)) checkReboot(found, shadow, version);
}

/** A node that runs the version starts nothing but a reboot for its settings. */
function checkReboot(found: BottlerocketShadow, { status }: ShadowView, version: string): void {
  const { node, phase, reason, waitingFor } = nodeRow(found);
  if (phase === 'UpToDate')
    throw new UsageError(`node ${node}: it is up to date with ${version}, so there is nothing to retry`);
  const { pending } = status?.settings ?? {};
  // Before the drain of such a reboot, a check that failed is retried at a time.
  const isBlocked = NOT_RETRIED.includes(reason) && waitingFor === reason;
  if (pending?.some((one) => one.class === 'NeedsReboot') === true && !isBlocked) return;
  const why = `it runs ${version}, which a retry does not change`;
  throw new UsageError(`node ${node}: ${why}: see ${reason || 'First look'} in docs/runbook.md`);
}

async function request(
  context: Context,
  { metadata: { name, namespace = '' } }: Pick<ShadowView, 'metadata'>,
  annotations: Readonly<Record<string, string>>,
): Promise<void> {
  await patch(context, shadowPath({ namespace, name }), { metadata: { annotations } });
}

/** Throws UsageError when the node has no update that can be ended, or for an operator of another release. */
export async function abort(context: Context, node: string): Promise<void> {
  const fleet = await fleetFor(context, 'abort');
  const shadow = readShadow(shadowOf(fleet, node));
  const { version } = shadow.spec;
  if (!isUnderWay(shadow)) throw new UsageError(`node ${node}: expected an update that is under way, found none`);
  if (mayHaveRebooted(shadow))
    throw new UsageError(
      `node ${node}: expected an update before its reboot, but the host may have booted ${version} or be about to: the update goes on`,
    );
  await request(context, shadow, { [ABORT_ANNOTATION]: ABORT_VALUE });
  say(
    context,
    `The update of ${node} to ${version} is to end: the node is uncordoned, and waits until "kubectl brupop retry ${node}". ` +
      'If its host was asked to reboot meanwhile, an Event AbortRefused on the Node says so.',
  );
}

/**
 * Throws UsageError when the host does not offer the version, or another one is pinned, when the node runs it or is under
 * way, or for an operator of another release.
 */
export async function updateNow(
  context: Context,
  node: string,
  { version }: { readonly version?: string | undefined },
): Promise<void> {
  const fleet = await fleetFor(context, 'update-now');
  const found = shadowOf(fleet, node);
  const shadow = readShadow(found);
  if (isUnderWay(shadow))
    throw new UsageError(`node ${node}: expected a node at rest, found an update to ${shadow.spec.version}`);
  const all = { ...fleet, groups: await readGroups(context.client) };
  const offered = offeredTo(node, shadow, { wanted: version, pin: pinOf(all, found) });
  await request(context, shadow, { [UPDATE_NOW_ANNOTATION]: offered });
  say(
    context,
    `${node} updates to ${offered} before other nodes, and outside of maintenance windows, once. ` +
      'Pauses, limits, health, checks, canaries and blackouts hold as before: see "kubectl brupop explain". ' +
      'If it cannot start within 24 hours, the request ends with an Event UpdateNowRefused on the Node.' +
      remainsText(found, 'update-now') +
      pauseText(all, found) +
      freezeText(all, found, offered),
  );
}

/** Throws UsageError when the host offers no version, or another one than a user wants or pins, or the one that it runs. */
function offeredTo(
  node: string,
  { status }: Pick<ShadowView, 'status'>,
  { wanted, pin }: { readonly wanted: string | undefined; readonly pin: string | undefined },
): string {
  const { current_version: running = '', target_version: offered = '' } = status ?? {};
  if (offered === '') throw new UsageError(`node ${node}: expected a version that its host offers, found none`);
  if (wanted !== undefined && !sameVersion(wanted, offered))
    throw new UsageError(`node ${node}: expected --version ${offered}, which its host offers, found ${wanted}`);
  if (sameVersion(running, offered)) throw new UsageError(`node ${node}: it runs ${running}, and is offered no other`);
  if (pin !== undefined && !sameVersion(pin, offered))
    throw new UsageError(`node ${node}: expected its host to offer ${pin}, which is pinned, found ${offered}`);
  return offered;
}

/** The command that ends these. */
const ENDED_BY: Partial<Record<Reason, 'retry' | 'unskip'>> = {
  Aborted: 'retry',
  Backoff: 'retry',
  CheckFailed: 'retry',
  HookFailed: 'retry',
  ManualRetryRequired: 'retry',
  Reverted: 'retry',
  Skipped: 'unskip',
};

/** A sentence, after a space: what the request does not end, and how to end it; empty: none of these. */
function remainsText(found: BottlerocketShadow, asked: Request): string {
  const { node, reason } = nodeRow(found);
  const command = isReason(reason) ? ENDED_BY[reason] : undefined;
  return command === undefined || command === asked
    ? ''
    : ` It also waits for ${reason}, until "kubectl brupop ${command} ${node}".`;
}

export async function skip(context: Context, node: string, reason = 'true'): Promise<void> {
  if (reason === 'false' || reason === '') throw new UsageError(`--reason: expected a text, found "${reason}"`);
  await annotateNode(context, node, reason);
  say(context, `${node} starts no update until "kubectl brupop unskip ${node}".`);
}

export async function unskip(context: Context, node: string): Promise<void> {
  await annotateNode(context, node, null);
  say(context, `${node} may be updated.`);
}

async function annotateNode(context: Context, name: string, value: string | null): Promise<void> {
  await patch(context, corePath('nodes', { name }), { metadata: { annotations: { [SKIP_ANNOTATION]: value } } });
}
