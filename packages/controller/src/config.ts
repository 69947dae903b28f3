import { type ClusterAccess, clusterAccess } from '@brupop/shared/kube/client';
import { type TargetName, DEPENDENT_KINDS } from '@brupop/shared/api/config-dependents';
import { address, ConfigError, type Env, integer, oneOf, requiredText, text } from '@brupop/shared/runtime/env';
import type { Proxies } from '@brupop/shared/runtime/http-call';
import type { ChecksConfig } from './cluster/probes.ts';
import { TLS_MODES, type TlsMode } from './certificates/issuer.ts';

export interface ControllerConfig {
  readonly access: ClusterAccess;
  /** The namespace of this pod, its Lease and the shadows. */
  readonly namespace: string;
  /** The namespace of the agents and of the ConfigMap that they mount (value agent.namespace of the chart). */
  readonly agentNamespace: string;
  readonly podName: string;
  /** The node that this replica runs on, which updates last. */
  readonly nodeName: string;
  /** Unique to this process, for the Lease. */
  readonly identity: string;
  readonly host: string;
  readonly healthPort: number;
  /** Who makes the certificate of the API servers. */
  readonly tlsMode: TlsMode;
  /** The Secret that the API servers mount. */
  readonly tlsSecret: string;
  /** The ConfigMap that the agents mount. */
  readonly caConfigMap: string;
  readonly checks: ChecksConfig;
  /** Whether the API server of the operator has the right to delete pods (value drain.allowForce of the chart). */
  readonly mayForce: boolean;
  /** In which this process may evict pods and read EndpointSlices (value recovery.namespaces of the chart). */
  readonly recoveryNamespaces: readonly string[];
  /** In the namespace of this pod, which this process may read (value notifications.secrets of the chart). */
  readonly notificationSecrets: readonly string[];
  /** Of requests to receivers of notifications. */
  readonly proxies: Proxies;
  /** Deployments and StatefulSets that this process has the right to scale (value dependents.targets of the chart). */
  readonly dependents: readonly TargetName[];
  /** It scales these back, and ends: the Job that runs before the operator is uninstalled. */
  readonly restoresDependents: boolean;
}

/** Reads the environment. Throws ConfigError that names the variable. */
export function readConfig(env: Env): ControllerConfig {
  const podName = requiredText(env, 'POD_NAME');
  const namespace = requiredText(env, 'POD_NAMESPACE');
  return {
    access: clusterAccess(env),
    namespace,
    agentNamespace: text(env, 'AGENT_NAMESPACE', namespace),
    podName,
    nodeName: requiredText(env, 'NODE_NAME'),
    identity: `${podName}_${requiredText(env, 'POD_UID')}`,
    host: requiredText(env, 'POD_IP'),
    healthPort: integer(env, 'HEALTH_PORT', { min: 1, max: 65_535, fallback: 8080 }),
    tlsMode: oneOf(env, 'TLS_MODE', TLS_MODES, 'provided'),
    tlsSecret: text(env, 'TLS_SECRET', 'brupop-apiserver-tls'),
    caConfigMap: text(env, 'CA_CONFIG_MAP', 'brupop-ca'),
    mayForce: oneOf(env, 'DRAIN_ALLOW_FORCE', ['true', 'false'], 'false') === 'true',
    recoveryNamespaces: names(env, 'RECOVERY_NAMESPACES'),
    notificationSecrets: names(env, 'NOTIFICATION_SECRETS'),
    proxies: {
      http: text(env, 'HTTP_PROXY', text(env, 'http_proxy', '')),
      https: text(env, 'HTTPS_PROXY', text(env, 'https_proxy', '')),
      no: text(env, 'NO_PROXY', text(env, 'no_proxy', '')),
    },
    dependents: targets(env, 'DEPENDENTS'),
    restoresDependents: oneOf(env, 'RESTORE_DEPENDENTS', ['true', 'false'], 'false') === 'true',
    checks: {
      namespace: text(env, 'CHECKS_NAMESPACE', ''),
      serviceAccount: text(env, 'CHECKS_SERVICE_ACCOUNT', 'default'),
      prometheus: { url: address(env, 'PROMETHEUS_URL'), credentials: text(env, 'PROMETHEUS_CREDENTIALS', '') },
      alertmanager: { url: address(env, 'ALERTMANAGER_URL'), credentials: text(env, 'ALERTMANAGER_CREDENTIALS', '') },
    },
  };
}

function names(env: Env, variable: string): string[] {
  return text(env, variable, '')
    .split(',')
    .filter((name) => name !== '');
}

const TARGET = new RegExp(`^(?<kind>${DEPENDENT_KINDS.join('|')}) (?<namespace>[^ /]+)/(?<target>[^ /]+)$`, 'u');

/** Reads a list such as `Deployment kube-system/cluster-autoscaler,StatefulSet repair/agent`. */
function targets(env: Env, name: string): TargetName[] {
  return text(env, name, '')
    .split(',')
    .filter((one) => one !== '')
    .map((one) => {
      const { kind, namespace, target } = TARGET.exec(one)?.groups ?? {};
      const known = DEPENDENT_KINDS.find((other) => other === kind);
      if (known !== undefined && namespace !== undefined && target !== undefined)
        return { kind: known, namespace, target };
      throw new ConfigError(
        `${name}: expected a target such as Deployment kube-system/cluster-autoscaler, found "${one}"`,
      );
    });
}
