import { blocks, due, isStuck, podKey, podsToGo, slimPod, turn } from './drain-policy.ts';
import type { Attempt, DrainPod } from './drain-policy.ts';

const pod = (name: string, changes: Partial<DrainPod> & { leaving?: boolean } = {}): DrainPod => {
  const { leaving = false, ...rest } = changes;
  const deletion = leaving ? { deletionTimestamp: '2026-01-02T03:04:05Z' } : {};
  return {
    metadata: { name, namespace: 'apps', uid: name, resourceVersion: '1', ...deletion },
    mirror: false,
    finished: false,
    attached: false,
    own: false,
    ...rest,
  };
};

const names = (pods: readonly DrainPod[]): string[] => pods.map(({ metadata }) => metadata.name);

const attempts = (entries: Record<string, Partial<Attempt>>): Map<string, Attempt> =>
  new Map(Object.entries(entries).map(([uid, attempt]) => [uid, { count: 1, notBefore: 0, ...attempt }]));

const held = { block: { reason: 'DisruptionBudget', message: 'held' } } as const;

describe('the pods that a drain must see gone', () => {
  const staying = { orphaned: new Set(['apps/gone']), caller: 'agent' };

  it.each<[string, boolean, Partial<DrainPod>]>([
    ['an ordinary pod', true, {}],
    ['a finished pod', true, { finished: true }],
    ['a pod that is on its way out', true, { metadata: pod('x', { leaving: true }).metadata }],
    ['a mirror pod', false, { mirror: true }],
    ['a finished mirror pod', false, { mirror: true, finished: true }],
    ['a pod of a DaemonSet', false, { daemonSet: 'apps/logs' }],
    ['a finished pod of a DaemonSet', true, { daemonSet: 'apps/logs', finished: true }],
    ['a pod of a DaemonSet that is gone', true, { daemonSet: 'apps/gone' }],
    ['the pod that asks', false, { metadata: pod('agent').metadata }],
    ['a pod of our own Deployments', true, { own: true }],
  ])('count %s: %s', (_what, goes, changes) => {
    expect(podsToGo([pod('x', changes)], staying)).toHaveLength(goes ? 1 : 0);
  });

  it('come in the order of their names', () => {
    expect(names(podsToGo([pod('b'), pod('a')], staying))).toEqual(['a', 'b']);
  });
});

describe('whose turn it is', () => {
  it('is all pods without volumes first', () => {
    const pods = [pod('a'), pod('b', { attached: true }), pod('c', { own: true }), pod('d')];
    expect(names(turn(pods, new Map()))).toEqual(['a', 'd']);
  });

  it('stays with them while a budget holds one up', () => {
    const pods = [pod('a'), pod('b', { attached: true })];
    expect(names(turn(pods, attempts({ a: held })))).toEqual(['a']);
  });

  it('passes to pods with volumes once the others are on their way, accepted or marked', () => {
    const pods = [pod('a'), pod('b', { leaving: true }), pod('c', { attached: true }), pod('d', { own: true })];
    expect(names(turn(pods, attempts({ a: {} })))).toEqual(['c']);
  });

  it('is nobody’s while a pod with a volume is on its way', () => {
    const pods = [pod('a', { attached: true, leaving: true }), pod('b', { attached: true })];
    expect(turn(pods, new Map())).toEqual([]);
  });

  it('passes to our own Deployments last', () => {
    expect(names(turn([pod('a', { own: true }), pod('b', { leaving: true })], new Map()))).toEqual(['a']);
  });

  it('is a finished pod’s at once, with or without volumes', () => {
    expect(names(turn([pod('a'), pod('b', { attached: true, finished: true })], new Map()))).toEqual(['a', 'b']);
  });
});

describe('the pods to ask for now', () => {
  it('are those of the turn that are not to be left alone for a while', () => {
    const pods = [pod('a'), pod('b')];
    expect(names(due(pods, attempts({ a: { ...held, notBefore: 11 } }), 10))).toEqual(['b']);
    expect(names(due(pods, attempts({ a: { ...held, notBefore: 10 } }), 10))).toEqual(['a', 'b']);
  });

  it('are one at a time when they have volumes, the least tried first', () => {
    const pods = [pod('a', { attached: true }), pod('b', { attached: true })];
    expect(names(due(pods, new Map(), 0))).toEqual(['a']);
    expect(names(due(pods, attempts({ a: held }), 0))).toEqual(['b']);
  });
});

describe('a pass', () => {
  it.each<[string, boolean, readonly DrainPod[], Record<string, Partial<Attempt>>]>([
    ['nothing was tried', false, [pod('a')], {}],
    ['each pod was refused once', false, [pod('a')], { a: held }],
    ['each pod was refused twice', true, [pod('a')], { a: { ...held, count: 2 } }],
    ['a pod is on its way', false, [pod('a'), pod('b', { leaving: true })], { a: { ...held, count: 2 } }],
    ['one was refused twice, another once', false, [pod('a'), pod('b')], { a: { ...held, count: 2 }, b: held }],
    ['a later turn is held up by this one', true, [pod('a'), pod('b', { own: true })], { a: { ...held, count: 2 } }],
  ])('when %s is stuck: %s', (_when, stuck, pods, tried) => {
    expect(isStuck(pods, attempts(tried))).toBe(stuck);
  });

  it('tells of each pod why it is there, and nothing of those whose turn has not come', () => {
    const pods = [pod('a'), pod('b', { leaving: true }), pod('c'), pod('d', { own: true })];
    expect(blocks(pods, attempts({ a: held, c: {} }))).toEqual([
      { pod: 'apps/a', reason: 'DisruptionBudget', message: 'held' },
      { pod: 'apps/b', reason: 'Terminating', message: 'is to be gone by 2026-01-02T03:04:05Z' },
      { pod: 'apps/c', reason: 'Terminating', message: 'has just been evicted' },
    ]);
  });
});

describe('a pod of the API', () => {
  const metadata = { name: 'web', namespace: 'apps', uid: 'u', resourceVersion: '1' };
  const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'logs', uid: 'd' };

  it('is cut to what a drain must know', () => {
    const volumes = [{ name: 'a', emptyDir: {} }];
    const raw = { metadata: { ...metadata, labels: { app: 'web' } }, spec: { volumes }, status: { phase: 'Running' } };
    const plain = { mirror: false, finished: false, attached: false, own: false };
    expect(slimPod(raw)).toEqual({ metadata, ...plain });
    expect(podKey(slimPod(raw))).toBe('apps/web');
  });

  it.each<[string, object, object, Partial<DrainPod>]>([
    ['of a kubelet’s file', { annotations: { 'kubernetes.io/config.mirror': 'x' } }, {}, { mirror: true }],
    ['with a claim', {}, { spec: { volumes: [{ persistentVolumeClaim: {} }] } }, { attached: true }],
    ['with a claim of its own', {}, { spec: { volumes: [{ ephemeral: {} }] } }, { attached: true }],
    ['that has failed', {}, { status: { phase: 'Failed' } }, { finished: true }],
    ['of our controller', { labels: { 'brupop.bottlerocket.aws/component': 'brupop-controller' } }, {}, { own: true }],
    ['of a DaemonSet', { ownerReferences: [{ ...owner, controller: true }] }, {}, { daemonSet: 'apps/logs' }],
  ])('%s is known for it', (_what, more, rest, expected) => {
    expect(slimPod({ metadata: { ...metadata, ...more }, ...rest })).toMatchObject(expected);
  });

  it('only owned, not controlled, by a DaemonSet is none of its pods', () => {
    expect(slimPod({ metadata: { ...metadata, ownerReferences: [owner] } }).daemonSet).toBeUndefined();
  });
});
