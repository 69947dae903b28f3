import { type KubeClient, KubeError } from '@brupop/shared/kube/client';
import type { EventSource } from '@brupop/shared/kube/events';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import type { ShadowView } from '../cluster/shadow.ts';
import { wholePlan as plan } from '../whole-plan.ts';
import { anApplyContext } from '../testing/apply-context.ts';
import { ago, aManagedNode, aShadow, aSnapshot, MINUTE, NEW, NOW, OLD, underWay } from '../testing/objects.ts';
import type { SpecChange } from '../plan/specs/spec-change.ts';
import { ConditionQueue } from './conditions.ts';
import { inWriteOrder } from '../plan/plan.ts';
import { writeSpecs } from './shadows.ts';

/** A controller whose writes succeed; `reconcile` returns the Events of one plan that is applied. */
function setUp() {
  const clock = new FakeClock(NOW);
  const recorded: EventSource[] = [];
  const context = anApplyContext({
    clock,
    client: { apply: async () => await Promise.resolve({}) },
    record: (event) => recorded.push(event),
  });
  const { assumeCache } = context;
  const queue = new ConditionQueue(context, () => undefined);
  const spec = { state_transition_timestamp: null };
  const shadowWith = (status: object | null) => aShadow({ node: 'a', spec, status, creationTimestamp: ago(0) });
  let written: Partial<ShadowView> = {};
  const reconcile = async (status: object | null = null): Promise<string[]> => {
    const now = clock.now();
    const shadow = { ...shadowWith(status), ...written };
    queue.offer(
      plan(aSnapshot([{ ...aManagedNode('a'), shadow }], {}, now), now).conditions,
      () => true,
      () => false,
    );
    await queue.idle();
    const { progressing, health, group } = assumeCache.view(shadow, now);
    written = { progressing, health, group };
    return recorded.splice(0).map(({ reason, message }) => `${reason} ${message.split(':', 1).join('')}`);
  };
  return { clock, reconcile, context };
}

test('an agent that does not connect in time is an Event once, and its end another one', async () => {
  const { clock, reconcile } = setUp();
  expect(await reconcile()).toEqual([]);
  await clock.advance(4 * MINUTE);
  expect(await reconcile()).toEqual([]);
  await clock.advance(2 * MINUTE);
  expect(await reconcile()).toEqual(['Waiting AgentNotConnected']);
  await clock.advance(10 * MINUTE);
  expect(await reconcile()).toEqual([]);
  expect(await reconcile({})).toEqual([expect.stringContaining('No longer AgentNotConnected. ')]);
});

test('a conflict shows a start whose response was lost, although the watch does not', async () => {
  const { context } = setUp();
  const { specs } = plan(aSnapshot([aManagedNode('a')]), NOW);
  const [{ shadow, spec }] = specs as [SpecChange];
  const raw = {
    metadata: { ...shadow.metadata, generation: (shadow.metadata.generation ?? 0) + 1 },
    spec,
    status: shadow.status,
  };
  const client = {
    mergePatch: async () => await Promise.reject(new KubeError(409, 'Conflict', 'the object has been modified')),
    request: async () => await Promise.resolve({ metadata: { resourceVersion: '2' }, items: [raw] }),
  };
  await writeSpecs({ ...context, client: client as unknown as KubeClient }, specs);
  expect(context.assumeCache.view(shadow, NOW).spec.state).toBe('StagedAndPerformedUpdate');
});

test.each([
  ['counts', 'Updating', 1],
  ['that its condition has counted does not count again', 'DeadlineExceeded', 0],
])('a deadline with which a node goes back to its previous version %s', async (_, reason, count) => {
  const { context } = setUp();
  const since = 30 * 60 * MINUTE;
  const shadow = {
    spec: underWay('MonitoringUpdate', since),
    record: { startedAt: ago(since), from: OLD },
    status: { current_version: NEW },
    progressing: { type: 'Progressing', status: 'True', reason, message: '', lastTransitionTime: ago(0) },
  } as const;
  const node = aManagedNode('a', { conditions: ['Broken'] }, shadow);
  const { specs } = plan(
    aSnapshot([node], { rollout: { rollback: 'Automatic' }, health: { conditions: ['Broken'] } }),
    NOW,
  );
  expect(specs.map(({ outcome }) => outcome)).toEqual(['Reverting']);
  const mergePatch = async (): Promise<unknown> => await Promise.resolve({ ...specs[0]?.shadow, spec: specs[0]?.spec });
  await writeSpecs({ ...context, client: { mergePatch } as unknown as KubeClient }, specs);
  const { values } = await context.metrics.deadlineExceeded.get();
  expect(values.map(({ labels, value }) => [labels.state, value])).toEqual([
    ['StagedAndPerformedUpdate', 0],
    ['RebootedIntoUpdate', 0],
    ['MonitoringUpdate', count],
  ]);
});

/** One change of each kind in turn, for as many nodes. */
function changesOf(count: number): SpecChange[] {
  const outcomes = ['Configured', 'Started', 'Advanced'] as const;
  const changes = Array.from({ length: count }, (_, i) =>
    plan(aSnapshot([aManagedNode(`n${i}`)]), NOW).specs.map((change) => ({
      ...change,
      shadow: { ...change.shadow, metadata: { ...change.shadow.metadata, uid: String(i) } },
      outcome: outcomes[i % 3] ?? 'Advanced',
    })),
  );
  return inWriteOrder(changes.flat(), []);
}

/** Writes specs that take `msOf` each. Returns the result, and what was sent when. */
async function writeSlowly(changes: readonly SpecChange[], msOf: (uid: string) => number) {
  const { clock, context } = setUp();
  const startedAt = clock.monotonic();
  const sent: { readonly outcome: string; readonly ms: number }[] = [];
  const mergePatch = async (_: string, { metadata: { uid } }: { metadata: { uid: string } }): Promise<unknown> => {
    const change = changes.find(({ shadow }) => shadow.metadata.uid === uid);
    sent.push({ outcome: change?.outcome ?? '', ms: clock.monotonic() - startedAt });
    await clock.sleep(msOf(uid));
    return { ...change?.shadow, spec: change?.spec };
  };
  const writing = writeSpecs({ ...context, client: { mergePatch } as unknown as KubeClient }, changes);
  for (let i = 0; i < 40; i += 1) await clock.advance(500);
  return { ...(await writing), sent };
}

test('specs are sent for two seconds: next steps, then starts, then settings; the next plan has what is left', async () => {
  const { unwritten, hasMore, sent } = await writeSlowly(changesOf(3 * 30), () => 1_200);
  expect([unwritten.size, hasMore]).toEqual([3 * 10, true]);
  expect(sent.map(({ outcome }) => outcome)).toEqual(
    ['Advanced', 'Started', 'Configured'].flatMap((outcome) => Array.from({ length: 20 }, () => outcome)),
  );
});

test('a spec that is not answered delays no other, and no start follows an old plan', async () => {
  const changes = changesOf(9);
  const first = changes[0]?.shadow.metadata.uid;
  const one = await writeSlowly(changes, (uid) => (uid === first ? 15_000 : 100));
  expect(Math.max(...one.sent.map(({ ms }) => ms))).toBeLessThan(1_000);
  const all = await writeSlowly(changesOf(3 * 20), () => 15_000);
  expect(all.sent.map(({ outcome }) => outcome)).toEqual(Array.from({ length: 10 }, () => 'Advanced'));
  expect(all.hasMore).toBe(true);
});
