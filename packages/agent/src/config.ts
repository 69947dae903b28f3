import { type Env, integer, requiredText, text } from '@brupop/shared/runtime/env';
import type { ApiserverEndpoint } from './apiserver/client.ts';

export interface AgentConfig {
  readonly node: string;
  /** Address of the health listener. */
  readonly host: string;
  readonly healthPort: number;
  readonly hostSocket: string;
  readonly bootIDFile: string;
  readonly apiserver: ApiserverEndpoint;
  readonly checkIntervalMs: number;
}

const ports = { min: 1, max: 65_535 };
const DAY_SECONDS = 86_400;

/** Reads the environment. Throws ConfigError that names the variable. */
export function readConfig(env: Env): AgentConfig {
  return {
    node: requiredText(env, 'NODE_NAME'),
    host: requiredText(env, 'POD_IP'),
    healthPort: integer(env, 'HEALTH_PORT', { ...ports, fallback: 8080 }),
    hostSocket: text(env, 'HOST_SOCKET', '/run/api.sock'),
    bootIDFile: text(env, 'BOOT_ID_FILE', '/proc/sys/kernel/random/boot_id'),
    apiserver: {
      host: requiredText(env, 'APISERVER_HOST'),
      port: integer(env, 'APISERVER_PORT', { ...ports, fallback: 443 }),
      serverName: requiredText(env, 'APISERVER_SERVER_NAME'),
      tokenFile: text(env, 'TOKEN_FILE', '/var/run/secrets/tokens/brupop-apiserver'),
      caFile: text(env, 'CA_FILE', '/etc/brupop-ca/ca.crt'),
    },
    checkIntervalMs: 1000 * integer(env, 'UPDATE_CHECK_INTERVAL_SECONDS', { min: 1, max: DAY_SECONDS, fallback: 1800 }),
  };
}
