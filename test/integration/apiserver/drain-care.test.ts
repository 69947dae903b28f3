import { jest } from '@jest/globals';
import { NodeToDrain, shiftedClock } from '../../framework/apiserver/drains.ts';
import { createBudget, podNames } from '../../framework/apiserver/pods.ts';
import { useConfiguredApiserver } from '../../framework/apiserver/suite.ts';
import { attach, createVolume, detach, setAttachedInStatus } from '../../framework/apiserver/volumes.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const MINUTE = 60_000;
const suite = useConfiguredApiserver({}, ['drain.allowForce=true']);
let node: NodeToDrain;

beforeEach(async () => {
  await suite.configure(suite.cluster, {});
  node = await NodeToDrain.create(suite);
});

describe('the status of a drain', () => {
  it('lists each blocked pod, since when and by which budget, with one Event for each pod', async () => {
    const held = await node.pod({ labels: { app: 'web' } });
    await node.pod();
    await createBudget(suite.cluster, node.namespace, 'web-budget', { app: 'web' });
    await node.drain();
    const first = await node.status();
    expect(first).toMatchObject({ evicted: 1, remaining: 1 });
    expect(first?.blockedBy).toMatchObject([
      { pod: `${node.namespace}/${held}`, reason: 'DisruptionBudget', podDisruptionBudgets: ['web-budget'] },
    ]);
    await node.drain();
    await node.drain();
    expect(await node.status()).toEqual(first);
    const events = await eventually(async () => {
      const found = await node.events('DrainBlocked');
      expect(found).toHaveLength(1);
      return found;
    });
    expect(events[0]).toContain(
      `Pod ${node.namespace}/${held} blocks the drain of ${node.agent.node}: DisruptionBudget`,
    );
    await suite.cluster.api.delete(`/apis/policy/v1/namespaces/${node.namespace}/poddisruptionbudgets/web-budget`);
    await node.drainWhole();
    expect(await node.status()).toMatchObject({ evicted: 2, remaining: 0, result: 'Drained' });
    expect(await node.status()).not.toHaveProperty('blockedBy');
    expect(await node.events('DrainBlocked')).toHaveLength(1);
  });

  it('names both of two budgets that cover one pod', async () => {
    await node.pod({ labels: { app: 'web', tier: 'front' } });
    await createBudget(suite.cluster, node.namespace, 'one', { app: 'web' });
    await createBudget(suite.cluster, node.namespace, 'two', { tier: 'front' });
    await node.drain();
    expect((await node.status())?.blockedBy).toMatchObject([
      { reason: 'MultipleDisruptionBudgets', podDisruptionBudgets: ['one', 'two'] },
    ]);
  });

  it('ends as cancelled when the node is restored in the middle', async () => {
    await node.pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, node.namespace, 'web-budget', { app: 'web' });
    await node.drain();
    await suite.apiserver.client.act(node.agent, 'restore');
    expect(await node.status()).toMatchObject({ result: 'Cancelled', remaining: 1 });
    expect(await node.isCordoned()).toBe(false);
  });
});

describe('the order of a drain', () => {
  it('is by priority, then the drain policy last; the drain policy skip exempts a pod', async () => {
    const classes = '/apis/scheduling.k8s.io/v1/priorityclasses';
    await suite.cluster.api.create(classes, { metadata: { name: 'high' }, value: 1000 });
    await suite.cluster.api.create(classes, { metadata: { name: 'low' }, value: -1000 });
    const last = await node.pod({ name: 'a-last', annotations: { 'brupop.bottlerocket.aws/drain': 'last' } });
    const stays = await node.pod({ name: 'b-stays', labels: { 'brupop.bottlerocket.aws/drain': 'skip' } });
    const high = await node.pod({ name: 'c-high', priorityClass: 'high' });
    const stateful = await node.pod({ name: 'd-claim', claim: 'none', ready: false });
    const plain = await node.pod({ name: 'e-plain' });
    const low = await node.pod({ name: 'f-low', priorityClass: 'low' });
    await node.drainWhole();
    expect(node.accepted()).toEqual([low, plain, stateful, high, last]);
    expect(await podNames(suite.cluster, node.namespace)).toEqual([stays]);
  });
});

describe('pods that the configuration blocks', () => {
  it.each<[string, object, object, string]>([
    ['with an emptyDir', { emptyDir: true }, { emptyDirPods: 'Block' }, 'emptyDirPods'],
    ['without a controller', {}, { unmanagedPods: 'Block' }, 'unmanagedPods'],
  ])('%s stay, no other pod is evicted, and the node is not cordoned', async (_what, options, drain, setting) => {
    await suite.configure(suite.cluster, { drain });
    const strict = await suite.start();
    const kept = await node.pod(options);
    const result = await node.drain(strict);
    expect(result).toMatchObject({ done: false, evicted: 0, remaining: 1 });
    expect(result.blockedBy).toMatchObject([{ pod: `${node.namespace}/${kept}`, reason: 'BlockedByPolicy' }]);
    expect(result.blockedBy[0]?.message).toContain(`spec.drain.${setting}`);
    expect(await node.isCordoned()).toBe(false);
    await suite.configure(suite.cluster, {});
    await eventually(async () => expect(await node.drain(strict)).toMatchObject({ done: true }));
  });
});

describe('the grace period of pods', () => {
  it('is their own, limited by the configuration', async () => {
    await suite.configure(suite.cluster, { drain: { maxGracePeriod: '90s' } });
    const capped = await suite.start();
    const terminates = '20s';
    const patient = await node.pod({ name: 'patient', graceSeconds: 3_600, terminates });
    const quick = await node.pod({ name: 'quick', graceSeconds: 5, terminates });
    const pass = node.drain(capped).catch(() => undefined);
    const grace = async (name: string): Promise<number | undefined> => {
      const path = `/api/v1/namespaces/${node.namespace}/pods/${name}`;
      const pod = await suite.cluster.api.get<{ metadata: { deletionGracePeriodSeconds?: number } }>(path);
      return pod.metadata.deletionGracePeriodSeconds;
    };
    await eventually(async () => expect([await grace(patient), await grace(quick)]).toEqual([90, 5]));
    await capped.stop();
    await pass;
  });
});

describe('a drain at its time limit', () => {
  const finalizers = ['test.brupop/stays'];

  it('fails, and keeps the remaining pods', async () => {
    const time = shiftedClock();
    const apiserver = await suite.start({ clock: time.clock });
    const stuck = await node.pod({ finalizers });
    const held = await node.pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, node.namespace, 'web-budget', { app: 'web' });
    expect((await node.drain(apiserver)).failure).toBeUndefined();
    time.shiftMs = 29 * MINUTE;
    const late = await node.drain(apiserver);
    expect(late.failure).toBeUndefined();
    const found = late.blockedBy.find(({ pod }) => pod.endsWith(stuck));
    expect(found).toMatchObject({ reason: 'TerminationStuck' });
    expect(found?.message).toContain('finalizers hold it: test.brupop/stays');
    time.shiftMs = 30 * MINUTE;
    const result = await node.drain(apiserver);
    expect(result).toMatchObject({ done: false, evicted: 0, remaining: 2, failure: { code: 'DrainTimedOut' } });
    expect(await node.status()).toMatchObject({ result: 'TimedOut', remaining: 2 });
    expect(await podNames(suite.cluster, node.namespace)).toEqual([stuck, held].toSorted());
    expect(await node.drain(apiserver)).toMatchObject({ failure: { code: 'DrainTimedOut' } });
  });

  it('deletes the remaining pods with onTimeout Force, and leaves stuck ones behind', async () => {
    const time = shiftedClock();
    await suite.configure(suite.cluster, { drain: { onTimeout: 'Force' } });
    const apiserver = await suite.start({ clock: time.clock });
    const stuck = await node.pod({ finalizers });
    await node.pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, node.namespace, 'web-budget', { app: 'web' });
    expect(await node.drain(apiserver)).toMatchObject({ done: false, remaining: 2 });
    time.shiftMs = 31 * MINUTE;
    expect(await node.drain(apiserver)).toMatchObject({ done: true, evicted: 1, remaining: 0 });
    expect(await node.status()).toMatchObject({ result: 'Forced' });
    expect(await podNames(suite.cluster, node.namespace)).toEqual([stuck]);
    // The pass right before the reboot does not wait for it again, however late it is.
    time.shiftMs = 50 * MINUTE;
    expect(await node.drain(apiserver)).toMatchObject({ done: true, evicted: 0 });
    await eventually(async () => expect(await node.events('DrainForced')).toHaveLength(1));
  });

  it('does not delete pods that the configuration blocks, even with Force', async () => {
    const time = shiftedClock();
    await suite.configure(suite.cluster, { drain: { onTimeout: 'Force', unmanagedPods: 'Block' } });
    const apiserver = await suite.start({ clock: time.clock });
    const kept = await node.pod();
    await node.drain(apiserver);
    time.shiftMs = 31 * MINUTE;
    expect(await node.drain(apiserver)).toMatchObject({ done: false, evicted: 0, remaining: 1 });
    time.shiftMs = 45 * MINUTE;
    expect(await node.drain(apiserver)).toMatchObject({ done: false, failure: { code: 'DrainTimedOut' } });
    expect(await podNames(suite.cluster, node.namespace)).toEqual([kept]);
  });
});

describe('a user who uncordons the node', () => {
  it('gets the cordon back once; the second time the drain fails', async () => {
    await node.pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, node.namespace, 'web-budget', { app: 'web' });
    await node.drain();
    await node.uncordon();
    expect((await node.drain()).failure).toBeUndefined();
    expect(await node.isCordoned()).toBe(true);
    await node.uncordon();
    expect(await node.drain()).toMatchObject({ done: false, failure: { code: 'CordonRemoved' } });
    expect(await node.isCordoned()).toBe(false);
    expect(await node.status()).toMatchObject({ result: 'CordonRemoved' });
  });

  it('ends a pass in the middle, which is not done then', async () => {
    await node.pod({ terminates: '2s' });
    const pass = node.drain();
    await eventually(async () => expect(await node.isCordoned()).toBe(true));
    await node.uncordon();
    expect(await pass).toMatchObject({ done: false });
  });
});

describe('pods with volumes', () => {
  it.each(['VolumeAttachment', 'status of the Node'])(
    'go one at a time, each detached before the next, by the %s',
    async (by) => {
      const { cluster } = suite;
      const volumes = await Promise.all(
        ['a', 'b'].map(async (claim) => await createVolume(cluster, node.namespace, claim)),
      );
      const pods = await Promise.all(['a', 'b'].map(async (name) => await node.pod({ name, claim: name })));
      const attached = async (names: readonly string[]): Promise<void> => {
        if (by === 'status of the Node') await setAttachedInStatus(cluster, node.agent.node, names);
        else
          await Promise.all(
            volumes.filter((name) => !names.includes(name)).map(async (name) => await detach(cluster, name)),
          );
      };
      if (by === 'VolumeAttachment')
        await Promise.all(volumes.map(async (name) => await attach(cluster, name, node.agent.node)));
      await attached(volumes);
      const pass = node.drain();
      for (const [index, pod] of pods.entries()) {
        await eventually(async () => {
          const { handover } = (await node.status()) ?? {};
          expect(handover).toMatchObject({
            pod: `${node.namespace}/${pod}`,
            phase: 'Detaching',
            volumes: [volumes[index]],
          });
        });
        expect(node.accepted()).toEqual(pods.slice(0, index + 1));
        await attached(volumes.slice(index + 1));
      }
      expect(await pass).toMatchObject({ done: true, evicted: 2 });
      expect(await node.status()).not.toHaveProperty('handover');
    },
  );

  it('that share a volume wait for its detachment only after the last of them', async () => {
    const { cluster } = suite;
    const volume = await createVolume(cluster, node.namespace, 'shared');
    await attach(cluster, volume, node.agent.node);
    for (const name of ['a', 'b']) await node.pod({ name, claim: 'shared' });
    const pass = node.drain();
    await eventually(async () => {
      expect((await node.status())?.handover).toMatchObject({ pod: `${node.namespace}/b`, phase: 'Detaching' });
    });
    await detach(cluster, volume);
    expect(await pass).toMatchObject({ done: true, evicted: 2 });
  });

  it('wait for a volume that stays attached until the timeout, and report it', async () => {
    const time = shiftedClock();
    const apiserver = await suite.start({ clock: time.clock });
    await attach(suite.cluster, await createVolume(suite.cluster, node.namespace, 'a'), node.agent.node);
    const pod = await node.pod({ name: 'a', claim: 'a' });
    expect(await node.drain(apiserver)).toMatchObject({ done: false, remaining: 0 });
    expect((await node.status())?.blockedBy).toMatchObject([
      { pod: `${node.namespace}/${pod}`, reason: 'VolumeDetach' },
    ]);
    time.shiftMs = 2 * MINUTE;
    expect(await node.drain(apiserver)).toMatchObject({ done: true });
  });
});

it.each([
  ['is waited for', false],
  ['is not waited for when the volume is on the node only', true],
])('the replacement of a pod of a StatefulSet %s', async (_what, isLocal) => {
  const { controllerManager } = suite.components();
  // Nothing collects garbage or creates the replacement now.
  await controllerManager.stop();
  try {
    const owner = {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      name: 'db',
      uid: '0b9d1f8e-9f5c-4b1a-b1f5-6f1f4f0c11aa',
    };
    await createVolume(suite.cluster, node.namespace, 'data', isLocal ? node.agent.node : undefined);
    await node.pod({ name: 'db-0', claim: 'data', ownerReferences: [{ ...owner, controller: true }] });
    expect(await node.drain()).toMatchObject({ done: isLocal, evicted: 1, remaining: 0 });
    const reasons = (await node.status())?.blockedBy?.map(({ reason }) => reason);
    expect(reasons).toEqual(isLocal ? undefined : ['Replacement']);
  } finally {
    await controllerManager.restart();
  }
});

it('a pod whose DaemonSet is gone is evicted', async () => {
  const { controllerManager } = suite.components();
  await controllerManager.stop();
  try {
    // Nobody collects garbage now.
    const owner = {
      apiVersion: 'apps/v1',
      kind: 'DaemonSet',
      name: 'gone',
      uid: '0b9d1f8e-9f5c-4b1a-b1f5-6f1f4f0c11aa',
    };
    await node.pod({ ownerReferences: [{ ...owner, controller: true }] });
    expect(await node.drain()).toMatchObject({ done: true, evicted: 1 });
  } finally {
    await controllerManager.restart();
  }
});

it.each(['a%b', '..', '/x', 'x/y'])(
  'a pod that refers to a DaemonSet and a claim which cannot exist, as %s, is evicted with the others',
  async (name) => {
    const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name, uid: '0b9d1f8e-9f5c-4b1a-b1f5-6f1f4f0c11aa' };
    await node.pod({ ready: false, ownerReferences: [{ ...owner, controller: true }] });
    await node.pod({ ready: false, claim: name });
    await node.pod();
    const { done, remaining } = await node.drain();
    expect({ done, remaining }).toEqual({ done: true, remaining: 0 });
  },
);

/** Times of pods, drains and cordons are in whole seconds. */
async function untilNextSecond(): Promise<void> {
  const now = Date.now();
  await eventually(() => expect(Date.now()).toBeGreaterThan(now + 1_000));
}

it('a pod that tolerates the cordon and was recreated on the node is not evicted', async () => {
  await node.pod();
  await createBudget(suite.cluster, node.namespace, 'all', {});
  expect(await node.drain()).toMatchObject({ done: false, remaining: 1 });
  await suite.cluster.api.delete(`/apis/policy/v1/namespaces/${node.namespace}/poddisruptionbudgets/all`);
  await untilNextSecond();
  const back = await node.pod({ name: 'back' });
  expect(await node.drain()).toMatchObject({ done: true, evicted: 1, remaining: 0 });
  expect(await podNames(suite.cluster, node.namespace)).toEqual([back]);
});

it('a pod that a controller puts on the cordoned node past the scheduler is evicted few times, and then left and shown', async () => {
  const PLACED = { toleratesCordon: false, ready: false, terminates: '500ms' } as const;
  const ended = new AbortController();
  await node.pod({ ...PLACED, ready: true });
  const controller = async (): Promise<void> => {
    for (let created = 1; !ended.signal.aborted;) {
      if (node.accepted().length >= created) {
        created += 1;
        await node.pod(PLACED);
      }
      await new Promise((done) => setTimeout(done, 20));
    }
  };
  const running = controller();
  await node.drainWhole();
  ended.abort();
  await running;
  const left = await podNames(suite.cluster, node.namespace);
  expect(left).toHaveLength(1);
  expect(node.accepted().length).toBeLessThan(10);
  expect(await node.status()).toMatchObject({ result: 'Drained', returned: [`${node.namespace}/${left[0]}`] });
});

it('a pod that was created between the start of the drain and the cordon is evicted', async () => {
  await suite.configure(suite.cluster, { drain: { emptyDirPods: 'Block' } });
  const held = await node.pod({ emptyDir: true });
  expect(await node.drain()).toMatchObject({ done: false, remaining: 1 });
  expect(await node.isCordoned()).toBe(false);
  await untilNextSecond();
  await node.pod({ name: 'came' });
  await suite.cluster.api.delete(`/api/v1/namespaces/${node.namespace}/pods/${held}?gracePeriodSeconds=0`);
  await node.drainWhole();
  expect(node.accepted()).toEqual(['came']);
  expect(await podNames(suite.cluster, node.namespace)).toEqual([]);
});

it('a pod in a terminating namespace is deleted with it', async () => {
  await node.pod({ terminates: '3s' });
  await suite.cluster.api.delete(`/api/v1/namespaces/${node.namespace}`);
  await node.drainWhole();
  expect(await node.status()).toMatchObject({ result: 'Drained' });
});

it('300 pods are evicted at a limited rate, in little more time than the slowest needs', async () => {
  await Promise.all(Array.from({ length: 300 }, async () => await node.pod({ ready: false, terminates: '5s' })));
  await eventually(
    async () => {
      const { items } = await suite.cluster.api.get<{ items: { status: { phase: string } }[] }>(
        `/api/v1/namespaces/${node.namespace}/pods`,
      );
      expect(items.filter(({ status }) => status.phase === 'Running')).toHaveLength(300);
    },
    { limitMs: 60_000 },
  );
  await node.drainWhole();
  const times = suite.apiserver.lines
    .filter((line) => line.includes('requested an eviction') && line.includes(node.namespace))
    .map((line) => Date.parse((JSON.parse(line) as { time: string }).time));
  expect(times).toHaveLength(300);
  const inOneSecond = times.map((from) => times.filter((time) => time >= from && time < from + 1_000).length);
  expect(Math.max(...inOneSecond)).toBeLessThanOrEqual(210);
});
