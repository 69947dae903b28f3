/** A drain while other actors change the Node between two of its requests. */
import { CORDONED_ANNOTATION } from '@brupop/shared/api/names';
import type { KubeClient, KubeRequest } from '@brupop/shared/kube/client';
import { KubeError } from '@brupop/shared/kube/error';
import { systemClock } from '@brupop/shared/runtime/clock';
import { createLogger } from '@brupop/shared/runtime/log';
import { Nodes } from '../nodes/nodes.ts';
import type { DrainCall, DrainContext } from './context.ts';
import { Drainer } from './drainer.ts';
import type { Settings } from './settings.ts';

const pod = (name: string, kind: string): object => ({
  metadata: {
    name,
    namespace: 'shop',
    uid: name,
    resourceVersion: '1',
    ownerReferences: [{ apiVersion: 'apps/v1', kind, name: 'owner', controller: true }],
  },
  spec: { nodeName: 'a' },
  status: { phase: 'Running' },
});
const SHIPPER = pod('log-shipper', 'DaemonSet');
const WEB = pod('web', 'ReplicaSet');

interface NodeObject {
  metadata: { name: string; uid: string; resourceVersion: string; annotations: object };
  spec: { unschedulable: boolean };
}

/** kube-apiserver with one Node; `onRequest` runs right before each response is made. */
class Cluster {
  node: NodeObject = {
    metadata: { name: 'a', uid: 'n', resourceVersion: '1', annotations: {} },
    spec: { unschedulable: true },
  };
  pods: object[] = [SHIPPER];
  onRequest: (path: string, cluster: Cluster) => void = () => undefined;
  openWatches = 0;

  /** Another actor, and the scheduler or the drain of a user right after it. */
  change(unschedulable: boolean, pods: object[]): void {
    const { metadata } = this.node;
    const resourceVersion = String(Number(metadata.resourceVersion) + 1);
    this.node = { metadata: { ...metadata, resourceVersion }, spec: { unschedulable } };
    this.pods = pods;
  }

  readonly client = {
    request: async ({ path }: KubeRequest): Promise<unknown> => {
      this.onRequest(path, this);
      const { resourceVersion } = this.node.metadata;
      const list = (items: unknown[]): object => ({ items: structuredClone(items), metadata: { resourceVersion } });
      if (path === '/api/v1/pods') return list(this.pods);
      if (path === '/api/v1/nodes') return list([this.node]);
      return path === '/api/v1/nodes/a' ? structuredClone(this.node) : {};
    },
    find: async (path: string): Promise<unknown> => await this.client.request({ method: 'GET', path }),
    mergePatch: async (path: string, body: NodeObject): Promise<unknown> => {
      this.onRequest(`PATCH ${path}`, this);
      const { metadata, spec } = this.node;
      if (body.metadata.resourceVersion !== metadata.resourceVersion) throw new KubeError(409, 'Conflict', 'changed');
      this.change(body.spec?.unschedulable ?? spec.unschedulable, this.pods);
      this.node.metadata.annotations = { ...metadata.annotations, ...body.metadata.annotations };
      return structuredClone(this.node);
    },
    stream: async ({ signal }: KubeRequest): Promise<AsyncIterable<Uint8Array>> => {
      this.openWatches += 1;
      return await new Promise((_resolve, reject) => {
        signal?.addEventListener('abort', () => {
          this.openWatches -= 1;
          reject(signal.reason as Error);
        });
      });
    },
  } as unknown as KubeClient & { request: (request: KubeRequest) => Promise<unknown> };
}

/** All lines of the drains of this file. */
const lines: string[] = [];

function drainerOf({ client }: Pick<Cluster, 'client'>, shadows: object = {}, changes: object = {}): Drainer {
  const log = createLogger({ level: 'debug', write: (line) => lines.push(line) });
  const metric = { inc: () => undefined, observe: () => undefined };
  const context = {
    client,
    nodes: new Nodes({ client, clock: systemClock, logOf: (node) => log.with({ node }) }),
    shadows: { cached: () => undefined, writeDrain: async () => undefined, ...shadows },
    events: { record: () => undefined },
    namespace: 'brupop',
    podName: 'api-0',
    clock: systemClock,
    log,
    metrics: { evictions: metric, drainPasses: metric, drainBlocks: metric, drainDuration: metric },
    signal: new AbortController().signal,
  } as unknown as DrainContext;
  const settings = { timeoutMs: 600_000, onTimeout: 'Abort', unmanagedPods: 'Evict', emptyDir: 'Evict', ...changes };
  return new Drainer(context, { ofGroup: () => settings } as unknown as Settings);
}

function callOf(node: string): DrainCall {
  return {
    identity: { node, podUID: 'agent', podName: 'agent' },
    shadow: { metadata: { name: `brs-${node}`, uid: 's', generation: 2 }, spec: {} },
    signal: AbortSignal.timeout(1_000),
  } as unknown as DrainCall;
}

/** Runs one pass that is aborted when it waits for an eviction; resolves with whether the node counted as drained. */
async function isDrained(cluster: Cluster): Promise<boolean> {
  return await drainerOf(cluster)
    .pass(callOf('a'))
    .then(
      ({ done }) => done,
      () => false,
    );
}

const OURS = { [CORDONED_ANNOTATION]: '2027-01-15T08:00:00Z' };

describe('a pass over a node that is cordoned and empty', () => {
  it('ends the drain', async () => {
    expect(await isDrained(new Cluster())).toBe(true);
  });

  it.each<[string, Cluster['onRequest']]>([
    [
      'is uncordoned and gets a pod before it is cordoned again',
      (path, cluster) =>
        path.startsWith('PATCH') && cluster.node.spec.unschedulable && cluster.change(false, [SHIPPER, WEB]),
    ],
    [
      'is uncordoned and gets a pod while DaemonSets are looked up',
      (path, cluster) =>
        path.includes('/daemonsets/') && cluster.node.spec.unschedulable && cluster.change(false, [SHIPPER, WEB]),
    ],
  ])('does not end it when the node %s', async (_what, onRequest) => {
    for (const annotations of [{}, OURS]) {
      const cluster = new Cluster();
      cluster.node.metadata.annotations = annotations;
      cluster.onRequest = onRequest;
      expect(await isDrained(cluster)).toBe(false);
    }
  });

  it('does not end it when a pod was bound before another actor cordoned the node', async () => {
    const cluster = new Cluster();
    cluster.change(false, [SHIPPER]);
    let read = 0;
    cluster.onRequest = (path) => {
      if (!['/api/v1/pods', '/api/v1/nodes'].includes(path)) return;
      read += 1;
      if (read === 2) cluster.change(true, [SHIPPER, WEB]);
    };
    expect(await isDrained(cluster)).toBe(false);
  });
});

it('ends the watches of a pass before it records the pass', async () => {
  const cluster = new Cluster();
  cluster.pods = [WEB];
  let generation = 2;
  let watchesOfLoop = 0;
  cluster.onRequest = (path) => {
    if (!path.endsWith('/eviction')) return;
    watchesOfLoop = cluster.openWatches;
    // A newer spec ends the pass.
    generation = 3;
  };
  const watches: number[] = [];
  const shadows = {
    cached: () => ({ metadata: { uid: 's', generation } }),
    writeDrain: async () => void watches.push(cluster.openWatches),
  };
  await drainerOf(cluster, shadows).pass(callOf('a'));
  expect({ watchesOfLoop, watches }).toEqual({ watchesOfLoop: 2, watches: [0, 0] });
});

it('answers with as many blocks as are on record: an agent reads no more than 256 KiB', async () => {
  const cluster = new Cluster();
  cluster.pods = Array.from({ length: 3_000 }, (_, number) => {
    const name = `batch-${number}`;
    return { metadata: { name, namespace: 'shop', uid: name, resourceVersion: '1' }, spec: { nodeName: 'a' } };
  });
  const { blockedBy, remaining } = await drainerOf(cluster, {}, { unmanagedPods: 'Block' }).pass(callOf('a'));
  expect({ blocks: blockedBy.length, remaining }).toEqual({ blocks: 20, remaining: 3_000 });
});

it('runs 200 passes at a time, and rejects more', async () => {
  const { promise, reject } = Promise.withResolvers<never>();
  const request = (): Promise<never> => promise;
  const drainer = drainerOf({ client: { request, find: request } as unknown as Cluster['client'] });
  const passes = Array.from({ length: 200 }, (_, n) => drainer.pass(callOf(`n${n}`)));
  const message = 'a: this replica runs 200 drain passes, its limit; repeat';
  await expect(drainer.pass(callOf('a'))).rejects.toMatchObject({ code: 'Unavailable', message });
  reject(new KubeError(0, 'Unreachable', 'no response'));
  await Promise.allSettled(passes);
  await expect(drainer.pass(callOf('a'))).rejects.toThrow('no response');
});

it('names the node in every line of a drain', async () => {
  const cluster = new Cluster();
  cluster.change(false, cluster.pods);
  await isDrained(cluster);
  const found = lines.map((line) => JSON.parse(line) as { msg: string; node?: string });
  expect(found.map(({ msg }) => msg)).toEqual(expect.arrayContaining(['the drain starts', 'the drain ends']));
  expect(found.filter(({ node }) => node !== 'a')).toEqual([]);
});
