import { messageOf } from '@brupop/shared/errors';
import { KubeError } from '@brupop/shared/kube';

import { Failure } from './failure.ts';

/** What a failed call to the Kubernetes API means to an agent; anything but a KubeError stays as it is. */
export function asFailure(error: unknown): unknown {
  if (!(error instanceof KubeError)) return error;
  return new Failure(codeOf(error.status), messageOf(error), { cause: error });
}

/** 401 and 403 are about the apiserver's own credentials and permissions, never about the agent's. */
function codeOf(status: number): 'Unavailable' | 'Conflict' | 'Internal' {
  if (status === 409) return 'Conflict';
  const repeat = status === 0 || status === 401 || status === 429 || status >= 500;
  return repeat ? 'Unavailable' : 'Internal';
}
