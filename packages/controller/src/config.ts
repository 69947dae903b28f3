import { type ClusterAccess, clusterAccess } from '@brupop/shared/kube/client';
import { type Env, integer, requiredText } from '@brupop/shared/runtime/env';

export interface ControllerConfig {
  readonly access: ClusterAccess;
  /** The namespace of this pod, its Lease and the shadows. */
  readonly namespace: string;
  readonly podName: string;
  /** The node that this replica runs on, which updates last. */
  readonly nodeName: string;
  /** Unique to this process, for the Lease. */
  readonly identity: string;
  readonly host: string;
  readonly healthPort: number;
}

/** Reads the environment. Throws ConfigError that names the variable. */
export function readConfig(env: Env): ControllerConfig {
  const podName = requiredText(env, 'POD_NAME');
  return {
    access: clusterAccess(env),
    namespace: requiredText(env, 'POD_NAMESPACE'),
    podName,
    nodeName: requiredText(env, 'NODE_NAME'),
    identity: `${podName}_${requiredText(env, 'POD_UID')}`,
    host: requiredText(env, 'POD_IP'),
    healthPort: integer(env, 'HEALTH_PORT', { min: 1, max: 65_535, fallback: 8080 }),
  };
}
