import {
  CONFIG_PLURAL,
  CONFIG_VERSION,
  GROUP,
  NODE_GROUP_PLURAL,
  NODE_GROUP_VERSION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
} from '../api/names.ts';

interface ObjectPath {
  readonly namespace?: string | undefined;
  readonly name?: string;
  readonly subresource?: string | undefined;
}

/** Path of a custom resource of the operator, or of its collection without a name. */
function crPath(plural: string, at: ObjectPath & { readonly version: string }): string {
  return `/apis/${GROUP}/${at.version}${tail(plural, at)}`;
}

export const shadowPath = (at: ObjectPath = {}): string => crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, ...at });
export const configPath = (at: ObjectPath = {}): string => crPath(CONFIG_PLURAL, { version: CONFIG_VERSION, ...at });
export const nodeGroupPath = (at: ObjectPath = {}): string =>
  crPath(NODE_GROUP_PLURAL, { version: NODE_GROUP_VERSION, ...at });

export function corePath(resource: string, at: ObjectPath = {}): string {
  return `/api/v1${tail(resource, at)}`;
}

/**
 * False for a name that no object can have (IsValidPathSegmentName of Kubernetes). References to other objects are not
 * checked by the API server: a request for such a name is refused, or asks for something else.
 */
export function canBeName(text: string): boolean {
  return text !== '' && text !== '.' && text !== '..' && !/[/%]/u.test(text);
}

/** For example `groupPath('policy/v1', 'poddisruptionbudgets')`. */
export function groupPath(groupVersion: string, resource: string, at: ObjectPath = {}): string {
  return `/apis/${groupVersion}${tail(resource, at)}`;
}

export const LEASE_VERSION = 'coordination.k8s.io/v1';
export const leasePath = (at: ObjectPath): string => groupPath(LEASE_VERSION, 'leases', at);

function tail(resource: string, { namespace, name, subresource }: ObjectPath): string {
  const parts = [...(namespace === undefined ? [] : ['namespaces', namespace]), resource];
  if (name !== undefined) parts.push(name);
  if (subresource !== undefined) parts.push(subresource);
  return parts.map((part) => `/${encodeURIComponent(part)}`).join('');
}
