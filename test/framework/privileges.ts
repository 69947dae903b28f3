/** Compares what the chart grants to the operator's accounts with what the audit log shows of them. */
import type { AuditedRequest } from './audit.ts';
import type { Rendered } from './chart.ts';

interface Rule {
  readonly verbs: readonly string[];
  readonly resources?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
}

interface Role extends Rendered {
  readonly rules?: readonly Rule[];
}

interface Binding extends Rendered {
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects: readonly { readonly kind: string; readonly name: string }[];
}

/** `ACCOUNT VERB RESOURCE` for each right that the rendered bindings grant to a service account. */
export function grantedRights(objects: readonly Rendered[]): Set<string> {
  const bindings = objects.filter(({ kind }) => kind.endsWith('RoleBinding')) as unknown as Binding[];
  return new Set(
    bindings.flatMap(({ metadata, roleRef, subjects }) => {
      const role = objects.find(
        ({ kind, metadata: { name, namespace } }) =>
          kind === roleRef.kind &&
          name === roleRef.name &&
          (kind === 'ClusterRole' || namespace === metadata.namespace),
      );
      if (role === undefined) throw new Error(`${metadata.name}: the chart has no ${roleRef.kind} ${roleRef.name}`);
      const { rules = [] } = role as Role;
      return rules.flatMap((rule) => subjects.flatMap(({ name }) => rightsOf(name, rule)));
    }),
  );
}

function rightsOf(account: string, { verbs, resources = [], nonResourceURLs = [] }: Rule): string[] {
  return verbs.flatMap((verb) => [...resources, ...nonResourceURLs].map((what) => `${account} ${verb} ${what}`));
}

/** `ACCOUNT VERB RESOURCE` for each request that the authorizer let pass, whatever became of it. */
export function usedRights(requests: readonly AuditedRequest[]): Set<string> {
  return new Set(requests.filter(({ status }) => !isDenied(status)).map(nameOf));
}

/** The same for each request that the authorizer or an admission policy rejected, with the object. */
export function deniedRequests(requests: readonly AuditedRequest[]): string[] {
  const denied = requests.filter(({ status }) => isDenied(status));
  return [...new Set(denied.map((request) => `${nameOf(request)} ${request.name}: ${request.status}`))];
}

function isDenied(status: number): boolean {
  return status === 401 || status === 403;
}

function nameOf({ user, verb, resource }: AuditedRequest): string {
  return `${user} ${verb} ${resource}`;
}
