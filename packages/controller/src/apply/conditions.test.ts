/** Which conditions are written while plans follow each other. */
import { KubeError } from '@brupop/shared/kube/client';
import type { EventSource } from '@brupop/shared/kube/events';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { healthCondition, type ShadowView } from '../cluster/shadow.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import type { NodeCondition } from '../report/node-conditions.ts';
import { anApplyContext } from '../testing/apply-context.ts';
import { aManagedNode, aSnapshot, NOW } from '../testing/objects.ts';
import { wholePlan } from '../whole-plan.ts';
import { ConditionQueue, conditionOf, healthConditions } from './conditions.ts';

interface Body {
  readonly metadata: { readonly name: string };
  readonly status: { readonly conditions: readonly { readonly message: string }[] };
}

/** A queue whose writes end when the test lets them. */
function setUp() {
  const clock = new FakeClock(NOW);
  const stop = new AbortController();
  /** What was sent, as `node message`. */
  const sent: string[] = [];
  const waiting: { end: () => void; fail: (error: Error) => void }[] = [];
  const apply = async (_: string, { metadata, status }: Body): Promise<unknown> => {
    sent.push(`${metadata.name} ${status.conditions[0]?.message}`);
    return await new Promise((end, fail) => waiting.push({ end: () => end({}), fail }));
  };
  const seen = { failures: 0 };
  const events: string[] = [];
  const record = ({ reason, message }: EventSource): unknown => events.push(`${reason} ${message}`);
  const context = anApplyContext({ clock, client: { apply }, signal: stop.signal, record });
  const queue = new ConditionQueue(context, () => (seen.failures += 1));
  const next = async (how: (one: (typeof waiting)[number]) => void): Promise<void> => {
    const one = waiting.shift();
    if (one === undefined) throw new Error('expected a write in flight, found none');
    how(one);
    await clock.advance(0);
  };
  const end = async (): Promise<void> => await next((one) => one.end());
  const fail = async (error: Error): Promise<void> => await next((one) => one.fail(error));
  return {
    queue,
    sent,
    events,
    seen,
    stop,
    end,
    fail,
    clock,
    assumeCache: context.assumeCache,
    inFlight: () => waiting.length,
  };
}

/** The conditions of nodes with these names, all with this message. */
function conditions(message: string, ...names: string[]): NodeCondition[] {
  const nodes = names.map((name): ManagedNode => aManagedNode(name));
  return wholePlan(aSnapshot(nodes, { paused: true }), NOW)
    .conditions.flat()
    .map((one) => ({
      ...one,
      progressing: { ...one.progressing, message },
    }));
}

/** What a shadow has whose condition was written. */
function shownOf(change: NodeCondition): Pick<ShadowView, 'progressing' | 'health' | 'group'> {
  const health = healthConditions(change, NOW).map(healthCondition);
  return { progressing: conditionOf(change, NOW), health, group: change.group };
}

/** Of all nodes. */
const isConfirmed = (): boolean => false;

it('of a node whose condition changes while it is written, only the newest one follows', async () => {
  const { queue, sent, end } = setUp();
  queue.offer([conditions('first', 'a')], () => true, isConfirmed);
  queue.offer([conditions('second', 'a')], () => true, isConfirmed);
  queue.offer([conditions('third', 'a')], () => true, isConfirmed);
  expect(sent).toEqual(['brs-a first']);
  await end();
  await end();
  await queue.idle();
  expect(sent).toEqual(['brs-a first', 'brs-a third']);
});

it('a wait whose condition is replaced while it is written ends with an Event', async () => {
  const { queue, events, end } = setUp();
  for (const ready of [false, true]) {
    const { conditions: planned } = wholePlan(aSnapshot([aManagedNode('a', { ready })], { paused: ready }), NOW);
    queue.offer(planned, () => true, isConfirmed);
  }
  await end();
  await end();
  await queue.idle();
  expect(events).toEqual([
    'Waiting NodeNotReady: The Node is not Ready',
    expect.stringMatching('^WaitingEnded No longer NodeNotReady. Paused: '),
  ]);
});

it('what the watch has not shown in time is written again, although nothing in the plan has changed', async () => {
  const { queue, sent, end, clock, assumeCache } = setUp();
  const planned = [conditions('first', 'a')];
  queue.offer(planned, () => true, isConfirmed);
  await end();
  await clock.advance(31_000);
  assumeCache.changed(clock.now());
  queue.offer(planned, () => true, isConfirmed);
  await end();
  await queue.idle();
  expect(sent).toEqual(['brs-a first', 'brs-a first']);
});

it('what the latest write has shown of a node is replaced by what the plan before it wants', async () => {
  const { queue, sent, end } = setUp();
  const shown = conditions('before', 'a').map((one) => ({ ...one, shadow: { ...one.shadow, ...shownOf(one) } }));
  queue.offer([conditions('other', 'a')], () => true, isConfirmed);
  await end();
  queue.offer([shown], () => true, isConfirmed);
  await end();
  await queue.idle();
  expect(sent).toEqual(['brs-a other', 'brs-a before']);
});

it('what a plan leaves as it is is not written', async () => {
  const { queue, sent, end } = setUp();
  queue.offer([conditions('first', 'a', 'b')], ({ node }) => node.metadata.name === 'b', isConfirmed);
  await end();
  await queue.idle();
  expect(sent).toEqual(['brs-b first']);
});

it('a plan that is older than the latest write does not cause it again', async () => {
  const { queue, sent, end } = setUp();
  const planned = conditions('first', 'a');
  queue.offer([planned], () => true, isConfirmed);
  queue.offer([planned], () => true, isConfirmed);
  await end();
  queue.offer([planned], () => true, isConfirmed);
  await queue.idle();
  expect(sent).toEqual(['brs-a first']);
});

it('what a later plan does not want any more is not written', async () => {
  const { queue, sent, end } = setUp();
  queue.offer([conditions('first', 'a', 'b', 'c')], () => true, isConfirmed);
  queue.offer([conditions('first', 'a', 'b')], () => true, isConfirmed);
  await end();
  await end();
  await queue.idle();
  expect(sent).toEqual(['brs-a first', 'brs-b first']);
});

it('what is left to be written of a node is, while no plan has a condition for it until its agent has confirmed the spec', async () => {
  const { queue, sent, end } = setUp();
  queue.offer([conditions('first', 'a', 'b', 'c', 'd')], () => true, isConfirmed);
  for (const plan of [[], [conditions('second', 'c')]])
    queue.offer(
      plan,
      () => true,
      ({ node }) => node.metadata.name !== 'd',
    );
  await end();
  await end();
  await end();
  await queue.idle();
  expect(sent).toEqual(['brs-a first', 'brs-b first', 'brs-c second']);
});

it('of such a node, what could not be written is tried again, and so is what replaced it meanwhile', async () => {
  const { queue, sent, end, fail, clock } = setUp();
  const offer = (...planned: NodeCondition[]): void =>
    queue.offer(
      [planned],
      () => true,
      () => true,
    );
  offer(...conditions('first', 'a', 'b'));
  offer();
  await fail(new KubeError(500, 'InternalError', 'failed calling webhook'));
  await fail(new KubeError(500, 'InternalError', 'failed calling webhook'));
  offer(...conditions('second', 'b'));
  offer();
  expect(sent).toEqual(['brs-a first', 'brs-b first']);
  await clock.advance(2_000);
  offer();
  await end();
  await end();
  offer();
  await queue.idle();
  expect(sent.slice(2)).toEqual(['brs-a first', 'brs-b second']);
});

it('two are in flight at most, and the longest wanted goes first', async () => {
  const { queue, sent, end, inFlight } = setUp();
  queue.offer([conditions('first', 'a', 'b', 'd')], () => true, isConfirmed);
  queue.offer([conditions('second', 'c', 'd')], () => true, isConfirmed);
  expect(inFlight()).toBe(2);
  await end();
  await end();
  await end();
  await end();
  await queue.idle();
  expect(sent).toEqual(['brs-a first', 'brs-b first', 'brs-d second', 'brs-c second']);
});

it('a write that fails wakes the controller, which does not send it again at once', async () => {
  const { queue, sent, seen, fail } = setUp();
  queue.offer([conditions('first', 'a')], () => true, isConfirmed);
  await fail(new KubeError(500, 'InternalError', 'failed calling webhook'));
  queue.offer([conditions('first', 'a')], () => true, isConfirmed);
  await queue.idle();
  expect([sent, seen.failures]).toEqual([['brs-a first'], 1]);
});

it('nothing is sent after the end of the leadership', async () => {
  const { queue, sent, stop, fail } = setUp();
  queue.offer([conditions('first', 'a', 'b', 'c')], () => true, isConfirmed);
  stop.abort(new Error('the Lease is held by another'));
  await fail(new Error('aborted'));
  await fail(new Error('aborted'));
  await queue.idle();
  expect(sent).toEqual(['brs-a first', 'brs-b first']);
});
