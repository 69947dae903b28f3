/** How a drain asks for the volumes of pods, which anyone who may create pods can bind to the node. */
import type { DrainPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { aPod } from '@brupop/shared/testing/pods';
import { Volumes } from './volumes.ts';

class Claims implements Pick<KubeClient, 'find'> {
  readonly asked: string[] = [];
  most = 0;
  #underWay = 0;

  async find<T>(path: string): Promise<T> {
    this.asked.push(path);
    this.#underWay += 1;
    this.most = Math.max(this.most, this.#underWay);
    await new Promise(setImmediate);
    this.#underWay -= 1;
    return { spec: { volumeName: `of-${path.split('/').at(-1) ?? ''}` } } as T;
  }
}

const { signal } = new AbortController();
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `c${i}`);

function podsWith(count: number, claims: readonly string[]): DrainPod[] {
  return Array.from({ length: count }, (_, i) => aPod(`p${i}`, { claims }));
}

it('asks for each claim once, and for few at a time', async () => {
  const claims = new Claims();
  const volumes = new Volumes(claims as unknown as KubeClient);
  const pods = podsWith(50, names(100));
  const [first] = pods;
  await Promise.all([volumes.learnClaims(pods, signal), volumes.learnClaims(pods, signal)]);
  expect(claims.asked).toHaveLength(100);
  expect(claims.most).toBeLessThanOrEqual(20);
  expect(first && volumes.known(first)).toContain('of-c99');
});

it('asks for 1,000 claims at most, of which nobody has that many', async () => {
  const claims = new Claims();
  const volumes = new Volumes(claims as unknown as KubeClient);
  const pods = Array.from({ length: 10 }, (_, i) =>
    aPod(`q${i}`, { claims: names(200).map((name) => `${i}-${name}`) }),
  );
  await volumes.learnClaims(pods, signal);
  expect(claims.asked).toHaveLength(1000);
});

it('asks for no claim and no volume that cannot exist: such a request would be refused, and the drain with it', async () => {
  const claims = new Claims();
  const volumes = new Volumes(claims as unknown as KubeClient);
  const pods = podsWith(1, ['a%b', '..', '.', '/x', 'x/y', '']);
  await volumes.learnClaims(pods, signal);
  expect(claims.asked).toEqual([]);
  claims.find = async <T>(): Promise<T> => ({ spec: { volumeName: 'a%b' } }) as T;
  const [pod = aPod('p')] = podsWith(1, ['wrong']);
  await volumes.learnClaims([pod], signal);
  expect(volumes.known(pod)).toEqual([]);
});

const required = (key: string, values: readonly string[], operator = 'In') => ({ key, operator, values });
const HOSTNAME = 'kubernetes.io/hostname';
const affinities: Record<string, [terms: readonly object[] | undefined, isLocal: boolean]> = {
  'no node affinity': [undefined, false],
  'one without terms': [[], false],
  'the hostname, as a local volume': [[{ matchExpressions: [required(HOSTNAME, ['host-a'])] }], true],
  'a label of a driver that has the name': [[{ matchExpressions: [required('topology.io/node', ['node-a'])] }], true],
  'the name as a field': [[{ matchFields: [required('metadata.name', ['node-a'])] }], true],
  'the hostname and a zone': [[{ matchExpressions: [required('zone', ['z']), required(HOSTNAME, ['host-a'])] }], true],
  'a zone': [[{ matchExpressions: [required('zone', ['z'])] }], false],
  'two hostnames': [[{ matchExpressions: [required(HOSTNAME, ['host-a', 'host-b'])] }], false],
  'any other hostname': [[{ matchExpressions: [required(HOSTNAME, ['host-a'], 'NotIn')] }], false],
  'the hostname or a zone': [
    [{ matchExpressions: [required(HOSTNAME, ['host-a'])] }, { matchExpressions: [required('zone', ['z'])] }],
    false,
  ],
};

it.each(Object.entries(affinities))(
  'knows whether a volume is on one node only, by %s',
  async (_, [terms, isLocal]) => {
    const nodeAffinity = terms && { required: { nodeSelectorTerms: terms } };
    const client = { find: () => Promise.resolve({ spec: { ...(nodeAffinity && { nodeAffinity }) } }) };
    const volumes = new Volumes(client as unknown as KubeClient);
    expect(volumes.isOnlyOn('pv', ['node-a', 'host-a'])).toBe(false);
    await volumes.learn(['pv'], signal);
    expect(volumes.isOnlyOn('pv', ['node-a', 'host-a'])).toBe(isLocal);
    expect(volumes.isOnlyOn('pv', ['node-b', 'host-b'])).toBe(false);
  },
);
