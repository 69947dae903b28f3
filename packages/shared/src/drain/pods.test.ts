import { aPod } from '../testing/pods.ts';
import { daemonSetsInQuestion, type DrainPod, goesLast, podKey, podsToEvict, slimPod } from './pods.ts';

describe('the pods that a drain must see gone', () => {
  const staying = { orphaned: new Set(['apps/gone']), needed: new Set(['agent']) };

  it.each<[string, boolean, DrainPod]>([
    ['an ordinary pod', true, aPod('x')],
    ['a finished pod', true, aPod('x', { finished: true })],
    [
      'a finished pod that only a finalizer holds',
      false,
      aPod('x', { finished: true, goneBy: '2026-01-02T03:04:05Z' }),
    ],
    ['a pod that is on its way out', true, aPod('x', { goneBy: '2026-01-02T03:04:05Z' })],
    ['a mirror pod', false, aPod('x', { mirror: true })],
    ['a finished mirror pod', false, aPod('x', { mirror: true, finished: true })],
    ['a pod of a DaemonSet', false, aPod('x', { daemonSet: 'apps/logs' })],
    ['a finished pod of a DaemonSet', true, aPod('x', { daemonSet: 'apps/logs', finished: true })],
    ['a pod of a DaemonSet that is gone', true, aPod('x', { daemonSet: 'apps/gone' })],
    ['a needed pod', false, aPod('agent')],
    ['a pod with the drain policy skip', false, aPod('x', { drainPolicy: 'skip' })],
    ['a pod with the drain policy last', true, aPod('x', { drainPolicy: 'last' })],
    ['a pod of the operator', true, aPod('x', { own: true })],
  ])('count %s: %s', (_what, goes, pod) => {
    expect(podsToEvict([pod], staying)).toHaveLength(goes ? 1 : 0);
  });

  it('exempt those that were recreated although the node was cordoned', () => {
    const later = { ...aPod('x').metadata, creationTimestamp: '2026-01-02T00:00:01Z' };
    const cordonedSince = Date.UTC(2026, 0, 2);
    const left = (pod: DrainPod): number => podsToEvict([pod], { ...staying, cordonedSince }).length;
    expect(left(aPod('x', { toleratesCordon: true, metadata: later }))).toBe(0);
    expect(left(aPod('x', { toleratesCordon: true }))).toBe(1);
    expect(left(aPod('x', { metadata: later }))).toBe(1);
    const muchLater = { ...later, creationTimestamp: '2026-01-02T00:00:04Z' };
    expect(left(aPod('x', { metadata: muchLater }))).toBe(0);
  });

  it('come in the order of their names', () => {
    expect(podsToEvict([aPod('b'), aPod('a')], staying).map(podKey)).toEqual(['apps/a', 'apps/b']);
  });
});

const waits = (reason: string): object => ({ state: { waiting: { reason } } });
const ended = (restartCount: number): object => ({ restartCount, state: { terminated: {} } });
/** A container that was started in that minute of the year, for the last time. */
const runs = (restartCount: number, minute: number): object => ({
  restartCount,
  state: { running: { startedAt: `2026-01-01T00:0${minute}:00Z` } },
});
const statusOf = (containers: object): object => ({ phase: 'Running', ...containers });

/** A container of it does not run yet. */
function waitingFor(
  reason: string,
  which: 'containerStatuses' | 'initContainerStatuses' = 'containerStatuses',
): object {
  return { status: { phase: 'Running', [which]: [{ state: { running: {} } }, { state: { waiting: { reason } } }] } };
}

describe('a pod of the API', () => {
  const creationTimestamp = '2026-01-01T00:00:00Z';
  const metadata = { name: 'web', namespace: 'apps', uid: 'u', resourceVersion: '1', creationTimestamp };
  const owner = (kind: string, controller = true, apiVersion = 'apps/v1'): object => ({
    ownerReferences: [{ apiVersion, kind, name: 'logs', uid: 'd', controller }],
  });
  const volumes = (volume: object): object => ({ spec: { volumes: [{ name: 'data', ...volume }] } });

  const tolerating = (toleration: object): object => ({ spec: { tolerations: [toleration] } });

  it('is reduced to what decides about its drain', () => {
    const raw = {
      metadata: { ...metadata, ...owner('ReplicaSet'), labels: { app: 'web' }, managedFields: [] },
      spec: { nodeName: 'node-a', containers: [] },
      status: {
        phase: 'Running',
        conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z' }],
      },
    };
    const expected = { metadata: { ...metadata, labels: { app: 'web' } }, controller: 'ReplicaSet apps/logs' };
    expect(slimPod(raw)).toEqual(aPod('web', expected));
  });

  it.each<[string, object, object, Partial<DrainPod>]>([
    ['of a kubelet’s file', { annotations: { 'kubernetes.io/config.mirror': 'x' } }, {}, { mirror: true }],
    ['with a claim', {}, volumes({ persistentVolumeClaim: { claimName: 'c' } }), { claims: ['c'] }],
    ['with a claim of its own', {}, volumes({ ephemeral: {} }), { claims: ['web-data'] }],
    ['with data of its own', {}, volumes({ emptyDir: {} }), { emptyDir: true }],
    ['that has failed', {}, { status: { phase: 'Failed' } }, { finished: true }],
    ['that has never run', {}, { status: { phase: 'Pending' } }, { pending: true, ready: false }],
    [
      'with the label of the controller alone',
      { labels: { 'brupop.bottlerocket.aws/component': 'brupop-controller' } },
      {},
      { own: false },
    ],
    ['of a DaemonSet', owner('DaemonSet'), {}, { daemonSet: 'apps/logs', unmanaged: false }],
    [
      'of a DaemonSet of another API group',
      owner('DaemonSet', true, 'apps.kruise.io/v1alpha1'),
      {},
      { daemonSet: 'apps/logs', foreignDaemonSet: true, unmanaged: false },
    ],
    ['only owned, not controlled, by a DaemonSet', owner('DaemonSet', false), {}, { unmanaged: true }],
    ['of a StatefulSet', owner('StatefulSet'), {}, { stateful: true, unmanaged: false }],
    ['without an owner', {}, {}, { unmanaged: true, stateful: false, controller: '' }],
    ['that crashes again and again', {}, waitingFor('CrashLoopBackOff'), { failing: true }],
    ['that has no image', {}, waitingFor('ImagePullBackOff', 'initContainerStatuses'), { failing: true }],
    ['that may pull no image', {}, waitingFor('ErrImageNeverPull'), { failing: true }],
    ['whose image cannot be read', {}, waitingFor('ImageInspectError'), { failing: true }],
    ['that is being created', {}, waitingFor('ContainerCreating'), { failing: false }],
    [
      'that was evicted before it had its image',
      {},
      { status: { ...statusOf({ initContainerStatuses: [waits('ImagePullBackOff')] }), phase: 'Failed' } },
      { finished: true, failing: false },
    ],
    [
      'with two containers that were restarted once',
      {},
      { status: statusOf({ containerStatuses: [runs(1, 5), runs(1, 7)] }) },
      { restarts: 2, mostRestarts: 1, restartedAt: Date.UTC(2026, 0, 1, 0, 7) },
    ],
    [
      'with a sidecar that is restarted again and again',
      {},
      { status: statusOf({ initContainerStatuses: [ended(4), runs(3, 9)], containerStatuses: [runs(1, 5)] }) },
      { restarts: 8, mostRestarts: 3, restartedAt: Date.UTC(2026, 0, 1, 0, 9) },
    ],
    ['with a priority', {}, { spec: { priority: 1000 } }, { priority: 1000 }],
    ['with patience', {}, { spec: { terminationGracePeriodSeconds: 600 } }, { graceSeconds: 600 }],
    ['that is put on any node', {}, tolerating({ operator: 'Exists' }), { toleratesCordon: true }],
    [
      'that is put on cordoned nodes',
      {},
      tolerating({ key: 'node.kubernetes.io/unschedulable', operator: 'Exists', effect: 'NoSchedule' }),
      { toleratesCordon: true },
    ],
    [
      'that runs on when others are evicted',
      {},
      tolerating({ operator: 'Exists', effect: 'NoExecute' }),
      { toleratesCordon: false },
    ],
    ['that tolerates something else', {}, tolerating({ key: 'gpu', operator: 'Exists' }), { toleratesCordon: false }],
    ['with a finalizer', { finalizers: ['a/b'] }, {}, { finalizers: ['a/b'] }],
    ['whose label says skip', { labels: { 'brupop.bottlerocket.aws/drain': 'skip' } }, {}, { drainPolicy: 'skip' }],
    [
      'whose annotation says last',
      { annotations: { 'brupop.bottlerocket.aws/drain': 'last' } },
      {},
      { drainPolicy: 'last' },
    ],
    [
      'with an unknown drain policy',
      { labels: { 'brupop.bottlerocket.aws/drain': 'never' } },
      {},
      { drainPolicy: undefined },
    ],
  ])('%s is known for it', (_what, more, rest, expected) => {
    expect(slimPod({ metadata: { ...metadata, ...more }, ...rest })).toMatchObject(expected);
  });

  it.each([
    ['an instance manager of Longhorn', 'longhorn.io/v1beta2', 'InstanceManager', true],
    ['an instance manager of another API', 'example.com/v1', 'InstanceManager', false],
    ['another controller of Longhorn', 'longhorn.io/v1beta2', 'ShareManager', false],
  ])('controlled by %s serves volumes and goes last, or not', (_what, apiVersion, kind, expected) => {
    const owner = { apiVersion, kind, name: 'one', uid: 'o', controller: true };
    const pod = slimPod({ metadata: { ...metadata, ownerReferences: [owner] } });
    expect([pod.servesVolumes, goesLast(pod)]).toEqual([expected, expected]);
  });

  it.each([
    ['apps/v1', ['apps/logs']],
    ['apps.kruise.io/v1alpha1', []],
  ])('is of a DaemonSet of %s, which is asked for only if Kubernetes has it', (apiVersion, expected) => {
    const pod = slimPod({ metadata: { ...metadata, ...owner('DaemonSet', true, apiVersion) } });
    expect([...daemonSetsInQuestion([pod])]).toEqual(expected);
    expect(podsToEvict([pod], { orphaned: new Set() })).toEqual([]);
  });

  it('names no namespace but its own, whatever its reference says', () => {
    const pod = slimPod({ metadata: { ...metadata, ...owner('Foo kube-system/x') } });
    expect(pod.controller).toBe('Foo_kube-system_x apps/logs');
  });

  it('belongs to the operator in its namespace only', () => {
    const labels = { 'brupop.bottlerocket.aws/component': 'brupop-controller' };
    const replicaSet = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'brupop-controller-1', uid: 'r' };
    const raw = { metadata: { ...metadata, labels, ownerReferences: [{ ...replicaSet, controller: true }] } };
    expect([slimPod(raw, 'apps').own, slimPod(raw, 'brupop').own, slimPod(raw).own]).toEqual([true, false, false]);
  });
});

test('what anyone may write into a pod is kept up to a bound', () => {
  const large = 'x'.repeat(10_000);
  const labels = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`key-${i}`, 'a-value-of-some-length']));
  const pod = slimPod({
    metadata: {
      name: 'web',
      namespace: 'apps',
      uid: '1',
      resourceVersion: '1',
      labels,
      finalizers: Array.from({ length: 100 }, () => large),
      ownerReferences: [{ apiVersion: 'v1', kind: large, name: 'web', uid: '2', controller: true }],
    },
    spec: {
      volumes: Array.from({ length: 1_000 }, () => ({ name: 'v', persistentVolumeClaim: { claimName: large } })),
    },
  });
  expect(JSON.stringify(pod).length).toBeLessThan(100_000);
  expect(pod.metadata.labels).toEqual({});
});

it('a pod of a DaemonSet of another API group stays, although one of apps/v1 with its name is gone', () => {
  const pod = { ...aPod('logs'), daemonSet: 'apps/logs' };
  const orphaned = new Set(['apps/logs']);
  expect(podsToEvict([pod], { orphaned })).toEqual([pod]);
  expect(podsToEvict([{ ...pod, foreignDaemonSet: true }], { orphaned })).toEqual([]);
});
