import type { KubeClient } from '@brupop/shared/kube/client';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { DrainView } from './cluster-view.ts';
import type { PassContext } from './context.ts';
import type { Attachments } from './volumes.ts';

const POD = { metadata: { name: 'web', namespace: 'shop', uid: 'u1', resourceVersion: '1' }, spec: { nodeName: 'a' } };

interface Cluster {
  readonly find?: (path: string) => Promise<unknown>;
  readonly waitSynced?: (signal: AbortSignal) => Promise<void>;
  readonly clock?: FakeClock;
}

/** What a pass sees of a node on which kube-apiserver reports these pods. */
function viewOf(pods: readonly unknown[], cluster: Cluster = {}): DrainView {
  const { find, waitSynced = async () => undefined, clock = new FakeClock() } = cluster;
  const list = async ({ path }: { path: string }): Promise<unknown> => ({
    items: path === '/api/v1/pods' ? pods : [],
    metadata: { resourceVersion: '1' },
  });
  const log = { with: () => log, error: () => undefined };
  const context = {
    client: { request: list, find } as unknown as KubeClient,
    identity: { node: 'a' },
    clock,
    log,
    signal: new AbortController().signal,
  } as unknown as PassContext;
  const attachment = { metadata: { name: 'a1', resourceVersion: '1' }, node: 'a', volume: 'disk' };
  const watch = { list: () => [attachment], subscribe: () => () => undefined, waitSynced };
  return new DrainView(context, { watch: () => watch } as unknown as Attachments);
}

function podWith(namespace: string, claims: readonly string[], labels: object = {}): object {
  const volumes = claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
  const { metadata } = POD;
  return { metadata: { ...metadata, namespace, uid: namespace, labels }, spec: { nodeName: 'a', volumes } };
}

describe('a volume of a pod that has left the node', () => {
  const left = 'shop/db';
  const heldAmong = async (pods: readonly object[]): Promise<{ held: boolean; asked: string[] }> => {
    const asked: string[] = [];
    const view = viewOf(pods, { find: async (path) => (asked.push(path), { spec: { volumeName: 'disk' } }) });
    await view.load();
    await view.needVolumes(left, ['disk']);
    return { held: view.held(left)('disk'), asked: asked.filter((path) => path.includes('claims')) };
  };

  it('is unknown until the VolumeAttachments are listed, and the error names these', async () => {
    const clock = new FakeClock();
    const waitSynced = (signal: AbortSignal): Promise<void> => clock.sleep(60_000, signal);
    const view = viewOf([], { find: async () => undefined, waitSynced, clock });
    const message = 'the Kubernetes API has not listed the VolumeAttachments within 5000 ms';
    const needed = view.needVolumes(left, ['disk']);
    await Promise.all([expect(needed).rejects.toMatchObject({ code: 'Unavailable', message }), clock.advance(5_000)]);
  });

  it('is not held while a pod of its namespace uses it', async () => {
    expect(await heldAmong([podWith('shop', ['data'])])).toMatchObject({ held: false });
  });

  it('is held whatever the claims of other namespaces name, and however many these are', async () => {
    const others = Array.from({ length: 7 }, (_, n) =>
      podWith(
        `n${n}`,
        Array.from({ length: 200 }, (__, i) => `c${i}`),
      ),
    );
    expect(await heldAmong(others)).toEqual({ held: true, asked: [] });
  });
});

describe('the pods on a node', () => {
  it('are read from etcd, not from a cache', async () => {
    const view = viewOf([POD]);
    await view.load();
    expect(view.pods()).toMatchObject([{ metadata: { name: 'web' } }]);
  });

  it('are read although each has many claims with long names, for which a plan does not ask', async () => {
    const pods = Array.from({ length: 200 }, (_, n) => {
      const claims = Array.from({ length: 200 }, (__, i) => `c${i}`.padEnd(253, 'x'));
      return podWith(`n${n}`, claims, { filler: 'x'.repeat(8_000) });
    });
    const view = viewOf(pods);
    await view.load();
    expect(view.pods()).toHaveLength(pods.length);
  });

  it('are unknown when one of them cannot be read', async () => {
    const view = viewOf([POD, { spec: {} }]);
    const rejection = { code: 'Unavailable', message: '1 pod(s) on node a cannot be read; see the log' };
    await expect(view.load()).rejects.toMatchObject(rejection);
    await expect(view.read()).rejects.toMatchObject(rejection);
  });
});
