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
