import { CORDONED_ANNOTATION } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import type { Identity } from '../auth/authenticator.ts';
import { Nodes } from './nodes.ts';

it('waits for the restore of a Node as long as kube-apiserver may take', async () => {
  const limits: (number | undefined)[] = [];
  const annotations = { [CORDONED_ANNOTATION]: '2027-01-15T08:00:00Z' };
  const client = {
    find: async () => ({ metadata: { name: 'a', uid: 'n', annotations }, spec: { unschedulable: true } }),
    mergePatch: async (_path: string, _body: unknown, { timeoutMs }: { timeoutMs?: number }) => limits.push(timeoutMs),
  } as unknown as KubeClient;
  const log = createLogger({ level: 'error' });
  const nodes = new Nodes({ client, clock: new FakeClock(), logOf: () => log });
  await nodes.restore({ node: 'a' } as Identity, new AbortController().signal);
  expect(limits).toEqual([35_000]);
});
