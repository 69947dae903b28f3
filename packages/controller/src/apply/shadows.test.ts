import { type KubeClient, KubeError } from '@brupop/shared/kube/client';
import type { EventSource } from '@brupop/shared/kube/events';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import type { ShadowView } from '../cluster/shadow.ts';
import { wholePlan as plan } from '../whole-plan.ts';
import { anApplyContext } from '../testing/apply-context.ts';
import { ago, aManagedNode, aShadow, aSnapshot, MINUTE, NOW } from '../testing/objects.ts';
import type { SpecChange } from '../plan/spec-change.ts';
import { ConditionQueue } from './conditions.ts';
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
    queue.offer(plan(aSnapshot([{ ...aManagedNode('a'), shadow }], {}, now), now).conditions);
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
