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
