import { amountOf, requestsOf } from './requests.ts';

describe('a quantity', () => {
  it.each([
    ['250m', 0.25],
    ['2', 2],
    ['1.5Gi', 1.5 * 2 ** 30],
    ['500Mi', 500 * 2 ** 20],
    ['1e3', 1_000],
    ['12E6', 12e6],
    ['1E', 1e18],
    ['100k', 100_000],
    ['-1', -1],
    [4, 4],
  ])('%s is read', (text, amount) => {
    expect(amountOf(text)).toBeCloseTo(amount, 6);
  });

  it.each(['', 'much', '1.2.3', '5Xi', '1e999', 'NaN', '٣'])('%j is not, and counts nothing', (text) => {
    expect(amountOf(text)).toBe(0);
  });
});

const container = (cpu: string, restartPolicy?: string): object => ({
  resources: { requests: { cpu, memory: '1Ki' } },
  ...(restartPolicy !== undefined && { restartPolicy }),
});

describe('a pod requests', () => {
  it('what its containers request together, and itself', () => {
    expect(requestsOf({ containers: [container('1'), container('500m')] })).toEqual({
      cpu: 1.5,
      memory: 2_048,
      pods: 1,
    });
  });

  it('nothing but itself without requests', () => {
    expect(requestsOf({ containers: [{}] })).toEqual({ pods: 1 });
  });

  it('what its largest init container requests, if that is more', () => {
    const pod = { containers: [container('1')], initContainers: [container('3'), container('2')] };
    expect(requestsOf(pod)).toMatchObject({ cpu: 3, memory: 1_024 });
  });

  it('its sidecars beside its containers, and beside the init containers after them', () => {
    const pod = { containers: [container('1')], initContainers: [container('2', 'Always'), container('4')] };
    expect(requestsOf(pod)).toMatchObject({ cpu: 6, memory: 2_048 });
  });

  it('what it requests as a whole, instead, and its overhead', () => {
    const pod = { containers: [container('1')], resources: { requests: { cpu: '4' } }, overhead: { cpu: '250m' } };
    expect(requestsOf(pod)).toMatchObject({ cpu: 4.25, memory: 1_024 });
  });
});
