/**
 * What a pod needs of its node that not every node has: extended resources, such as `nvidia.com/gpu`, and labels by which it is
 * scheduled, as `label pool=gpu`, or `label pool` with any value. A kubelet, a device plugin or what discovers features of nodes
 * sets these, so an update of the OS may take them away; then the pod cannot run on the node any more. Not here are cpu, memory
 * and what else is a matter of room.
 */
import type { ObjectMeta } from '@brupop/shared/api/meta';
import { MANAGED_LABEL } from '@brupop/shared/api/names';
import { type DrainPod, slimPod } from '@brupop/shared/drain/pods';

/** What a Node has of these. */
interface Offer {
  readonly metadata: Pick<ObjectMeta, 'labels'>;
  readonly devices: readonly string[];
}

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

interface RawSpec {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly affinity?: {
    readonly nodeAffinity?: {
      readonly requiredDuringSchedulingIgnoredDuringExecution?: {
        readonly nodeSelectorTerms?: readonly { readonly matchExpressions?: readonly Requirement[] }[];
      };
    };
  };
  readonly containers?: readonly { readonly resources?: { readonly limits?: Readonly<Record<string, string>> } }[];
}

/** Anyone who may create pods decides on these. */
const MAX_NEEDS = 5;
const MAX_NEED = 150;
const LABEL = 'label ';
/** Every kubelet sets the first three, and they are lost only with the Node. Users remove the last one: agents need it. */
const NOT_COMPARED = new Set(
  ['kubernetes.io/os', 'kubernetes.io/arch', 'kubernetes.io/hostname', MANAGED_LABEL].map((key) => `${LABEL}${key}`),
);

/** A pod on a node that is planned for. Only a drain asks for the volumes of a pod, and only a plan for what it needs of its node. */
export function readPod(raw: unknown): DrainPod {
  const needs = needsOf(raw);
  return { ...slimPod(raw), claims: [], ...(needs.length > 0 && { needs }) };
}

export function needsOf(raw: unknown): readonly string[] {
  const { spec = {} } = raw as { readonly spec?: RawSpec };
  const { nodeSelector = {}, containers = [] } = spec;
  const needs = [
    ...containers.flatMap(({ resources }) => Object.keys(resources?.limits ?? {}).filter(isExtended)),
    ...Object.entries(nodeSelector).map(([key, value]) => `${LABEL}${key}=${value}`),
    ...requirementsOf(spec).flatMap((one) => labelOf(one) ?? []),
  ];
  const kept = needs.filter((need) => need.length <= MAX_NEED && !NOT_COMPARED.has(need.split('=', 1)[0] ?? ''));
  return [...new Set(kept)].slice(0, MAX_NEEDS);
}

/** None of several terms: one of them is enough. */
function requirementsOf({ affinity }: RawSpec): readonly Requirement[] {
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  const [first, ...others] = terms;
  return others.length === 0 ? (first?.matchExpressions ?? []) : [];
}

/** Undefined for one that a node without the label meets. */
function labelOf({ key, operator, values = [] }: Requirement): string | undefined {
  if (operator === 'In' && values.length === 1) return `${LABEL}${key}=${values[0]}`;
  return ['In', 'Exists', 'Gt', 'Lt'].includes(operator) ? `${LABEL}${key}` : undefined;
}

/** True for what is no resource of Kubernetes itself (Kubernetes "Extended Resources"). */
export function isExtended(resource: string): boolean {
  return resource.includes('/') && !/^(?:[^/]*\.)?kubernetes\.io\//u.test(resource);
}

/** @param need - one of {@link needsOf} */
export function offers({ metadata: { labels = {} }, devices }: Offer, need: string): boolean {
  if (!need.startsWith(LABEL)) return devices.includes(need);
  const [key = '', value] = need.slice(LABEL.length).split('=', 2);
  return Object.hasOwn(labels, key) && (value === undefined || labels[key] === value);
}
