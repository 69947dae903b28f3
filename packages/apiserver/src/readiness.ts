import type { Server } from 'node:net';
import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import type { Reflector } from '@brupop/shared/kube/reflector';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { SigningKeys } from './auth/keys.ts';
import type { StreamHub } from './shadows/stream-hub.ts';

/** What is asked of a watch. */
export type Watch = Pick<Reflector<KubernetesObject>, 'synced' | 'silentForMs'>;

/** The watches by what they show, in the plural. */
export type Watches = Readonly<Record<string, Watch>>;

/** Heartbeats are due every second, to a tenth of the streams. */
const BEAT_LIMIT_MS = 30_000;

/** Why what the watches show may be out of date, or undefined. */
export function staleness(watches: Watches): string | undefined {
  for (const [shown, watch] of Object.entries(watches)) {
    const silentMs = watch.silentForMs();
    if (!watch.synced) return `the ${shown} are not listed yet`;
    if (silentMs > WATCH_STALE_MS)
      return `the ${shown} may be out of date: the Kubernetes API was last heard on their watch ${Math.round(silentMs / 1000)} s ago`;
  }
  return undefined;
}

/** Why agents cannot be served, or undefined. */
export function notReady(watches: Watches, keys: Pick<SigningKeys, 'loaded'>, signal: AbortSignal): string | undefined {
  if (signal.aborted) return 'shutting down';
  if (!keys.loaded) return 'the keys of service-account tokens are not loaded: needs get on /openid/v1/jwks';
  return staleness(watches);
}

/** Why only a restart helps, or undefined. A blocked event loop needs no word here: it does not answer the probe. */
export function notLive(server: Pick<Server, 'listening'>, hub: Pick<StreamHub, 'sinceBeatMs'>): string | undefined {
  if (!server.listening) return 'the listener for agents is closed';
  const lateMs = hub.sinceBeatMs();
  return lateMs > BEAT_LIMIT_MS ? `no heartbeats were sent for ${Math.round(lateMs / 1000)} s` : undefined;
}
