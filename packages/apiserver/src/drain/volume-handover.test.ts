import type { Handover } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aPod } from '@brupop/shared/testing/pods';
import { newHandover, handoverBlock, type HandoverView, nextHandover, unreplacedIn } from './volume-handover.ts';

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const LIMITS = { volumeDetachTimeoutMs: 120_000, replacementTimeoutMs: 60_000 };
const pod = aPod('db-0', { claims: ['data'], stateful: true });
const started = newHandover(pod, ['pv-1'], { isLocal: false, now: NOW });
const view = (changes: Partial<HandoverView> = {}): HandoverView => ({
  pods: [],
  isHeld: () => false,
  replacement: undefined,
  now: NOW,
  ...changes,
});
const at = (phase: Handover['phase'], agoMs = 0, changes: Partial<Handover> = {}): Handover => ({
  ...started,
  phase,
  since: rfc3339(NOW - agoMs),
  ...changes,
});
const replacement = (changes: Parameters<typeof aPod>[1] = {}): ReturnType<typeof aPod> => {
  const { metadata, ...rest } = aPod('db-0', { node: 'node-b', ...changes });
  return { metadata: { ...metadata, uid: 'next' }, ...rest };
};

it('names the pod, its volumes and whether it is replaced', () => {
  const since = '2026-01-02T03:04:05Z';
  expect(started).toEqual({
    pod: 'apps/db-0',
    podUID: 'db-0',
    phase: 'Evicting',
    since,
    volumes: ['pv-1'],
    replaced: true,
  });
});

it('waits for no replacement of a pod that was not Ready, but of one that another actor has deleted', () => {
  const unready = { ...pod, ready: false };
  const deleted = { ...unready, metadata: { ...pod.metadata, deletionTimestamp: rfc3339(NOW) } };
  expect([unready, deleted].map((one) => newHandover(one, [], { isLocal: false, now: NOW }).replaced)).toEqual([
    false,
    true,
  ]);
});

it('waits for no replacement of a pod with a volume that no other node has', () => {
  expect(newHandover(pod, ['pv-1'], { isLocal: true, now: NOW })).toEqual({ ...started, replaced: false });
});

it('waits for no replacement in a namespace in which one was not ready in time', () => {
  const replacedWith = (unreplaced: string[]) =>
    newHandover(pod, [], { unreplaced, isLocal: false, now: NOW }).replaced;
  expect([replacedWith(['apps']), replacedWith(['other'])]).toEqual([false, true]);
  expect(unreplacedIn(at('Replacing', 60_000), undefined, view())).toBe('apps');
  expect(unreplacedIn(at('Replacing'), undefined, view({ replacement: replacement() }))).toBeUndefined();
  expect(unreplacedIn(at('Detaching'), at('Replacing'), view())).toBeUndefined();
});

const attached = { isHeld: (volume: string) => volume === 'pv-1' };
const cases: Record<string, [Handover, Partial<HandoverView>, Handover['phase'] | 'over']> = {
  'a pod that is still there is waited for, however long': [at('Evicting', 1e9), { pods: [pod] }, 'Evicting'],
  'then its volumes are': [at('Evicting', 5_000), attached, 'Detaching'],
  'volumes that are gone at once are not': [at('Evicting'), {}, 'Replacing'],
  'volumes are waited for': [at('Detaching', 119_000), attached, 'Detaching'],
  'until the timeout': [at('Detaching', 120_000), attached, 'Replacing'],
  'a pod without replacement ends with its volumes': [at('Detaching', 0, { replaced: false }), {}, 'over'],
  'its replacement is waited for': [at('Replacing'), {}, 'Replacing'],
  'also one that is not ready': [at('Replacing'), { replacement: replacement({ ready: false }) }, 'Replacing'],
  'also one on the very node': [
    at('Replacing'),
    { replacement: replacement({ node: 'node-a' }), pods: [replacement()] },
    'Replacing',
  ],
  'a ready one ends it': [at('Replacing'), { replacement: replacement() }, 'over'],
  'the old pod is not its own replacement': [at('Replacing'), { replacement: pod }, 'Replacing'],
  'a replacement is waited for longer': [at('Replacing', 59_000), {}, 'Replacing'],
  'until its timeout': [at('Replacing', 60_000), {}, 'over'],
};

it.each(Object.entries(cases))('%s', (_what, [handover, changes, expected]) => {
  expect(nextHandover(handover, view(changes), LIMITS)?.phase ?? 'over').toBe(expected);
});

it('does not wait where the configuration says so', () => {
  const none = { volumeDetachTimeoutMs: 0, replacementTimeoutMs: 0 };
  expect(nextHandover(at('Evicting', 5_000), view(attached), none)).toBeUndefined();
});

it('counts each timeout from the start of the phase', () => {
  expect(nextHandover(at('Evicting', 600_000), view(attached), LIMITS)?.since).toBe(rfc3339(NOW));
});

it('says what it waits for beyond the pods that are still there', () => {
  expect(handoverBlock(at('Evicting'), view())).toEqual([]);
  expect(handoverBlock(at('Detaching'), view(attached))).toMatchObject([{ pod: 'apps/db-0', reason: 'VolumeDetach' }]);
  expect(handoverBlock(at('Detaching'), view(attached))[0]?.message).toContain('pv-1');
  expect(handoverBlock(at('Replacing'), view())).toMatchObject([{ pod: 'apps/db-0', reason: 'Replacement' }]);
});
