import type { V1Container, V1EnvFromSource, V1EnvVar } from '@kubernetes/client-node';
import { expand } from './expand.ts';
import { environmentField, resourceField } from './field-values.ts';
import { NotYet, type Pod, podName, type Whereabouts } from './pod.ts';
import { type DataKind, type DataObject, dataOf, type DataReference } from './referenced-objects.ts';

export interface EnvironmentInputs {
  readonly pod: Pod;
  readonly container: V1Container;
  readonly whereabouts: Whereabouts;
  /** Variables of Services. The container's own take precedence. */
  readonly services: Readonly<Record<string, string>>;
  readonly object: (reference: DataReference) => DataObject | undefined;
}

export type Variables = Readonly<Record<string, string>>;

/**
 * The environment of a container in the kubelet's order: `envFrom`, then `env`, each value expanded
 * with what stands before it and with the Services' variables. Throws NotYet when an object or key
 * is missing that is not optional.
 */
export function environmentOf(inputs: EnvironmentInputs): Record<string, string> {
  const own: Record<string, string> = {};
  for (const source of inputs.container.envFrom ?? []) Object.assign(own, variablesFrom(source, inputs));
  for (const variable of inputs.container.env ?? []) {
    const value = valueOf(variable, own, inputs);
    if (value !== undefined) own[variable.name] = value;
  }
  return { ...inputs.services, ...own };
}

/** The Secrets and ConfigMaps that the environments of a pod name. */
export function environmentReferences(pod: Pod): DataReference[] {
  const { namespace } = pod.metadata;
  const names = pod.spec.containers.flatMap(({ env = [], envFrom = [] }) => [
    ...env.map(({ valueFrom }) => ['secrets', valueFrom?.secretKeyRef?.name] as const),
    ...env.map(({ valueFrom }) => ['configmaps', valueFrom?.configMapKeyRef?.name] as const),
    ...envFrom.map(({ secretRef }) => ['secrets', secretRef?.name] as const),
    ...envFrom.map(({ configMapRef }) => ['configmaps', configMapRef?.name] as const),
  ]);
  return names.flatMap(([kind, name]) => (name === undefined ? [] : [{ kind, namespace, name }]));
}

function valueOf({ value, valueFrom }: V1EnvVar, own: Variables, inputs: EnvironmentInputs): string | undefined {
  if (valueFrom === undefined) return expand(value ?? '', (name) => own[name] ?? inputs.services[name]);
  const { fieldRef, resourceFieldRef, secretKeyRef, configMapKeyRef } = valueFrom;
  if (fieldRef) return environmentField(fieldRef.fieldPath, inputs.pod, inputs.whereabouts);
  if (resourceFieldRef) return resourceField(resourceFieldRef, inputs.pod, inputs.container.name);
  if (secretKeyRef) return keyValue('secrets', secretKeyRef, inputs);
  return configMapKeyRef === undefined ? undefined : keyValue('configmaps', configMapKeyRef, inputs);
}

interface KeyReference {
  readonly name?: string;
  readonly key: string;
  readonly optional?: boolean;
}

function keyValue(kind: DataKind, reference: KeyReference, inputs: EnvironmentInputs): string | undefined {
  const value = objectData(kind, reference, inputs)?.get(reference.key);
  if (value !== undefined) return value.toString('utf8');
  if (reference.optional === true) return undefined;
  throw missing(inputs.pod, `${kind} "${reference.name}" has no key "${reference.key}"`);
}

function variablesFrom(source: V1EnvFromSource, inputs: EnvironmentInputs): Record<string, string> {
  const { prefix = '', secretRef, configMapRef } = source;
  const data = secretRef
    ? objectData('secrets', secretRef, inputs)
    : objectData('configmaps', configMapRef ?? {}, inputs);
  return Object.fromEntries([...(data ?? [])].map(([key, value]) => [`${prefix}${key}`, value.toString('utf8')]));
}

function objectData(
  kind: DataKind,
  { name = '', optional = false }: { readonly name?: string; readonly optional?: boolean },
  { pod, object }: EnvironmentInputs,
): Map<string, Buffer> | undefined {
  const found = object({ kind, namespace: pod.metadata.namespace, name });
  if (found !== undefined) return dataOf(kind, found);
  if (optional) return undefined;
  throw missing(pod, `${kind} "${name}" not found`);
}

function missing(pod: Pod, what: string): NotYet {
  return new NotYet('CreateContainerConfigError', `${podName(pod)}: ${what}`);
}
