import type { LeaseSpec } from '../../../../packages/shared/src/kube/leader-election.ts';
import type { KubernetesObject } from '../../../../packages/shared/src/api/meta.ts';
import type { Connection } from '../../../framework/control-plane/connection.ts';

export interface World {
  cluster: Connection;
  namespace: string;
}

export const leasePath = ({ namespace }: World, name = ''): string =>
  `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;

export async function readSpec(world: World, name: string): Promise<LeaseSpec> {
  return (await world.cluster.api.get<{ spec?: LeaseSpec }>(leasePath(world, name))).spec ?? {};
}

interface Written extends KubernetesObject {
  readonly data: { readonly term: string };
}

interface Ledger {
  readonly data: { readonly terms: string };
}

/**
 * The terms of the written objects, in the order of their creation in etcd. Terms do not interleave
 * unless two leaders wrote at once.
 */
export async function termsOf({ cluster, namespace }: World, lease: string): Promise<string[]> {
  const path = `/api/v1/namespaces/${namespace}/configmaps?labelSelector=`;
  const { items } = await cluster.api.get<{ items: Written[] }>(`${path}lease%3D${lease}`);
  const ledgers = await cluster.api.get<{ items: Ledger[] }>(`${path}ledger%3D${lease}`);
  const recorded = ledgers.items.flatMap(({ data }) => data.terms.split(' ').filter((term) => term !== ''));
  if (recorded.length > 0) return recorded;
  const version = ({ metadata }: Written): number => Number(metadata.resourceVersion);
  const terms = items.toSorted((a, b) => version(a) - version(b)).map(({ data }) => data.term);
  return terms.filter((term, index) => term !== terms[index - 1]);
}

/** Creates the object that candidates write conditionally. */
export async function createLedger({ cluster, namespace }: World, lease: string): Promise<void> {
  const ledger = { metadata: { name: lease, labels: { ledger: lease } }, data: { terms: '' } };
  await cluster.api.create(`/api/v1/namespaces/${namespace}/configmaps`, ledger);
}

/** Thrown when two leaders wrote at once under the same Lease. */
export class TwoLeaders extends Error {
  override readonly name = 'TwoLeaders';
}

/** Throws TwoLeaders when something was written in a term after another term had started. */
export async function expectOneAtATime(world: World, lease: string): Promise<void> {
  const terms = await termsOf(world, lease);
  if (terms.length === 0) throw new Error(`nothing was written under ${lease}`);
  if (terms.length !== new Set(terms).size) throw new TwoLeaders(`${lease}: ${terms.join(', ')}`);
}
