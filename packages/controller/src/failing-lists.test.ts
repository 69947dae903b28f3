/** What starts while the pods of some nodes cannot be listed: plans, and the lists that they ask for, with a clock. */
import { jest } from '@jest/globals';
import type { KubeClient, KubeRequest } from '@brupop/shared/kube/client';
import { KubeError } from '@brupop/shared/kube/error';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { PodLookups } from './cluster/pods.ts';
import { aManagedNode, aSnapshot, NOW } from './testing/objects.ts';
import { wholePlan } from './whole-plan.ts';

const TURN_MS = 1_000;
const MINUTE = 60_000;
/** Each plans for some hundred turns. */
jest.setTimeout(30_000);

const NAMES = Array.from({ length: 30 }, (_, i) => `n${String(i).padStart(2, '0')}`);

/** Plans until a node starts. `answer` is the list of a node. */
async function untilStart(limitMs: number, answer: (node: string, clock: FakeClock) => Promise<void>) {
  const clock = new FakeClock(NOW);
  let lists = 0;
  const request = async ({ query = {} }: KubeRequest): Promise<unknown> => {
    lists += 1;
    await answer(String(query['fieldSelector']).replace('spec.nodeName=', ''), clock);
    return { items: [], metadata: { resourceVersion: '1' } };
  };
  const lookups = new PodLookups({
    client: { request } as unknown as KubeClient,
    clock,
    logOf: (() => console) as never,
  });
  const nodes = NAMES.map((name) => aManagedNode(name));
  const { signal } = new AbortController();
  for (let ms = 0; ms < limitMs; ms += TURN_MS) {
    const made = wholePlan({ ...aSnapshot(nodes, {}), pods: lookups.known }, clock.now());
    const started = made.specs.map(({ node }) => node.metadata.name);
    if (started.length > 0) return { started, lists };
    lookups.retain(made.needsPodsOf, made.observes);
    lookups.look(made.lookUps, signal);
    await clock.advance(TURN_MS);
  }
  return { started: [], lists };
}

beforeEach(() => {
  for (const level of ['debug', 'info', 'warn'] as const)
    jest.spyOn(console, level).mockImplementation(() => undefined);
});

it.each([5, 11, 15])('with %i nodes whose lists hang, another one starts', async (count) => {
  const hanging = NAMES.slice(0, count);
  const { started } = await untilStart(10 * MINUTE, async (node, clock) => {
    if (!hanging.includes(node)) return;
    await clock.sleep(10_000);
    throw new Error('the list did not end');
  });
  expect(started).toHaveLength(1);
  expect(hanging).not.toContain(started[0]);
});

it('while no list works, few are asked for', async () => {
  const { started, lists } = await untilStart(3 * MINUTE, async () => {
    throw new KubeError(403, 'Forbidden', 'pods is forbidden');
  });
  expect(started).toEqual([]);
  expect(lists).toBeLessThan(100);
});
