/** What is read from the API server for a support bundle: which collections, and what is kept of an object. */
import { CHECK_LABEL, COMPONENT_LABEL } from '@brupop/shared/api/names';
import { configPath, corePath, groupPath, leasePath, nodeGroupPath, shadowPath } from '@brupop/shared/kube/paths';

export interface Source {
  /** Of the file, without its folder and extension. */
  readonly name: string;
  /** What it has, for the README. */
  readonly about: string;
  readonly path: string;
  /** In the namespace of the operator, if the list of all namespaces fails, as it does for a user who may not get it. */
  readonly ownPath?: string;
  readonly query?: Readonly<Record<string, string>>;
  /** With it, the API server sends no data of the objects. */
  readonly accept?: string;
  readonly keep?: (object: Fields) => Fields;
}

type Fields = Record<string, unknown>;

const NAMES_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
/** Of the chart, on its objects. Their pods have {@link COMPONENT_LABEL} as well. */
const OUR_WORKLOADS = { labelSelector: 'app.kubernetes.io/name=bottlerocket-update-operator' };
/** Cluster-scoped objects have their Events there. */
const DEFAULT = 'default';

/** @param namespace - of the operator */
export function sourcesOf(namespace: string): Source[] {
  return [
    { name: 'brupopconfigs', about: 'the configuration', path: configPath() },
    {
      name: 'bottlerocketnodegroups',
      about: 'the groups of nodes',
      path: nodeGroupPath(),
    },
    {
      name: 'bottlerocketshadows',
      about: 'what is known of each node',
      ...everywhere(shadowPath, namespace),
    },
    {
      name: 'nodes',
      about: 'Nodes: labels, annotations, taints, conditions, versions; no addresses, images and volumes',
      path: corePath('nodes'),
      keep: keepOfNode,
    },
    ...programs(namespace),
    ...events(namespace),
  ];
}

function programs(namespace: string): Source[] {
  return [
    {
      name: 'deployments',
      about: "the operator's Deployments",
      ...everywhere((place) => groupPath('apps/v1', 'deployments', place), namespace),
      query: OUR_WORKLOADS,
    },
    {
      name: 'daemonsets',
      about: "the operator's DaemonSets",
      ...everywhere((place) => groupPath('apps/v1', 'daemonsets', place), namespace),
      query: OUR_WORKLOADS,
    },
    {
      name: 'pods',
      about: "the operator's pods",
      ...everywhere((place) => corePath('pods', place), namespace),
      query: { labelSelector: COMPONENT_LABEL },
    },
    {
      name: 'jobs',
      about: 'Jobs of checks and hooks',
      ...everywhere((place) => groupPath('batch/v1', 'jobs', place), namespace),
      query: { labelSelector: CHECK_LABEL },
    },
    {
      name: 'leases',
      about: "the operator's Leases",
      path: leasePath({ namespace }),
    },
    {
      name: 'node-leases',
      about: 'when each kubelet has last renewed its Lease',
      path: leasePath({ namespace: 'kube-node-lease' }),
    },
    {
      name: 'configmaps',
      about: 'the names of ConfigMaps in the namespace of the operator, without their data',
      path: corePath('configmaps', { namespace }),
      accept: NAMES_ONLY,
      keep: ({ metadata }) => ({ metadata: only(metadata, ['name', 'namespace', 'creationTimestamp']) }),
    },
  ];
}

/** Agents, and Jobs of checks and hooks, may have namespaces of their own, and a former installation may have left shadows. */
function everywhere(
  path: (place: { readonly namespace?: string }) => string,
  namespace: string,
): Pick<Source, 'path' | 'ownPath'> {
  return { path: path({}), ownPath: path({ namespace }) };
}

function events(namespace: string): Source[] {
  return [
    { name: 'events', about: 'Events in the namespace of the operator', path: corePath('events', { namespace }) },
    eventsOf('Node'),
    eventsOf('BrupopConfig'),
    eventsOf('BottlerocketNodeGroup'),
  ];
}

function eventsOf(kind: string): Source {
  return {
    name: `events-${kind.toLowerCase()}`,
    about: `Events of ${kind}`,
    path: corePath('events', { namespace: DEFAULT }),
    query: { fieldSelector: `involvedObject.kind=${kind}` },
  };
}

/** Of another namespace, in which objects of the operator were found. */
export function eventSource(namespace: string): Source {
  return { name: `events-in-${namespace}`, about: `Events in ${namespace}`, path: corePath('events', { namespace }) };
}

/** Disruption budgets in the namespaces of pods that block a drain. */
export function budgetSource(namespace: string): Source {
  return {
    name: `poddisruptionbudgets-${namespace}`,
    about: `disruption budgets of ${namespace}, whose pods block a drain`,
    path: groupPath('policy/v1', 'poddisruptionbudgets', { namespace }),
  };
}

function keepOfNode({ metadata, spec, status }: Fields): Fields {
  const found = status as Fields | undefined;
  const info = only(found?.['nodeInfo'], [
    'bootID',
    'kernelVersion',
    'osImage',
    'containerRuntimeVersion',
    'kubeletVersion',
    'architecture',
  ]);
  return {
    metadata,
    spec: only(spec, ['taints', 'unschedulable']),
    status: { ...only(found, ['conditions', 'capacity', 'allocatable']), nodeInfo: info },
  };
}

function only(fields: unknown, keys: readonly string[]): Fields {
  const given = (fields ?? {}) as Fields;
  return Object.fromEntries(keys.flatMap((key) => (given[key] === undefined ? [] : [[key, given[key]]])));
}
