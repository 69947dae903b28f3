import type { KubeClient } from '@brupop/shared/kube/client';
import { KubeError } from '@brupop/shared/kube/error';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { MemberPodsLookup, membersKey } from './member-pods.ts';

const SET = {
  namespace: 'apps',
  podSelector: { matchLabels: { app: 'db' }, matchExpressions: [] },
  nodeSelector: undefined,
  staticOn: [],
};
const KEY = membersKey(SET);

test('members of a quorum that cannot be listed are logged once, and once more as a warning when that lasts', async () => {
  const { log, lines } = recordingLogger();
  const clock = new FakeClock();
  const failure: { now: KubeError | undefined } = { now: new KubeError(403, 'Forbidden', 'pods is forbidden') };
  const request = async (): Promise<unknown> => {
    if (failure.now !== undefined) throw failure.now;
    return { items: [], metadata: { resourceVersion: '1' } };
  };
  const lookup = new MemberPodsLookup({ client: { request } as unknown as KubeClient, clock, log });
  const { signal } = new AbortController();
  const list = async (): Promise<void> => {
    const answered = new Promise<void>((resolve) => lookup.answers.subscribe(resolve));
    lookup.look({ list: [SET], keep: new Set([KEY]) }, signal);
    await answered;
    await clock.advance(60_000);
  };
  const levels = (): unknown[] =>
    lines
      .splice(0)
      .map((line) => (JSON.parse(line) as { readonly level: string }).level)
      .filter((level) => level !== 'debug');
  for (let minutes = 0; minutes < 60; minutes += 1) await list();
  expect(levels()).toEqual(['info', 'warn']);
  expect(lookup.view.get(KEY)?.problem).toBe('pods is forbidden');
  failure.now = undefined;
  await list();
  failure.now = new KubeError(500, 'InternalError', 'no response');
  await list();
  expect(levels()).toEqual(['info']);
});
