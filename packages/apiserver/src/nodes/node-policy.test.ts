import { cordon, exclude, restore } from './node-policy.ts';
import type { Node } from './node-policy.ts';

const cordoned = 'brupop.bottlerocket.aws/cordoned';
const excluded = 'brupop.bottlerocket.aws/excluded-from-load-balancers';
const label = 'node.kubernetes.io/exclude-from-external-load-balancers';
const now = Date.UTC(2026, 0, 2, 3, 4, 5);
const time = '2026-01-02T03:04:05Z';

const node = (options: { unschedulable?: boolean; labels?: string[]; annotations?: Record<string, string> }): Node => ({
  metadata: {
    name: 'node',
    uid: 'u',
    resourceVersion: '1',
    labels: Object.fromEntries((options.labels ?? []).map((key) => [key, ''])),
    ...(options.annotations === undefined ? {} : { annotations: options.annotations }),
  },
  spec: options.unschedulable === undefined ? {} : { unschedulable: options.unschedulable },
});

describe('a cordon', () => {
  it('is set and signed on a node that has none', () => {
    expect(cordon(node({}), now).patch).toEqual({
      metadata: { annotations: { [cordoned]: time } },
      spec: { unschedulable: true },
    });
  });

  it('is set anew where somebody has taken ours away', () => {
    expect(cordon(node({ annotations: { [cordoned]: time } }), now).patch).toBeDefined();
  });

  it.each([
    ['ours', { [cordoned]: time }],
    ['somebody else’s', {}],
  ])('that is %s already is left', (_whose, annotations) => {
    expect(cordon(node({ unschedulable: true, annotations }), now).patch).toBeUndefined();
  });
});

describe('an exclusion from load balancers', () => {
  it('is set and signed, with the whole wait to come', () => {
    const { patch, result } = exclude(node({}), 60_000, now);
    expect(patch).toEqual({ metadata: { labels: { [label]: 'true' }, annotations: { [excluded]: time } } });
    expect(result).toBe(60_000);
  });

  it.each([
    ['just now', 0, 60_000],
    ['20 s ago', 20_000, 40_000],
    ['long ago', 3_600_000, 0],
    ['in the future, by another clock', -5_000, 60_000],
  ])('that we set %s is waited for', (_when, ago, remaining) => {
    const found = node({ labels: [label], annotations: { [excluded]: time } });
    expect(exclude(found, 60_000, now + ago)).toEqual({ result: remaining });
  });

  it('that somebody else set is left and not waited for', () => {
    expect(exclude(node({ labels: [label] }), 60_000, now)).toEqual({ result: 0 });
  });

  it.each([
    ['whose label is gone', node({ annotations: { [excluded]: time } })],
    ['whose time cannot be read', node({ labels: [label], annotations: { [excluded]: 'soon' } })],
  ])('%s begins anew', (_what, found) => {
    const { patch, result } = exclude(found, 60_000, now + 20_000);
    expect(patch).toMatchObject({ metadata: { annotations: { [excluded]: '2026-01-02T03:04:25Z' } } });
    expect(result).toBe(60_000);
  });
});

describe('a restore', () => {
  const signatures = { [cordoned]: null, [excluded]: null };

  it('takes back cordon and label that are ours', () => {
    const found = node({
      unschedulable: true,
      labels: [label],
      annotations: { [cordoned]: time, [excluded]: time, other: 'x' },
    });
    expect(restore(found)).toEqual({
      patch: {
        metadata: { annotations: signatures, labels: { [label]: null } },
        spec: { unschedulable: null },
      },
      result: { uncordoned: true, included: true },
    });
  });

  it('leaves what is somebody else’s', () => {
    const result = { uncordoned: false, included: false };
    expect(restore(node({ unschedulable: true, labels: [label] }))).toEqual({ result });
  });

  it('takes only its signatures away when what they signed is gone', () => {
    expect(restore(node({ annotations: { [cordoned]: time, [excluded]: time } }))).toEqual({
      patch: { metadata: { annotations: signatures } },
      result: { uncordoned: false, included: false },
    });
  });

  it('of our label does not uncordon for somebody else', () => {
    const found = node({ unschedulable: true, labels: [label], annotations: { [excluded]: time } });
    expect(restore(found).patch).not.toHaveProperty('spec');
  });
});
