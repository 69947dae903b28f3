import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import type { KubeClient } from '@brupop/shared/kube/client';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { AllPodsLookup } from './all-pods.ts';

it('pods of which too much would be kept are not listed, and the message names the namespace with most of it', async () => {
  const podIn = (namespace: string, name: string): unknown => ({
    metadata: { name, namespace, uid: name, resourceVersion: '1' },
    spec: { containers: [] },
    status: { phase: 'Pending' },
  });
  const many = Array.from({ length: 500 }, (_, i) => podIn('crowded', `${i}-${'x'.repeat(200)}`));
  const items = [podIn('apps', 'web'), ...many];
  const client = { request: <T>(): Promise<T> => Promise.resolve({ metadata: { resourceVersion: '1' }, items } as T) };
  const options = { client: client as unknown as KubeClient, clock: new FakeClock(), log: recordingLogger().log };
  const listed = async (maxChars: number): Promise<AllPodsLookup['known']> => {
    const lookup = new AllPodsLookup({ ...options, maxChars });
    const answered = new Promise<void>((resolve) => lookup.answers.subscribe(resolve));
    lookup.look('list', new AbortController().signal);
    await answered;
    return lookup.known;
  };
  expect((await listed(10_000_000)).pods).toHaveLength(501);
  expect(await listed(50_000)).toMatchObject({
    pods: [],
    problem: expect.stringContaining('most of them in the namespace "crowded"') as string,
  });
});

it('asks in pages, and for no pods that count for no workload: mirror pods, and those that have finished', async () => {
  const asked: unknown[] = [];
  const request = (sent: { readonly query?: unknown }): Promise<object> => {
    asked.push(sent.query);
    return Promise.resolve({ metadata: { resourceVersion: '1' }, items: [] });
  };
  const client = { request } as unknown as KubeClient;
  const lookup = new AllPodsLookup({ client, clock: new FakeClock(), log: recordingLogger().log });
  const answered = new Promise<void>((resolve) => lookup.answers.subscribe(resolve));
  lookup.look('list', new AbortController().signal);
  await answered;
  const fieldSelector = 'spec.serviceAccountName!=,status.phase!=Succeeded,status.phase!=Failed';
  expect(asked).toMatchObject([{ fieldSelector, limit: '500' }]);
});

describe('the memory of all pods', () => {
  const PODS = 20_000;
  const PAGE = 500;
  const collect = exposedGc();

  /** As kubelets of a cloud and Deployments name them. */
  const podAt = (i: number): unknown => {
    const namespace = `team-${i % 50}-with-a-long-name`;
    const owner = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: `checkout-service-${i % 1_000}-7d9c5b6f4d` };
    const ownerReferences = [{ ...owner, uid: 'x', controller: true }];
    const metadata = { name: `${owner.name}-${i}`, namespace, uid: `uid-${i}`, resourceVersion: '1', ownerReferences };
    return { metadata, spec: { nodeName: `ip-10-0-0-${i % 600}.eu-central-1.compute.internal` } };
  };
  const request = <T>({ query }: { readonly query?: { readonly continue?: string } }): Promise<T> => {
    const from = Number(query?.continue ?? 0);
    const items = Array.from({ length: PAGE }, (_, i) => podAt(from + i));
    const next = from + PAGE < PODS ? String(from + PAGE) : '';
    return Promise.resolve(
      JSON.parse(JSON.stringify({ metadata: { resourceVersion: '1', continue: next }, items })) as T,
    );
  };

  it('has the text that names a node or a workload once', async () => {
    const client = { request } as unknown as KubeClient;
    const lookup = new AllPodsLookup({ client, clock: new FakeClock(), log: recordingLogger().log });
    const answered = new Promise<void>((resolve) => lookup.answers.subscribe(resolve));
    collect();
    const before = process.memoryUsage().heapUsed;
    lookup.look('list', new AbortController().signal);
    await answered;
    collect();
    const each = (process.memoryUsage().heapUsed - before) / PODS;
    expect(lookup.known.pods).toHaveLength(PODS);
    expect(each).toBeLessThan(230);
  });
});

function exposedGc(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}
