import { MANAGED_LABEL } from '@brupop/shared/api/names';
import { needsOf, offers } from './needs.ts';

const withTerms = (...terms: readonly object[]) => ({
  spec: {
    affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } } },
  },
});
const term = (key: string, operator: string, ...values: readonly string[]) => ({
  matchExpressions: [{ key, operator, ...(values.length > 0 && { values }) }],
});

describe('a pod needs of its node', () => {
  it.each<readonly [string, unknown, readonly string[]]>([
    ['nothing, if it asks for nothing', {}, []],
    ['the labels of its nodeSelector', { spec: { nodeSelector: { pool: 'gpu' } } }, ['label pool=gpu']],
    [
      'extended resources, and neither cpu, memory nor huge pages',
      { spec: { containers: [{ resources: { limits: { cpu: '1', 'hugepages-2Mi': '1', 'nvidia.com/gpu': '1' } } }] } },
      ['nvidia.com/gpu'],
    ],
    ['a value of a required node affinity', withTerms(term('pool', 'In', 'gpu')), ['label pool=gpu']],
    ['a label, where several values will do', withTerms(term('pool', 'In', 'a', 'b')), ['label pool']],
    ['a label that has to exist', withTerms(term('pool', 'Exists')), ['label pool']],
    ['no label that must not exist', withTerms(term('pool', 'DoesNotExist')), []],
    ['nothing certain, where one of two terms will do', withTerms(term('a', 'Exists'), term('b', 'Exists')), []],
    ['not what every kubelet sets', { spec: { nodeSelector: { 'kubernetes.io/os': 'linux' } } }, []],
    [
      'not the label of managed nodes',
      { spec: { nodeSelector: { [MANAGED_LABEL]: '2.0.0', pool: 'gpu' } } },
      ['label pool=gpu'],
    ],
    ['no text that is too long', { spec: { nodeSelector: { ['a'.repeat(150)]: 'b' } } }, []],
    [
      'five things at most',
      { spec: { nodeSelector: { a: '', b: '', c: '', d: '', e: '', f: '' } } },
      ['label a=', 'label b=', 'label c=', 'label d=', 'label e='],
    ],
  ])('%s', (_, pod, needs) => {
    expect(needsOf(pod)).toEqual(needs);
  });
});

describe('a Node', () => {
  const node = { metadata: { labels: { pool: 'gpu', empty: '' } }, devices: ['nvidia.com/gpu'] };

  it.each(['label pool=gpu', 'label pool', 'label empty=', 'nvidia.com/gpu'])('offers %s', (need) => {
    expect(offers(node, need)).toBe(true);
  });

  it.each(['label pool=web', 'label other', 'label toString', 'label empty=x', 'amd.com/gpu'])(
    'does not offer %s',
    (need) => {
      expect(offers(node, need)).toBe(false);
    },
  );
});
