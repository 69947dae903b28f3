import { isDeepStrictEqual } from 'node:util';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { ReflectorEvent } from '@brupop/shared/kube/reflector';

/** True for a change that can affect a plan. */
export function differs<T extends KubernetesObject>({ type, object, old }: ReflectorEvent<T>): boolean {
  return type !== 'Modified' || old === undefined || !isDeepStrictEqual(comparable(object), comparable(old));
}

/** Removes what each heartbeat changes, and what this controller writes into the status. */
function comparable(object: KubernetesObject & { readonly progressing?: unknown; readonly group?: unknown }): object {
  return {
    ...object,
    progressing: undefined,
    health: undefined,
    group: undefined,
    metadata: { ...object.metadata, resourceVersion: '' },
  };
}
