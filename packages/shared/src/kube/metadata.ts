import type { ObjectMeta } from '@brupop/shared/kube/types';

/** The metadata that caches keep: what an object is and whether it is on its way out. */
export function slimMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, namespace = '', uid, resourceVersion, generation, deletionTimestamp } = metadata;
  return {
    name,
    namespace,
    uid,
    resourceVersion,
    ...(generation === undefined ? {} : { generation }),
    ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
  };
}
