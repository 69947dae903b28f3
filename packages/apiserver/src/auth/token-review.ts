import { messageOf } from '@brupop/shared/runtime/errors';
import { AUTHENTICATION_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { AGENT, TOKEN_AUDIENCE } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { ApiError } from '../errors.ts';
import type { Metrics } from '../metrics.ts';

/** The status of a TokenReview (authentication.k8s.io/v1), reduced to what is used. */
export interface TokenReviewStatus {
  readonly authenticated?: boolean;
  readonly audiences?: readonly string[];
  readonly error?: string;
  readonly user?: {
    readonly username?: string;
    readonly extra?: Readonly<Record<string, readonly string[]>>;
  };
}

/** What TokenReview says that a token is bound to; the node only since Kubernetes 1.30. */
export interface Bound {
  readonly podUID: string | undefined;
  readonly nodeName: string | undefined;
  readonly nodeUID: string | undefined;
}

/** Makes a TokenReview. Throws ApiError `Unavailable` when there is no answer, for any reason. */
export async function reviewToken(
  client: KubeClient,
  token: string,
  results: Metrics['tokenReviews'],
): Promise<TokenReviewStatus> {
  const spec = { token, audiences: [TOKEN_AUDIENCE] };
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec };
  const path = '/apis/authentication.k8s.io/v1/tokenreviews';
  try {
    const { status = {} } = await client.request<{ status?: TokenReviewStatus }>({
      method: 'POST',
      path,
      body,
      timeoutMs: AUTHENTICATION_LIMIT_MS,
    });
    results.inc({ result: status.authenticated === true ? 'accepted' : 'rejected' });
    return status;
  } catch (cause) {
    results.inc({ result: 'unavailable' });
    throw new ApiError('Unavailable', `the Kubernetes API does not review tokens: ${messageOf(cause)}`, { cause });
  }
}

/** Throws ApiError `Unauthenticated` for an invalid token, `Forbidden` when it is not an agent's. */
export function readReview(status: TokenReviewStatus, namespace: string): Bound {
  const { authenticated = false, audiences = [], error, user = {} } = status;
  if (!authenticated || !audiences.includes(TOKEN_AUDIENCE)) {
    const why = error ?? `audiences [${audiences.join(', ')}]`;
    throw new ApiError('Unauthenticated', `the Kubernetes API does not accept the token: ${why}`);
  }
  const expected = `system:serviceaccount:${namespace}:${AGENT}`;
  if (user.username !== expected)
    throw new ApiError('Forbidden', `only agents are served: expected the user ${expected}, found ${user.username}`);
  const extra = (key: string): string | undefined => user.extra?.[`authentication.kubernetes.io/${key}`]?.[0];
  return { podUID: extra('pod-uid'), nodeName: extra('node-name'), nodeUID: extra('node-uid') };
}
