import { cordonedSince, cordon, exclude, type Node, restore, slimNode } from './policy.ts';

const cordoned = 'brupop.bottlerocket.aws/cordoned';
const again = 'brupop.bottlerocket.aws/recordoned-at';
const excluded = 'brupop.bottlerocket.aws/excluded-from-load-balancers';
const label = 'node.kubernetes.io/exclude-from-external-load-balancers';
const now = Date.UTC(2026, 0, 2, 3, 4, 5);
const time = '2026-01-02T03:04:05Z';

const node = (options: { unschedulable?: boolean; labels?: string[]; annotations?: Record<string, string> }): Node => ({
  metadata: {
    name: 'node',
    uid: 'u',
    resourceVersion: '1',
    labels: Object.fromEntries((options.labels ?? []).map((key) => [key, 'true'])),
    ...(options.annotations === undefined ? {} : { annotations: options.annotations }),
  },
  unschedulable: options.unschedulable ?? false,
  volumesAttached: [],
  schedulableChanged: undefined,
});

const holds = {
  'cluster-autoscaler.kubernetes.io/scale-down-disabled': 'true',
  'karpenter.sh/do-not-disrupt': 'true',
  'brupop.bottlerocket.aws/autoscaler-holds':
    'cluster-autoscaler.kubernetes.io/scale-down-disabled,karpenter.sh/do-not-disrupt',
};

describe('a cordon', () => {
  it('is set with its annotation on a node that has none, and holds autoscalers off', () => {
    expect(cordon(node({}), now)).toEqual({
      patch: { metadata: { annotations: { ...holds, [cordoned]: time } }, spec: { unschedulable: true } },
      result: 'Cordoned',
    });
  });

  it('is set once more after another actor has removed it', () => {
    expect(cordon(node({ annotations: { ...holds, [cordoned]: time } }), now)).toEqual({
      patch: { metadata: { annotations: { [again]: time } }, spec: { unschedulable: true } },
      result: 'Cordoned',
    });
  });

  it('is not set a third time', () => {
    expect(cordon(node({ annotations: { [cordoned]: time, [again]: time } }), now)).toEqual({
      result: 'CordonRemoved',
    });
  });

  it.each([
    ['of the operator', { [cordoned]: time }],
    ['of another actor', {}],
  ])('%s is kept', (_whose, annotations) => {
    const found = node({ unschedulable: true, annotations: { ...holds, ...annotations } });
    expect(cordon(found, now)).toEqual({ result: 'Cordoned' });
  });

  it('of another actor gets no annotation, but autoscalers are held off', () => {
    expect(cordon(node({ unschedulable: true }), now).patch).toEqual({ metadata: { annotations: holds } });
  });
});

describe('the scheduler places no pods on a node', () => {
  it.each([
    ['not at all while it is not cordoned', { annotations: { [cordoned]: time }, changed: time }, undefined],
    ['for an unknown time, when another actor has cordoned it', { unschedulable: true, changed: time }, undefined],
    [
      'since kube-apiserver recorded the cordon, whatever the clock of the replica says',
      { unschedulable: true, annotations: { [cordoned]: '2026-01-01T00:00:00Z' }, changed: time },
      time,
    ],
    [
      'for an unknown time, when kube-apiserver has recorded none',
      { unschedulable: true, annotations: { [cordoned]: time } },
      undefined,
    ],
  ])('%s', (_since, { changed, ...options }: Parameters<typeof node>[0] & { changed?: string }, expected) => {
    const found = cordonedSince({ ...node(options), schedulableChanged: changed });
    expect(found).toBe(expected === undefined ? undefined : Date.parse(expected));
  });

  it('since the time of the field manager that owns spec.unschedulable', () => {
    const metadata = { name: 'node', uid: 'u', resourceVersion: '1' };
    const other = { time: '2026-01-01T00:00:00Z', fieldsV1: { 'f:metadata': {} } };
    const cordon = { time, fieldsV1: { 'f:spec': { 'f:unschedulable': {} } } };
    expect(slimNode({ metadata: { ...metadata, managedFields: [other, cordon] } }).schedulableChanged).toBe(time);
    expect(slimNode({ metadata }).schedulableChanged).toBeUndefined();
  });
});

describe('an exclusion from load balancers', () => {
  it('is set with its annotation, with the whole wait to come', () => {
    const { patch, result } = exclude(node({}), 60_000, now);
    expect(patch).toEqual({
      metadata: { labels: { [label]: 'true' }, annotations: { ...holds, [excluded]: time } },
    });
    expect(result).toBe(60_000);
  });

  it.each([
    ['just now', 0, 60_000],
    ['20 s ago', 20_000, 40_000],
    ['long ago', 3_600_000, 0],
    ['in the future, by another clock', -5_000, 60_000],
  ])('of the operator, set %s, is waited for', (_when, ago, remaining) => {
    const found = node({ labels: [label], annotations: { [excluded]: time } });
    expect(exclude(found, 60_000, now + ago)).toEqual({ result: remaining });
  });

  it('of another actor is kept and not waited for', () => {
    expect(exclude(node({ labels: [label] }), 60_000, now)).toEqual({ result: 0 });
  });

  it.each([
    ['whose label is gone', node({ annotations: { [excluded]: time } })],
    ['whose time cannot be read', node({ labels: [label], annotations: { [excluded]: 'soon' } })],
  ])('%s starts again', (_what, found) => {
    const { patch, result } = exclude(found, 60_000, now + 20_000);
    expect(patch).toMatchObject({ metadata: { annotations: { [excluded]: '2026-01-02T03:04:25Z' } } });
    expect(result).toBe(60_000);
  });
});

it('a restore reports what it removed', () => {
  const found = node({ unschedulable: true, labels: [label], annotations: { [cordoned]: time, [excluded]: time } });
  expect(restore(found).result).toEqual({ uncordoned: true, included: true });
  const others = node({ unschedulable: true, labels: [label] });
  expect(restore(others)).toEqual({ result: { uncordoned: false, included: false } });
});
