import { listedPod } from './pods.ts';

interface Parts {
  readonly metadata?: object;
  readonly status?: object;
}

const controller = { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'api', uid: 'rs', controller: true };
const waiting = (reason: string): object => ({ name: 'main', state: { waiting: { reason } } });
const crashing = { phase: 'Running', containerStatuses: [waiting('CrashLoopBackOff')] };

const pod = ({ metadata = {}, status = crashing }: Parts = {}): unknown => ({
  metadata: {
    name: 'api-1',
    namespace: 'shop',
    uid: 'uid-1',
    resourceVersion: '1',
    ownerReferences: [controller],
    ...metadata,
  },
  spec: { nodeName: 'node-1' },
  status,
});

it('a pod that waits in CrashLoopBackOff may be evicted', () => {
  expect(listedPod(pod()).crashing).toEqual({ uid: 'uid-1', name: 'api-1', namespace: 'shop', node: 'node-1' });
});

it('a pod whose init container waits in CrashLoopBackOff may be evicted', () => {
  const status = {
    phase: 'Pending',
    initContainerStatuses: [waiting('CrashLoopBackOff')],
    containerStatuses: [waiting('PodInitializing')],
  };
  expect(listedPod(pod({ status })).crashing).toBeDefined();
});

it.each([
  ['runs', pod({ status: { phase: 'Running', containerStatuses: [{ state: { running: {} } }] } })],
  ['has no image', pod({ status: { phase: 'Pending', containerStatuses: [waiting('ImagePullBackOff')] } })],
  [
    'also has no image',
    pod({ status: { containerStatuses: [waiting('CrashLoopBackOff'), waiting('ImagePullBackOff')] } }),
  ],
  ['has no configuration', pod({ status: { containerStatuses: [waiting('CreateContainerConfigError')] } })],
  ['is not scheduled yet', pod({ status: { phase: 'Pending' } })],
  ['has failed', pod({ status: { ...crashing, phase: 'Failed' } })],
  ['has no controller', pod({ metadata: { ownerReferences: [] } })],
  ['is a static pod', pod({ metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } } })],
  ['is being deleted', pod({ metadata: { deletionTimestamp: '2026-01-02T03:04:05Z' } })],
  ['is never to be evicted', pod({ metadata: { labels: { 'brupop.bottlerocket.aws/drain': 'skip' } } })],
])('a pod that %s is left', (_what, raw) => {
  expect(listedPod(raw)).toMatchObject({ uid: 'uid-1' });
  expect(listedPod(raw).crashing).toBeUndefined();
});
