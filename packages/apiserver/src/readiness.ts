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

/** Returns why a watch cache is stale or not synced, or undefined. */
export function staleness(watches: Watches): string | undefined {
  for (const [shown, watch] of Object.entries(watches)) {
    const idleMs = watch.idleForMs();
    if (!watch.synced) return `the ${shown} are not listed yet`;
    if (idleMs > WATCH_STALE_MS)
      return `the watch of ${shown} is stale: not confirmed by an event, a bookmark or a check for ${Math.round(idleMs / 1000)} s; see "watch failed" in the log`;
  }
  return undefined;
}

/** Why agents cannot be served, or undefined. */
export function notReady(
  watches: Watches,
  verifier: Pick<TokenVerifier, 'loaded' | 'loadError'>,
  signal: AbortSignal,
): string | undefined {
  if (signal.aborted) return 'shutting down';
  if (!verifier.loaded) return `the keys of service-account tokens are not loaded: ${verifier.loadError}`;
  return staleness(watches);
}

/** Why only a restart helps, or undefined. A blocked event loop does not answer the probe. */
export function notLive(server: Pick<Server, 'listening'>, hub: Pick<StreamHub, 'sinceBeatMs'>): string | undefined {
  if (!server.listening) return 'the listener for agents is closed';
  const lateMs = hub.sinceBeatMs();
  return lateMs > HEARTBEAT_LIMIT_MS ? `no heartbeats were sent for ${Math.round(lateMs / 1000)} s` : undefined;
}
