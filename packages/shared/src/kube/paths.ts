import { GROUP } from '../api/names.ts';

interface Place {
  readonly namespace?: string;
  readonly name?: string;
  readonly subresource?: string;
}

/** Path of one of our custom resources, or of their collection when no name is given. */
export function crPath(plural: string, place: Place & { readonly version: string }): string {
  return `/apis/${GROUP}/${place.version}${tail(plural, place)}`;
}

/** Path of a resource of the core group. */
export function corePath(resource: string, place: Place = {}): string {
  return `/api/v1${tail(resource, place)}`;
}

/** Path of a resource of any other group, for example `groupPath('policy/v1', 'poddisruptionbudgets')`. */
export function groupPath(groupVersion: string, resource: string, place: Place = {}): string {
  return `/apis/${groupVersion}${tail(resource, place)}`;
}

function tail(resource: string, { namespace, name, subresource }: Place): string {
  const parts = [...(namespace === undefined ? [] : ['namespaces', namespace]), resource];
  if (name !== undefined) parts.push(name);
  if (subresource !== undefined) parts.push(subresource);
  return parts.map((part) => `/${encodeURIComponent(part)}`).join('');
}
