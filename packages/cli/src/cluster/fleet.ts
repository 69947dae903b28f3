/** Reads the configuration and the shadows. */
import { type BrupopConfig, readBrupopConfig } from '@brupop/shared/api/brupop-config';
import { CONFIG_NAME, shadowName } from '@brupop/shared/api/names';
import { type BottlerocketNodeGroup, readNodeGroup } from '@brupop/shared/api/node-group';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { hasStatus } from '@brupop/shared/kube/error';
import { readNode, skippedBy } from '@brupop/controller/cluster/node';
import { configPath, corePath, nodeGroupPath, shadowPath } from '@brupop/shared/kube/paths';
import { readList } from '@brupop/shared/kube/list';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Client } from './client.ts';
import { UsageError } from './errors.ts';
import { Followed, olderOf, type Stale } from './follow.ts';

export interface Fleet extends Place {
  readonly config: BrupopConfig | undefined;
  readonly shadows: readonly BottlerocketShadow[];
}

export function shadowsPath({ namespace }: Pick<Client, 'namespace'>): string {
  return shadowPath({ namespace });
}

/** Throws KubeError. */
export async function readFleet(client: Client): Promise<Fleet> {
  // One after the other, so that the same failure gives the same message each time.
  const configs = await readList(client, { path: configPath(), slim: readBrupopConfig, isNarrow: true });
  const shadows = await readShadows(client);
  return fleetOf(client, configs.items, shadows);
}

/** Throws KubeError. */
export async function readShadows(client: Client): Promise<readonly BottlerocketShadow[]> {
  return (await readList(client, { path: shadowsPath(client), slim: (raw) => raw as BottlerocketShadow })).items;
}

/** Throws KubeError. */
export async function readGroups(client: Client): Promise<readonly BottlerocketNodeGroup[]> {
  return (await readList(client, { path: nodeGroupPath(), slim: readNodeGroup })).items;
}

/** The group of a node, as its shadow reports it. */
export function groupOf<T extends Pick<BottlerocketNodeGroup, 'metadata'>>(
  groups: readonly T[],
  { status }: BottlerocketShadow,
): T | undefined {
  return groups.find(({ metadata }) => metadata.name === status?.group);
}

function fleetOf(
  { namespace }: Place,
  configs: readonly BrupopConfig[],
  shadows: readonly BottlerocketShadow[],
): Fleet {
  const byName = shadows.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  return { namespace, config: configs.find(({ metadata }) => metadata.name === CONFIG_NAME), shadows: byName };
}

export interface FollowedFleet {
  readonly fleet: Fleet;
  /** Undefined: what is shown is current. */
  readonly stale: Stale | undefined;
}

interface FollowTimes {
  readonly atLeastMs: number;
  readonly atMostMs: number;
  readonly signal: AbortSignal;
}

/**
 * Yields the fleet now, after each change, and at least every `atLeastMs`; at most once in `atMostMs`. Throws KubeError
 * when it cannot be read at first, and the reason of the signal when it aborts.
 */
export async function* followFleet(
  client: Client,
  clock: Clock,
  { atLeastMs, atMostMs, signal }: FollowTimes,
): AsyncGenerator<FollowedFleet> {
  const own = new AbortController();
  const end = AbortSignal.any([own.signal, signal]);
  let changed = Promise.withResolvers<void>();
  const common = { client, clock, onChange: () => changed.resolve() };
  const configs = new Followed({ ...common, path: configPath(), slim: readBrupopConfig });
  const shadows = new Followed({ ...common, path: shadowsPath(client), slim: (raw) => raw as BottlerocketShadow });
  const running = Promise.all([configs.run(end), shadows.run(end)]).then(() => undefined);
  try {
    for (;;) {
      if (configs.isListed && shadows.isListed)
        yield { fleet: fleetOf(client, configs.list(), shadows.list()), stale: olderOf(configs.stale, shadows.stale) };
      await Promise.race([changed.promise, running, clock.sleep(atLeastMs, end)]);
      changed = Promise.withResolvers<void>();
      await clock.sleep(atMostMs, end);
    }
  } finally {
    own.abort();
  }
}

interface Place {
  /** Of the operator, as the user has named it. */
  readonly namespace?: string | undefined;
}

interface Placed extends Place {
  readonly shadows: readonly Pick<BottlerocketShadow, 'metadata'>[];
}

/**
 * A sentence when shadows are in several namespaces, since an installation in another one leaves those of the former,
 * or when the namespace that the user has named has none: it may be misspelt.
 */
export function namespacesText({ namespace: named, shadows }: Placed): string | undefined {
  if (named !== undefined && shadows.length === 0) return `there is no shadow in the namespace ${named}`;
  const namespaces = [...new Set(shadows.map(({ metadata: { namespace = '' } }) => namespace))].toSorted();
  if (namespaces.length < 2) return undefined;
  return (
    `there are shadows in the namespaces ${namespaces.join(', ')}: name that of the operator with ` +
    '--namespace, and delete the shadows that a former installation has left'
  );
}

/** Throws UsageError when it is not known which shadows are those of the operator that runs; undefined: there are none. */
export function namespaceOf(placed: Placed): string | undefined {
  const text = namespacesText(placed);
  if (text !== undefined) throw new UsageError(text);
  return placed.shadows[0]?.metadata.namespace;
}

/** Throws UsageError when the node is not managed, or has several shadows. */
export function shadowOf(fleet: Fleet, node: string): BottlerocketShadow {
  namespaceOf(fleet);
  const shadow = fleet.shadows.find(({ metadata }) => metadata.name === shadowName(node));
  if (shadow !== undefined) return shadow;
  throw new UsageError(`node ${node}: expected a BottlerocketShadow ${shadowName(node)}, found none: is it managed?`);
}

/** Undefined: there is no such object, or this user may not read it. Throws KubeError. */
export async function readIfAllowed<T>(client: Client, path: string): Promise<T | undefined> {
  try {
    return await client.request<T>({ method: 'GET', path });
  } catch (error) {
    if (hasStatus(error, 403) || hasStatus(error, 404)) return undefined;
    throw error;
  }
}

/** Why a user has left the node out; undefined: it is not, or this user may not read Nodes, as brupop-view may not. Throws KubeError. */
export async function skipOf(client: Client, name: string): Promise<string | undefined> {
  const node = await readIfAllowed<unknown>(client, corePath('nodes', { name }));
  return node === undefined ? undefined : skippedBy(readNode(node));
}
