import {
  ABORT_ANNOTATION,
  CONTROLLER,
  GROUP,
  SHADOW_KIND,
  SHADOW_VERSION,
  shadowName,
  RECORD_ANNOTATION,
  RETRY_ANNOTATION,
  UPDATE_NOW_ANNOTATION,
} from '@brupop/shared/api/names';
import type { KubernetesObject, ObjectMeta } from '@brupop/shared/api/meta';
import { recordText } from '@brupop/shared/api/record';
import { sameVersion } from '@brupop/shared/api/version';
import { isConflict } from '@brupop/shared/kube/error';
import { readList } from '@brupop/shared/kube/list';
import { shadowPath } from '@brupop/shared/kube/paths';
import type { NodeView } from '../cluster/node.ts';
import { nodeOf, readShadow, type ShadowView } from '../cluster/shadow.ts';
import { countTransition } from '../metrics.ts';
import type { NodeCondition } from '../report/node-conditions.ts';
import { writeGroupOf } from '../plan/plan.ts';
import type { SpecChange } from '../plan/specs/spec-change.ts';
import { requestedOf, sameSettings } from '../plan/facts/settings.ts';
import { keptHistory } from './kept-history.ts';
import { type NodeWrite, PRIORITY } from './queue.ts';
import { lineOf } from './spec-lines.ts';
import { messageOf, namesOf } from '@brupop/shared/runtime/errors';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { type ApplyContext, UselessWrite } from './writer.ts';

/** A CustomResourceDefinition of an earlier release, or a webhook, dropped the field. */
const SETTINGS_PRUNED = 'spec.settings is not kept; install the CustomResourceDefinition of this release';

export function specKey(uid: string): string {
  return `spec/${uid}`;
}

export function createWrite(context: ApplyContext, node: NodeView): NodeWrite {
  const { writer, logOf } = context;
  const { name: object } = node.metadata;
  const key = createKey(object);
  const write = () => writer.create('shadow_create', key, () => createShadow(context, node), logOf(object));
  return { key, object, priority: PRIORITY.create, write };
}

/** @param node - the node's name, which neither the path nor the errors of a creation contain */
export function createKey(node: string): string {
  return `create/${node}`;
}

async function createShadow(context: ApplyContext, node: NodeView): Promise<void> {
  const { client, namespace, logOf, signal } = context;
  const { name, uid } = node.metadata;
  const annotations = await keptHistory(context, node);
  const owner = { apiVersion: 'v1', kind: 'Node', name, uid, controller: false, blockOwnerDeletion: false };
  const body = {
    apiVersion: `${GROUP}/${SHADOW_VERSION}`,
    kind: SHADOW_KIND,
    metadata: {
      name: shadowName(name),
      namespace,
      labels: { 'app.kubernetes.io/part-of': 'bottlerocket-update-operator' },
      ownerReferences: [owner],
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
    spec: { state: 'Idle' },
  };
  const path = shadowPath({ namespace });
  await client.request({ method: 'POST', path, query: { fieldManager: CONTROLLER }, body, signal });
  logOf(name).info('shadow created');
}

/** Milliseconds in which specs of one kind are sent, so that the next plan, which sees a pause, follows soon; */
const KIND_LIMIT_MS = 2_000;
/** and those of all kinds, on an API server that takes seconds for each. */
const LIMIT_MS = 10_000;

interface SpecsResult {
  /** The UIDs of the shadows whose specs were not written. */
  readonly unwritten: ReadonlySet<string>;
  /** The time was over before all had been sent: the next plan continues with them. */
  readonly hasMore: boolean;
}

/** Writes specs in their order, each kind for some time. A few that are not answered delay no others. */
export async function writeSpecs(context: ApplyContext, changes: readonly SpecChange[]): Promise<SpecsResult> {
  const { writer, clock } = context;
  const unwritten = new Set(changes.map(({ shadow }) => shadow.metadata.uid));
  const until = clock.monotonic() + LIMIT_MS;
  const ends = new Map<number, number>();
  let hasMore = false;
  await forEachOf(changes, async (change) => {
    const { uid } = change.shadow.metadata;
    const [key, group, now] = [specKey(uid), writeGroupOf(change), clock.monotonic()];
    if (!writer.canWrite(key)) return;
    const end = ends.get(group) ?? Math.min(until, now + KIND_LIMIT_MS);
    ends.set(group, end);
    if (now >= end) hasMore = true;
    else {
      const log = context.logOf(change.node.metadata.name);
      if (await writer.attempt('spec', key, () => writeSpec(context, change), log)) unwritten.delete(uid);
    }
  });
  return { unwritten, hasMore };
}

async function writeSpec(context: ApplyContext, change: SpecChange): Promise<void> {
  const { client, log, assumeCache, metrics, signal } = context;
  const { outcome, spec, shadow, node } = change;
  let raw: unknown;
  try {
    raw = await client.mergePatch(pathOf(shadow), patchOf(change), { signal });
  } catch (error) {
    if (isConflict(error)) await readAgain(context, shadow);
    throw error;
  }
  const answer = readShadow(raw);
  assumeCache.shadow(answer);
  countTransition(metrics, change);
  if (!sameSettings(requestedOf(answer), requestedOf({ spec }))) throw new UselessWrite(SETTINGS_PRUNED);
  const { level, msg, fields } = lineOf(change);
  log[level](msg, { node: node.metadata.name, ...fields });
  record(context, change);
  if (change.because?.reason === 'DeadlineExceeded' && outcome === 'Reverting') countDeadline(metrics, shadow);
}

/**
 * An earlier write may have arrived although its response was lost, and the watch may be silent just then. A list of one, since
 * there is no right to get shadows.
 */
async function readAgain(
  { client, namespace, assumeCache, log, signal }: ApplyContext,
  shadow: ShadowView,
): Promise<void> {
  const { name, uid } = shadow.metadata;
  const path = shadowPath({ namespace });
  try {
    const { items } = await readList(client, {
      path,
      query: { fieldSelector: `metadata.name=${name}` },
      signal,
      slim: readShadow,
    });
    for (const found of items) if (found.metadata.uid === uid) assumeCache.shadow(found);
  } catch (error) {
    if (!signal.aborted) log.debug('cannot read a shadow again', { name, error: messageOf(error) });
  }
}

/** Sends the Event of a change that was written. */
export function record({ events, metrics }: ApplyContext, { event, shadow }: SpecChange | NodeCondition): void {
  if (event === undefined) return;
  events.record(event);
  if (event.reason === 'DeadlineExceeded') countDeadline(metrics, shadow);
}

/** Once for each step: a node may hold its slot past a deadline, and its update may end later. */
function countDeadline({ deadlineExceeded }: ApplyContext['metrics'], { spec, progressing }: ShadowView): void {
  if (progressing?.reason !== 'DeadlineExceeded') deadlineExceeded.inc({ state: spec.state });
}

export function patchOf(change: SpecChange): object {
  const { shadow, spec } = change;
  const annotations = annotationsOf(change);
  const { uid, resourceVersion } = shadow.metadata;
  return {
    metadata: { uid, resourceVersion, ...(Object.keys(annotations).length > 0 && { annotations }) },
    spec: {
      state: spec.state,
      version: spec.version ?? null,
      state_transition_timestamp: spec.state_transition_timestamp ?? null,
      timeoutSeconds: spec.timeoutSeconds ?? null,
      settings: spec.settings ?? null,
    },
  };
}

/**
 * The requests of users that a change follows, and so uses up. With `abort` a `retry` is as well: it may be from before,
 * and would start the update again that its user has just ended.
 */
const FOLLOWED: Partial<Record<SpecChange['outcome'], readonly string[]>> = {
  Started: [RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION],
  Aborted: [ABORT_ANNOTATION, RETRY_ANNOTATION],
};

/**
 * A node that goes back to its previous version can try the other one again only afterwards, and one that is rebooted for
 * settings can update only afterwards.
 */
function isForLater(name: string, asked: string, { record, spec }: Pick<SpecChange, 'record' | 'spec'>): boolean {
  if (name === UPDATE_NOW_ANNOTATION) return !sameVersion(asked, spec.version);
  return record.rollback?.isDone === false && sameVersion(asked, record.rollback.failed);
}

/** null removes an annotation. */
export function annotationsOf(change: SpecChange): Readonly<Record<string, string | null>> {
  const { shadow, record, outcome, past } = change;
  const text = recordText(record);
  const { annotations = {} } = shadow.metadata;
  const followed = (FOLLOWED[outcome] ?? []).filter(
    (name) => annotations[name] !== undefined && !isForLater(name, annotations[name], change),
  );
  return {
    ...(text !== recordText(shadow.record) && { [RECORD_ANNOTATION]: text }),
    ...Object.fromEntries(followed.map((name) => [name, null])),
    ...(past !== undefined && { [past.key]: JSON.stringify(past.update) }),
  };
}

/**
 * Throws while something else keeps the shadow by a finalizer: the plan would ask for its deletion several times a second.
 * @param preconditions - what of the shadow must be as it was planned from
 * @param accepted - called before that: nothing of the shadow may be left when the finalizer ends
 */
export async function deleteShadow(
  { client, logOf, signal }: ApplyContext,
  shadow: ShadowView,
  preconditions: Partial<Pick<ObjectMeta, 'uid' | 'resourceVersion'>>,
  accepted: () => void = () => undefined,
): Promise<void> {
  const path = pathOf(shadow);
  const answer = await client.request<Partial<KubernetesObject>>({
    method: 'DELETE',
    path,
    body: { preconditions },
    signal,
  });
  accepted();
  const { deletionTimestamp, finalizers = [] } = answer.metadata ?? {};
  if (deletionTimestamp !== undefined)
    throw new Error(`the shadow is deleted when nothing keeps it by these finalizers any more: ${namesOf(finalizers)}`);
  logOf(nodeOf(shadow)).info('shadow deleted');
}

export function pathOf({ metadata: { name, namespace } }: ShadowView, subresource?: 'status'): string {
  return shadowPath({ namespace, name, subresource });
}
