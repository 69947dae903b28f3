/** How much is kept of what the pods of the cluster need. */
import { NeedsOfPods } from './pod-needs.ts';
import { requestsOf } from './requests.ts';

const tolerating = (key: string) => ({ tolerations: [{ key: key.padEnd(300, 'x'), operator: 'Exists' }] });

it('equal needs are kept once', () => {
  const needs = new NeedsOfPods();
  expect(needs.of('b', tolerating('one'))).toBe(needs.of('a', tolerating('one')));
});

it('of the namespace with most, pods count as large beyond the total; those of others do not', () => {
  const needs = new NeedsOfPods(100_000);
  const hostile = Array.from({ length: 38_000 }, (_, i) => needs.of('a-hostile', tolerating(`k${i}`)));
  const ordinary = Array.from({ length: 50 }, (_, i) => needs.of('shop', tolerating(`s${i}`)));
  const kept = hostile.filter(({ isLarge }) => !isLarge).length;
  expect(kept).toBeLessThan(300);
  expect([...needs.omitted]).toEqual([['a-hostile', 38_000 - kept]]);
  expect(ordinary.some(({ isLarge }) => isLarge)).toBe(false);
});

it('the requests of a pod with thousands of containers are added up soon, each with a resource of its own', () => {
  const one = (i: number): object => ({ resources: { requests: { [`example.com/r${i}`]: '1' } } });
  const many = Array.from({ length: 6_000 }, (_, i) => one(i));
  const startedAt = performance.now();
  const requests = requestsOf({ containers: many, initContainers: many });
  expect(Object.keys(requests)).toHaveLength(6_001);
  expect(performance.now() - startedAt).toBeLessThan(1_000);
});
