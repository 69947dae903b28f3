import type { V1ServiceAccountTokenProjection } from '@kubernetes/client-node';
import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import { type Clock, parseTime } from '@brupop/shared/runtime/clock';
import type { Pod } from './pod.ts';
import { persistently } from './retry.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
/** The default of `expirationSeconds`. */
const HOUR_SECONDS = 3600;

export interface IssuedToken {
  readonly token: string;
  /** Milliseconds from now until the kubelet asks for the next one. */
  readonly renewInMs: number;
}

/**
 * A kubelet renews a token when `fraction` (on real nodes 0.8) of its life, or a day, has passed.
 * Source: kubelet pkg/kubelet/token, requiresRefresh.
 */
export function renewalDelayMs(lifeMs: number, fraction: number): number {
  return Math.max(0, Math.min(lifeMs * fraction, DAY_MS));
}

export interface TokenSource {
  readonly client: KubeClient;
  readonly clock: Clock;
  /** 0.8 on real nodes. */
  readonly renewalFraction: number;
}

/**
 * Asks for a token of the pod's service account, bound to the pod. Throws KubeError when it is
 * refused.
 */
export async function requestToken(
  { client, clock, renewalFraction }: TokenSource,
  pod: Pod,
  projection: V1ServiceAccountTokenProjection,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const { namespace, name, uid } = pod.metadata;
  const { audience, expirationSeconds = HOUR_SECONDS } = projection;
  const audiences = audience === undefined || audience === '' ? [] : [audience];
  const path = corePath('serviceaccounts', {
    namespace,
    name: pod.spec.serviceAccountName ?? 'default',
    subresource: 'token',
  });
  const body = {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { audiences, expirationSeconds, boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name, uid } },
  };
  const { status } = await persistently(clock, signal, () =>
    client.request<{ status: { token: string; expirationTimestamp: string } }>({ method: 'POST', path, body, signal }),
  );
  const expiresAt = parseTime(status.expirationTimestamp) ?? clock.now();
  return { token: status.token, renewInMs: renewalDelayMs(expiresAt - clock.now(), renewalFraction) };
}
