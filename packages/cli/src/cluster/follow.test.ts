import { KubeError } from '@brupop/shared/kube/error';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { Followed, staleText } from './follow.ts';

it('a collection that may be listed and not watched is listed with a backoff', async () => {
  const clock = new FakeClock();
  const end = new AbortController();
  const lists: number[] = [];
  const client = {
    request: async <T>() => {
      lists.push(clock.monotonic());
      return await Promise.resolve({ metadata: { resourceVersion: '1' }, items: [] } as T);
    },
    stream: async () => await Promise.reject(new KubeError(403, 'Forbidden', 'cannot watch')),
  };
  const slim = (raw: unknown): KubernetesObject => raw as KubernetesObject;
  const followed = new Followed({ client, clock, path: '/a', slim, onChange: () => undefined });
  const running = followed.run(end.signal);
  await clock.advance(60_000);
  expect(lists).toEqual([0, 1_000, 3_000, 7_000, 15_000, 31_000]);
  expect(followed.stale && staleText(followed.stale)).toBe('cannot watch');
  end.abort();
  await running;
});
