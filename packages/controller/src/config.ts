import { type ClusterAccess, clusterAccess } from '@brupop/shared/kube/client';
import { type Env, integer, requiredText, text } from '@brupop/shared/runtime/env';

export interface ControllerConfig {
  readonly access: ClusterAccess;
  /** Where the shadows, the Lease and our own pods are. */
  readonly namespace: string;
  readonly nodeName: string;
  readonly podName: string;
  /** Unique to this process, for the Lease. */
  readonly identity: string;
  readonly healthHost: string;
  readonly healthPort: number;
}

/** Reads the environment. Throws ConfigError that names the variable. */
export function readConfig(env: Env): ControllerConfig {
  const podName = requiredText(env, 'POD_NAME');
  return {
    access: clusterAccess(env),
    namespace: requiredText(env, 'POD_NAMESPACE'),
    nodeName: requiredText(env, 'NODE_NAME'),
    podName,
    identity: `${podName}_${requiredText(env, 'POD_UID')}`,
    healthHost: text(env, 'POD_IP', '0.0.0.0'),
    healthPort: integer(env, 'HEALTH_PORT', { min: 1, max: 65_535, fallback: 8080 }),
  };
}
