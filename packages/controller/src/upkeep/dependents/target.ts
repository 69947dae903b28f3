/**
 * A Deployment or StatefulSet that is scaled to 0 while most nodes have lost the control plane. Its
 * state is in the object itself, and each change of it is one request with the resourceVersion of the
 * read, so a leader that is killed at any time leaves one of these behind, and never something between:
 *
 *     Up -- the replicas are recorded, and 0 ------> Down
 *     Down -- the recorded replicas, no record ----> Up
 *     Down -- another actor scales it back --------> ScaledByOthers
 *     ScaledByOthers -- no record -----------------> Up
 *
 * A target that its users have scaled to 0 is Up: there is nothing to record, and nothing to restore. So is one that is at 0 and
 * whose record another actor has removed; report.ts shows it as RecordRemoved.
 */
import type { TargetName } from '@brupop/shared/api/config-dependents';
import type { ObjectMeta } from '@brupop/shared/api/meta';
import { DEPENDENT_REPLICAS_ANNOTATION, IGNORE_SCALING_ANNOTATION } from '@brupop/shared/api/names';
import { INT32 } from '@brupop/shared/api/schema';
import { groupPath } from '@brupop/shared/kube/paths';

/** apps/v1 Deployment or StatefulSet, as far as it is read. */
export interface RawTarget {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly replicas?: number;
    readonly persistentVolumeClaimRetentionPolicy?: { readonly whenScaled?: string };
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
  };
}

export interface Target {
  readonly state: 'Up' | 'Down' | 'ScaledByOthers';
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation: number;
  readonly replicas: number;
  /** What it gets back; as many as it has if none are recorded. */
  readonly restored: number;
  /** Users want that it is not kept at 0. */
  readonly isIgnored: boolean;
  /** Kubernetes would delete the claims of its pods, and their data, if it were scaled to 0. */
  readonly losesVolumes: boolean;
  /** Its pods are as its replicas say: none is left, or all are Ready. */
  readonly isSettled: boolean;
}

/** What became of a read. NotAllowed: there is no right to read it. */
export type Found = Target | 'NotFound' | 'NotAllowed' | 'Failed';

const RESOURCES = { Deployment: 'deployments', StatefulSet: 'statefulsets' } as const;
/** When the record cannot be read: one replica is better than none. */
const FALLBACK = 1;

export function targetPath({ kind, namespace, target }: TargetName): string {
  return groupPath('apps/v1', RESOURCES[kind], { namespace, name: target });
}

export function readTarget({ metadata, spec, status = {} }: RawTarget): Target {
  const { uid, resourceVersion, generation = 0, annotations = {} } = metadata;
  const { replicas = 1, persistentVolumeClaimRetentionPolicy: retention } = spec ?? {};
  const record = annotations[DEPENDENT_REPLICAS_ANNOTATION];
  return {
    state: stateOf(record, replicas),
    uid,
    resourceVersion,
    generation,
    replicas,
    restored: record === undefined || replicas > 0 ? replicas : recordedReplicas(record),
    isIgnored: annotations[IGNORE_SCALING_ANNOTATION] === 'true',
    losesVolumes: retention?.whenScaled === 'Delete',
    isSettled: isSettled(status, generation, replicas),
  };
}

function isSettled(
  { observedGeneration = 0, replicas: pods = 0, readyReplicas = 0 }: NonNullable<RawTarget['status']>,
  generation: number,
  replicas: number,
): boolean {
  return observedGeneration >= generation && (replicas === 0 ? pods === 0 : readyReplicas >= replicas);
}

function stateOf(record: string | undefined, replicas: number): Target['state'] {
  if (record === undefined) return 'Up';
  return replicas === 0 ? 'Down' : 'ScaledByOthers';
}

function recordedReplicas(record: string): number {
  const replicas = /^[1-9]\d{0,9}$/u.test(record) ? Number(record) : FALLBACK;
  return replicas > INT32 ? FALLBACK : replicas;
}

/** A merge patch, which fails with 409 when the target has changed since it was read. */
interface TargetPatch {
  readonly metadata: Pick<ObjectMeta, 'uid' | 'resourceVersion'> & {
    readonly annotations: Readonly<Record<string, string | null>>;
  };
  readonly spec?: { readonly replicas: number };
}

export function downPatch({ uid, resourceVersion, replicas }: Target): TargetPatch {
  const annotations = { [DEPENDENT_REPLICAS_ANNOTATION]: String(replicas) };
  return { metadata: { uid, resourceVersion, annotations }, spec: { replicas: 0 } };
}

/** Of one that another actor has scaled back, only the record goes. */
export function upPatch({ uid, resourceVersion, state, restored }: Target): TargetPatch {
  const metadata = { uid, resourceVersion, annotations: { [DEPENDENT_REPLICAS_ANNOTATION]: null } };
  return state === 'Down' ? { metadata, spec: { replicas: restored } } : { metadata };
}
