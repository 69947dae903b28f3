import type { V1DownwardAPIVolumeFile, V1KeyToPath, V1Volume, V1VolumeProjection } from '@kubernetes/client-node';
import type { FileContent, Files } from './atomic-files.ts';
import { metadataField, resourceField } from './field-values.ts';
import { NotYet, type Pod, podName } from './pod.ts';
import { type DataKind, type DataObject, dataOf, type DataReference } from './referenced-objects.ts';
import { tokenOwner } from './users.ts';

/** What a secret, configMap, downwardAPI or projected volume shows. */
export interface Projections {
  readonly sources: readonly V1VolumeProjection[];
  readonly defaultMode: number;
}

interface Sources {
  readonly secret: V1Volume['secret'] | undefined;
  readonly configMap: V1Volume['configMap'] | undefined;
  readonly downwardAPI: V1Volume['downwardAPI'] | undefined;
}

/** The default of `defaultMode`. */
const MODE = 0o644;
/** Of a token whose owner is known. Source: kubelet pkg/volume/projected, collectData. */
const TOKEN_MODE = 0o600;

/** The volume as a projected one; undefined for other kinds. */
export function projectionsOf({ secret, configMap, downwardAPI, projected }: V1Volume): Projections | undefined {
  const kind = projected ?? secret ?? configMap ?? downwardAPI;
  if (kind === undefined) return undefined;
  return {
    sources: projected?.sources ?? [only({ secret, configMap, downwardAPI })],
    defaultMode: kind.defaultMode ?? MODE,
  };
}

/**
 * The one source of a volume that is not projected. A Secret volume calls the name of its Secret
 * `secretName`.
 */
function only({ secret, configMap, downwardAPI }: Sources): V1VolumeProjection {
  if (secret) {
    const { secretName = '', ...rest } = secret;
    return { secret: { ...rest, name: secretName } };
  }
  return configMap ? { configMap } : { ...(downwardAPI && { downwardAPI }) };
}

/** The Secrets and ConfigMaps that the sources name. */
export function referencesOf({ sources }: Projections, namespace: string): DataReference[] {
  return sources.flatMap(({ secret, configMap }) => [
    ...(secret?.name === undefined ? [] : [{ kind: 'secrets' as const, namespace, name: secret.name }]),
    ...(configMap?.name === undefined ? [] : [{ kind: 'configmaps' as const, namespace, name: configMap.name }]),
  ]);
}

export interface ProjectionInputs {
  readonly pod: Pod;
  readonly object: (reference: DataReference) => DataObject | undefined;
  /** The current token for the file at this path. */
  readonly token: (path: string) => string;
}

/** The files to show. Throws NotYet when an object or key is missing that is not optional. */
export function projectedFiles({ sources, defaultMode }: Projections, inputs: ProjectionInputs): Files {
  const files = new Map<string, FileContent>();
  for (const source of sources) {
    for (const [path, { mode, ...file }] of sourceFiles(source, inputs))
      files.set(path, { ...file, mode: mode ?? defaultMode });
  }
  return files;
}

interface SourceContent extends Omit<FileContent, 'mode'> {
  readonly mode?: number | undefined;
}

type SourceFile = readonly [path: string, content: SourceContent];

function sourceFiles(source: V1VolumeProjection, inputs: ProjectionInputs): SourceFile[] {
  const { secret, configMap, downwardAPI, serviceAccountToken } = source;
  if (secret) return objectFiles('secrets', secret, inputs);
  if (configMap) return objectFiles('configmaps', configMap, inputs);
  if (downwardAPI) return (downwardAPI.items ?? []).map((item) => [item.path, downwardFile(item, inputs.pod)]);
  if (serviceAccountToken) {
    const { path } = serviceAccountToken;
    const owner = tokenOwner(inputs.pod);
    const secured = owner === undefined ? {} : { mode: TOKEN_MODE, owner };
    return [[path, { data: Buffer.from(inputs.token(path)), ...secured }]];
  }
  return [];
}

interface ObjectSource {
  readonly name?: string;
  readonly optional?: boolean;
  readonly items?: readonly V1KeyToPath[];
}

function objectFiles(kind: DataKind, source: ObjectSource, { pod, object }: ProjectionInputs): SourceFile[] {
  const { name = '', optional = false, items } = source;
  const found = object({ kind, namespace: pod.metadata.namespace, name });
  if (found === undefined) {
    if (optional) return [];
    throw new NotYet('ContainerCreating', `${podName(pod)}: ${kind} "${name}" not found`);
  }
  const data = dataOf(kind, found);
  if (items === undefined) return [...data].map(([key, bytes]) => [key, { data: bytes }]);
  return items.flatMap(({ key, path, mode }): SourceFile[] => {
    const bytes = data.get(key);
    if (bytes !== undefined) return [[path, { data: bytes, mode }]];
    if (optional) return [];
    throw new NotYet('ContainerCreating', `${podName(pod)}: ${kind} "${name}" has no key "${key}"`);
  });
}

function downwardFile(item: V1DownwardAPIVolumeFile, pod: Pod): { data: Buffer; mode?: number | undefined } {
  const { fieldRef, resourceFieldRef, mode } = item;
  if (fieldRef) return { data: Buffer.from(metadataField(fieldRef.fieldPath, pod)), mode };
  return { data: Buffer.from(resourceFieldRef === undefined ? '' : resourceField(resourceFieldRef, pod, '')), mode };
}
