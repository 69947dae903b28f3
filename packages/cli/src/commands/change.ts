/** The commands that change something: each is one patch, which changes only what it names. */
import {
  NODE_GROUP_PLURAL,
  NODE_GROUP_VERSION,
  RETRY_ANNOTATION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
  SKIP_ANNOTATION,
} from '@brupop/shared/api/names';
import { corePath, crPath } from '@brupop/shared/kube/paths';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { UsageError } from '../cluster/errors.ts';
import { CONFIG_PATH, readFleet, shadowOf } from '../cluster/fleet.ts';
import type { Context } from './context.ts';

async function patch({ client }: Context, path: string, body: unknown): Promise<void> {
  await client.request({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json' });
}

interface OfGroup {
  /** Name of a BottlerocketNodeGroup; undefined: the fleet. */
  readonly group?: string | undefined;
}

function pathOf({ group }: OfGroup): string {
  return group === undefined ? CONFIG_PATH : crPath(NODE_GROUP_PLURAL, { version: NODE_GROUP_VERSION, name: group });
}

export async function pause(
  context: Context,
  { reason, ...of }: OfGroup & { readonly reason?: string | undefined },
): Promise<void> {
  await patch(context, pathOf(of), { spec: { paused: true, ...(reason !== undefined && { pauseReason: reason }) } });
  const what = of.group === undefined ? 'The fleet' : `The group ${of.group}`;
  context.print(`${what} is paused: no node starts an update. Updates under way finish.\n`);
}

/** A merge patch: null gives a field its default again. */
export async function resume(
  context: Context,
  { failures, ...of }: OfGroup & { readonly failures: boolean },
): Promise<void> {
  if (failures) {
    if (of.group !== undefined) throw new UsageError('--failures is for the fleet: expected no --group with it');
    const now = rfc3339(context.clock.now());
    await patch(context, CONFIG_PATH, { spec: { rollout: { resume: now } } });
    context.print(
      `Failures up to ${now} are accepted: they freeze no version, and hold no slot. A pause is not ended.\n`,
    );
    return;
  }
  await patch(context, pathOf(of), { spec: { paused: false, pauseReason: null, pauseMode: null } });
  context.print(`The pause of ${of.group === undefined ? 'the fleet' : `the group ${of.group}`} is over.\n`);
}

export async function approve(context: Context, version: string): Promise<void> {
  await patch(context, CONFIG_PATH, { spec: { rollout: { approvedVersion: version } } });
  context.print(`${version} is approved.\n`);
}

/** Throws UsageError when no version is known that the node is to run. */
export async function retry(context: Context, node: string): Promise<void> {
  const fleet = await readFleet(context.client);
  const { metadata, status } = shadowOf(fleet, node);
  const version = fleet.config?.spec.versions?.pin ?? status?.target_version;
  if (version === undefined) throw new UsageError(`node ${node}: expected a version that its host offers, found none`);
  const { name, namespace = '' } = metadata;
  const path = crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace, name });
  await patch(context, path, { metadata: { annotations: { [RETRY_ANNOTATION]: version } } });
  context.print(`${node} retries ${version} without waiting for its backoff. Limits and windows hold as before.\n`);
}

export async function skip(context: Context, node: string, reason = 'true'): Promise<void> {
  if (reason === 'false' || reason === '') throw new UsageError(`--reason: expected a text, found "${reason}"`);
  await annotateNode(context, node, reason);
  context.print(`${node} starts no update until "kubectl brupop unskip ${node}".\n`);
}

export async function unskip(context: Context, node: string): Promise<void> {
  await annotateNode(context, node, null);
  context.print(`${node} may be updated.\n`);
}

async function annotateNode(context: Context, name: string, value: string | null): Promise<void> {
  await patch(context, corePath('nodes', { name }), { metadata: { annotations: { [SKIP_ANNOTATION]: value } } });
}
