import { clusterAccess, type ClusterAccess } from '@brupop/shared/kube/client';
import { APISERVER } from '@brupop/shared/api/names';
import { type Env, integer, requiredText, text } from '@brupop/shared/runtime/env';

export interface ApiserverConfig {
  readonly access: ClusterAccess;
  /** The namespace of this pod and the shadows. */
  readonly namespace: string;
  /** The only one whose agents are accepted (value agent.namespace of the chart). */
  readonly agentNamespace: string;
  readonly podName: string;
  /** Address of both listeners. */
  readonly host: string;
  readonly listenPort: number;
  readonly healthPort: number;
  readonly tlsCertFile: string;
  readonly tlsKeyFile: string;
  /** DNS name that the certificate must carry. */
  readonly serverName: string;
  /** Connections at a time; more are closed at once. */
  readonly maxConnections: number;
  /** The same for each remote address. */
  readonly maxConnectionsPerAddress: number;
}

const ports = { min: 0, max: 65_535 };

/** Reads the environment. Throws ConfigError that names the variable. */
export function readConfig(env: Env): ApiserverConfig {
  const namespace = requiredText(env, 'POD_NAMESPACE');
  return {
    access: clusterAccess(env),
    namespace,
    agentNamespace: text(env, 'AGENT_NAMESPACE', namespace),
    podName: requiredText(env, 'POD_NAME'),
    host: requiredText(env, 'POD_IP'),
    listenPort: integer(env, 'LISTEN_PORT', { ...ports, fallback: 8443 }),
    healthPort: integer(env, 'HEALTH_PORT', { ...ports, fallback: 8080 }),
    tlsCertFile: text(env, 'TLS_CERT_FILE', '/etc/brupop-tls/tls.crt'),
    tlsKeyFile: text(env, 'TLS_KEY_FILE', '/etc/brupop-tls/tls.key'),
    serverName: `${APISERVER}.${namespace}.svc`,
    maxConnections: integer(env, 'MAX_CONNECTIONS', { min: 10, max: 100_000, fallback: 12_000 }),
    maxConnectionsPerAddress: integer(env, 'MAX_CONNECTIONS_PER_ADDRESS', { min: 4, max: 100_000, fallback: 32 }),
  };
}
