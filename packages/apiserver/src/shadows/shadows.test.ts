import { MANAGED_LABEL, MANAGED_LABEL_VALUE } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { createLogger } from '@brupop/shared/runtime/log';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { Nodes } from '../nodes/nodes.ts';
import { Shadows } from './shadows.ts';

const MINUTE = 60_000;

/** A Node that was created again, with its shadow. */
function setUp() {
  const clock = new FakeClock();
  const names: string[] = [];
  const messages: string[] = [];
  const node = { metadata: { name: 'a', uid: 'new', labels: { [MANAGED_LABEL]: MANAGED_LABEL_VALUE } } };
  const shadow = { metadata: { name: 'brs-a', namespace: 'brupop', uid: 's' }, spec: { state: 'Idle' } };
  const find = async (path: string): Promise<object> =>
    await Promise.resolve(path.startsWith('/api/v1/nodes') ? node : shadow);
  const client = { find } as unknown as KubeClient;
  const log = createLogger({ write: () => undefined });
  const logOf = () => log;
  const events = {
    record: ({ key, message }: { readonly key: string; readonly message: string }): void => {
      names.push(key);
      messages.push(message);
    },
  };
  const nodes = new Nodes({ client, clock, logOf });
  const cache = { get: () => undefined };
  const shadows = new Shadows({
    client,
    nodes,
    events,
    cache,
    namespace: 'brupop',
    agentNamespace: 'agents',
    clock,
    logOf,
  });
  const call = async (podUID: string): Promise<void> => {
    const identity = { node: 'a', nodeUID: 'old', podName: 'agent', podUID, expiresAt: Infinity };
    await expect(shadows.ofNode(identity, new AbortController().signal)).rejects.toThrow('expected UID old');
  };
  return { clock, call, names, messages };
}

it('an outdated token is one Event an hour for each pod, however often an agent calls', async () => {
  const { clock, call, names } = setUp();
  for (let count = 0; count < 5; count += 1) await call('p');
  await call('q');
  expect(names).toEqual(['p', 'q']);
  await clock.advance(59 * MINUTE);
  await call('p');
  expect(names).toHaveLength(2);
  await clock.advance(MINUTE);
  await call('p');
  expect(names).toEqual(['p', 'q', 'p']);
});

it('the Event names the pod in the namespace of the agents', async () => {
  const { call, messages } = setUp();
  await call('p');
  expect(messages).toEqual([expect.stringMatching(/Delete the pod: kubectl delete pod -n agents agent$/u)]);
});
