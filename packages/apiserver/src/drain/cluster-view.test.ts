import type { KubeClient } from '@brupop/shared/kube/client';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { DrainView } from './cluster-view.ts';
import type { PassContext } from './context.ts';
import type { Attachments } from './volumes.ts';

const POD = { metadata: { name: 'web', namespace: 'shop', uid: 'u1', resourceVersion: '1' }, spec: { nodeName: 'a' } };

/** What a pass sees of a node on which kube-apiserver reports these pods. */
function viewOf(pods: readonly unknown[]): DrainView {
  const list = async ({ path }: { path: string }): Promise<unknown> => ({
    items: path === '/api/v1/pods' ? pods : [],
    metadata: { resourceVersion: '1' },
  });
  const log = { with: () => log, error: () => undefined };
  const context = {
    client: { request: list } as unknown as KubeClient,
    identity: { node: 'a' },
    clock: new FakeClock(),
    log,
    signal: new AbortController().signal,
  } as unknown as PassContext;
  return new DrainView(context, {} as Attachments);
}

describe('the pods on a node', () => {
  it('are read from etcd, not from a cache', async () => {
    const view = viewOf([POD]);
    await view.load();
    expect(view.pods()).toMatchObject([{ metadata: { name: 'web' } }]);
  });

  it('are unknown when one of them cannot be read', async () => {
    const view = viewOf([POD, { spec: {} }]);
    const rejection = { code: 'Unavailable', message: '1 pod(s) on node a cannot be read; see the log' };
    await expect(view.load()).rejects.toMatchObject(rejection);
    await expect(view.read()).rejects.toMatchObject(rejection);
  });
});
