import { type Env, integer, requiredText, text } from '@brupop/shared/runtime/env';
import type { ApiserverEndpoint } from './apiserver/client.ts';

/** The agent's configuration, from the environment of its pod. */
export interface Config {
  readonly node: string;
  readonly podIP: string;
  readonly healthPort: number;
  readonly hostSocket: string;
  readonly bootIDFile: string;
  readonly apiserver: ApiserverEndpoint;
  /** Pause between two checks for updates, in milliseconds. */
  readonly checkIntervalMs: number;
}

/** Reads the configuration. Throws ConfigError, which names the variable. */
export function readConfig(env: Env): Config {
  const day = 86_400;
  return {
    node: requiredText(env, 'NODE_NAME'),
    podIP: requiredText(env, 'POD_IP'),
    healthPort: integer(env, 'HEALTH_PORT', { min: 1, max: 65_535, fallback: 8080 }),
    hostSocket: text(env, 'HOST_SOCKET', '/run/api.sock'),
    bootIDFile: text(env, 'BOOT_ID_FILE', '/proc/sys/kernel/random/boot_id'),
    apiserver: {
      host: requiredText(env, 'APISERVER_HOST'),
      port: integer(env, 'APISERVER_PORT', { min: 1, max: 65_535, fallback: 443 }),
      serverName: requiredText(env, 'APISERVER_SERVER_NAME'),
      tokenFile: text(env, 'TOKEN_FILE', '/var/run/secrets/tokens/brupop-apiserver'),
      caFile: text(env, 'CA_FILE', '/etc/brupop-tls/ca.crt'),
    },
    checkIntervalMs: 1000 * integer(env, 'UPDATE_CHECK_INTERVAL_SECONDS', { min: 1, max: day, fallback: 1800 }),
  };
}
