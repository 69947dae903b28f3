import { readFile, stat } from 'node:fs/promises';

/** One request, as the API server's audit log has it. */
export interface AuditedRequest {
  readonly user: string;
  readonly userAgent: string;
  /** Name of the pod that the token is bound to; empty for other tokens. */
  readonly pod: string;
  readonly verb: string;
  /** `resource` or `resource/subresource`; the path for requests that are about no resource. */
  readonly resource: string;
  readonly name: string;
  readonly status: number;
  readonly stage: string;
  readonly at: string;
}

interface AuditEvent {
  readonly auditID: string;
  readonly stage: string;
  readonly requestURI: string;
  readonly verb: string;
  readonly user: { readonly username: string; readonly extra?: Readonly<Record<string, readonly string[]>> };
  readonly userAgent?: string;
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string; readonly name?: string };
  readonly responseStatus?: { readonly code?: number };
  readonly requestReceivedTimestamp: string;
}

/** The current size of the audit log in bytes, to read on from there. */
export async function auditPosition(path: string): Promise<number> {
  return (await stat(path)).size;
}

/**
 * The requests of the operator's service accounts from `position` on. A watch counts when it is
 * opened (stage ResponseStarted), any other request when it is answered (ResponseComplete).
 */
export async function operatorRequests(path: string, namespace: string, position: number): Promise<AuditedRequest[]> {
  const events = await ourEvents(path, namespace, position);
  return events
    .filter(({ stage, verb }) => stage === (verb === 'watch' ? 'ResponseStarted' : 'ResponseComplete'))
    .map(toRequest);
}

/** The watches of the operator's service accounts that have been opened and not ended. */
export async function openWatches(path: string, namespace: string): Promise<AuditedRequest[]> {
  const watches = (await ourEvents(path, namespace, 0)).filter(({ verb }) => verb === 'watch');
  const ended = new Set(
    watches.filter(({ stage }) => stage === 'ResponseComplete' || stage === 'Panic').map(({ auditID }) => auditID),
  );
  return watches.filter(({ stage, auditID }) => stage === 'ResponseStarted' && !ended.has(auditID)).map(toRequest);
}

async function ourEvents(path: string, namespace: string, position: number): Promise<AuditEvent[]> {
  const bytes = (await readFile(path)).subarray(position);
  const lines = bytes.toString('utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as AuditEvent).filter(({ user }) => isOurs(user.username, namespace));
}

function isOurs(username: string, namespace: string): boolean {
  return username.startsWith(`system:serviceaccount:${namespace}:brupop-`);
}

function toRequest({
  user,
  userAgent = '',
  verb,
  objectRef,
  requestURI,
  responseStatus,
  stage,
  requestReceivedTimestamp,
}: AuditEvent): AuditedRequest {
  const { resource, subresource, name = '' } = objectRef ?? {};
  const path = requestURI.split('?')[0] ?? '';
  return {
    user: user.username.split(':').at(-1) ?? '',
    userAgent,
    pod: podOf(user),
    verb,
    resource: resource === undefined ? path : [resource, ...(subresource === undefined ? [] : [subresource])].join('/'),
    name,
    status: responseStatus?.code ?? 0,
    stage,
    at: requestReceivedTimestamp,
  };
}

function podOf({ extra }: AuditEvent['user']): string {
  return extra?.['authentication.kubernetes.io/pod-name']?.[0] ?? '';
}

/** `user verb resource` → how many. */
export function countRequests(requests: readonly AuditedRequest[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { user, verb, resource } of requests) {
    const key = `${user} ${verb} ${resource}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return new Map([...counts].toSorted(([, a], [, b]) => b - a));
}
