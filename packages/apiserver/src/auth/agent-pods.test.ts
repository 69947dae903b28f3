import { AGENT, COMPONENT_LABEL } from '@brupop/shared/api/names';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { type AgentPod, AgentPods, slimAgentPod } from './agent-pods.ts';

const namespace = 'brupop';
const pod = (uid: string, controllerUID: string): AgentPod =>
  slimAgentPod(
    {
      metadata: {
        name: uid,
        namespace,
        uid,
        resourceVersion: '1',
        labels: { [COMPONENT_LABEL]: AGENT },
        ownerReferences: [
          { apiVersion: 'apps/v1', kind: 'DaemonSet', name: AGENT, uid: controllerUID, controller: true },
        ],
      },
      spec: { nodeName: 'a' },
    },
    namespace,
  );

function agentPods(pods: readonly AgentPod[]) {
  const clock = new FakeClock();
  const cluster = { daemonSet: 'first' as string | undefined, reads: 0 };
  const client = {
    find: <T>(): Promise<T | undefined> => {
      cluster.reads += 1;
      const { daemonSet: uid } = cluster;
      return Promise.resolve(uid === undefined ? undefined : ({ metadata: { uid } } as T));
    },
  };
  const reflector = { get: (name: string) => pods.find(({ metadata }) => metadata.name === name) };
  return { found: new AgentPods({ reflector, client, namespace, clock }), clock, cluster };
}

it('a pod of the DaemonSet is known, with one read of the DaemonSet', async () => {
  const { found, cluster } = agentPods([pod('mine', 'first')]);
  await found.find('mine', 'mine');
  expect(found.known('mine', 'mine')).toBeDefined();
  await found.find('mine', 'mine');
  expect(cluster.reads).toBe(1);
});

it('a pod that copies the labels and names the DaemonSet with another UID is rejected, however often it asks', async () => {
  const { found, clock, cluster } = agentPods([pod('mine', 'first'), pod('copy', 'forged')]);
  for (let i = 0; i < 100; i += 1) {
    await expect(found.find('copy', 'copy')).rejects.toMatchObject({
      code: 'Forbidden',
      message:
        'pod brupop/copy: expected the controller DaemonSet/brupop-agent with UID first, found one with UID forged',
    });
    await clock.advance(100);
  }
  expect(found.known('copy', 'copy')).toBeUndefined();
  expect(cluster.reads).toBe(2);
  expect(await found.find('mine', 'mine')).toBeDefined();
});

it('a DaemonSet that was created again is known by its new UID, and the pods of the former are not', async () => {
  const { found, clock, cluster } = agentPods([pod('old', 'first'), pod('new', 'second')]);
  await found.find('old', 'old');
  cluster.daemonSet = 'second';
  await clock.advance(5_000);
  expect(await found.find('new', 'new')).toBeDefined();
  expect(found.known('old', 'old')).toBeUndefined();
  cluster.daemonSet = undefined;
  await clock.advance(5_000);
  await expect(found.find('old', 'old')).rejects.toMatchObject({ code: 'Forbidden' });
});
