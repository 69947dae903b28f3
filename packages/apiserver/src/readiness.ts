import type { Server } from 'node:net';
import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { Reflector } from '@brupop/shared/kube/reflector';
import type { TokenVerifier } from './auth/token.ts';
import type { StreamHub } from './shadows/streams.ts';

/** The watches by the plural of what they show. */
export type Watches = Readonly<Record<string, Pick<Reflector<KubernetesObject>, 'synced' | 'idleForMs'>>>;

/** Heartbeats are due every second, to a tenth of the streams. */
const HEARTBEAT_LIMIT_MS = 30_000;

/** Why the watch caches may be out of date, or undefined. */
export function staleness(watches: Watches): string | undefined {
  for (const [shown, watch] of Object.entries(watches)) {
    const idleMs = watch.idleForMs();
    if (!watch.synced) return `the ${shown} are not listed yet`;
    if (idleMs > WATCH_STALE_MS)
      return `the ${shown} may be out of date: no message from the Kubernetes API for ${Math.round(idleMs / 1000)} s`;
  }
  return undefined;
}

/** Why agents cannot be served, or undefined. */
export function notReady(
  watches: Watches,
  verifier: Pick<TokenVerifier, 'loaded'>,
  signal: AbortSignal,
): string | undefined {
  if (signal.aborted) return 'shutting down';
  if (!verifier.loaded) return 'the keys of service-account tokens are not loaded: needs get on /openid/v1/jwks';
  return staleness(watches);
}

/** Why only a restart helps, or undefined. A blocked event loop does not answer the probe. */
export function notLive(server: Pick<Server, 'listening'>, hub: Pick<StreamHub, 'sinceBeatMs'>): string | undefined {
  if (!server.listening) return 'the listener for agents is closed';
  const lateMs = hub.sinceBeatMs();
  return lateMs > HEARTBEAT_LIMIT_MS ? `no heartbeats were sent for ${Math.round(lateMs / 1000)} s` : undefined;
}
