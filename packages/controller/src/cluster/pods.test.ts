/** How much the controller keeps of the pods on nodes, to which anyone who may create pods can bind some. */
import type { KubeClient, KubeRequest } from '@brupop/shared/kube/client';
import { KubeError } from '@brupop/shared/kube/error';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { aNode, NOW } from '../testing/objects.ts';
import type { NodeView } from './node.ts';
import { LISTS_AT_ONCE, PodLookups } from './pods.ts';

const CLAIMS = Array.from({ length: 200 }, (_, i) => ({
  name: `v${i}`,
  persistentVolumeClaim: { claimName: `${i}`.padEnd(253, 'c') },
}));
const labels = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`${i}`.padEnd(63, 'k'), 'v'.repeat(63)]));

interface Bound {
  readonly count: number;
  readonly namespace: string;
  readonly phase?: string;
}

function podsOf(node: string, all: readonly Bound[]): object[] {
  return all.flatMap(({ count, namespace, phase = 'Running' }) =>
    Array.from({ length: count }, (_, i) => ({
      metadata: { name: `p${i}`, namespace, uid: `${namespace}-${i}`, resourceVersion: '1', labels },
      spec: { nodeName: node, volumes: CLAIMS },
      status: { phase },
    })),
  );
}

/** With these pods on each node. */
function lookupsOf(byNode: Readonly<Record<string, readonly Bound[]>>, maxChars?: number): PodLookups {
  const request = async ({ query = {} }: KubeRequest): Promise<unknown> => {
    const node = String(query['fieldSelector']).replace('spec.nodeName=', '');
    return { items: podsOf(node, byNode[node] ?? []), metadata: { resourceVersion: '1' } };
  };
  const client = { request } as unknown as KubeClient;
  const { log } = recordingLogger();
  return new PodLookups({
    client,
    clock: new FakeClock(),
    logOf: () => log,
    ...(maxChars !== undefined && { maxChars }),
  });
}

async function listed(lookups: PodLookups, node: NodeView): Promise<void> {
  const answered = new Promise<void>((resolve) => lookups.answers.subscribe(resolve));
  lookups.look([node], new AbortController().signal);
  await answered;
}

async function knownOf(lookups: PodLookups, ...names: string[]) {
  for (const name of names) await listed(lookups, aNode({ name }));
  return names.map((name) => lookups.known.get(name));
}

it('keeps no claims of pods, and no labels of those that have finished', async () => {
  const bound = [
    { count: 10, namespace: 'apps' },
    { count: 1_000, namespace: 'batch', phase: 'Failed' },
  ];
  const [known] = await knownOf(lookupsOf({ a: bound }), 'a');
  expect(known?.pods).toHaveLength(1_010);
  expect(known?.pods.every(({ claims }) => claims.length === 0)).toBe(true);
  expect(JSON.stringify(known?.pods).length).toBeLessThan(1_000_000);
});

it('fails for a node whose pods are too large, and names the namespace that has most', async () => {
  const bound = [
    { count: 30, namespace: 'apps' },
    { count: 600, namespace: 'hostile' },
  ];
  const [known] = await knownOf(lookupsOf({ a: bound }), 'a');
  expect(known?.pods).toEqual([]);
  expect(known?.problem).toContain('most of them in the namespace "hostile"');
});

it('fails for the nodes with most when all together are too large, and for no other', async () => {
  const many = [{ count: 100, namespace: 'hostile' }];
  const lookups = lookupsOf({ a: many, b: [{ count: 5, namespace: 'apps' }], c: many, d: many }, 1_500_000);
  const known = await knownOf(lookups, 'a', 'b', 'c', 'd');
  expect(known.map((one) => one?.problem === undefined)).toEqual([true, true, false, false]);
  expect(known[3]?.problem).toContain('on this node most in the namespace "hostile"');
});

it('says that the pods are too large only as long as they are the cause', async () => {
  const byNode: Record<string, Bound[]> = { a: [{ count: 5_001, namespace: 'apps' }] };
  const lookups = lookupsOf(byNode);
  expect(await knownOf(lookups, 'a')).toMatchObject([{ isTooLarge: true }]);
  Object.defineProperty(byNode, 'a', {
    get: () => {
      throw new Error('no response');
    },
  });
  expect(await knownOf(lookups, 'a')).toMatchObject([{ isTooLarge: false, problem: 'no response' }]);
});

it('says once that the pods of a node cannot be listed, and warns once that this lasts', async () => {
  const { log, lines } = recordingLogger();
  const clock = new FakeClock();
  const request = async (): Promise<unknown> => {
    throw new KubeError(403, 'Forbidden', 'pods is forbidden');
  };
  const lookups = new PodLookups({ client: { request } as unknown as KubeClient, clock, logOf: () => log });
  for (let minute = 0; minute < 60; minute += 1) {
    await listed(lookups, aNode({ name: 'a' }));
    await clock.advance(60_000);
  }
  const levels = lines.map((line) => (JSON.parse(line) as { level: string }).level);
  expect(levels.filter((level) => level !== 'debug')).toEqual(['info', 'warn']);
});

it('lists some nodes at a time, one after the other, and none that a later plan does not ask for', async () => {
  const names = Array.from({ length: 3 * LISTS_AT_ONCE }, (_, i) => `n${i}`);
  const ends = new Map<string, () => void>();
  const asked: string[] = [];
  const request = async ({ query = {} }: KubeRequest): Promise<unknown> => {
    const node = String(query['fieldSelector']).replace('spec.nodeName=', '');
    asked.push(node);
    await new Promise<void>((resolve) => ends.set(node, resolve));
    return { items: [], metadata: { resourceVersion: '1' } };
  };
  const client = { request } as unknown as KubeClient;
  const lookups = new PodLookups({ client, clock: new FakeClock(), logOf: (() => console) as never });
  const end = async (node: string): Promise<void> => {
    const answered = new Promise<void>((resolve) => lookups.answers.subscribe(resolve));
    ends.get(node)?.();
    await answered;
  };
  const { signal } = new AbortController();
  lookups.look(
    names.map((name) => aNode({ name })),
    signal,
  );
  expect(asked).toEqual(names.slice(0, LISTS_AT_ONCE));
  await end('n7');
  expect(asked.slice(LISTS_AT_ONCE)).toEqual([`n${LISTS_AT_ONCE}`]);
  lookups.look([aNode({ name: 'n0' }), aNode({ name: 'late' })], signal);
  await end('n8');
  await end('n9');
  expect(asked.slice(LISTS_AT_ONCE + 1)).toEqual(['late']);
});

it('keeps nothing of what it saw of the pods on earlier Nodes of a name', async () => {
  const changes = ['2027-01-15T06:00:00Z', '2027-01-15T07:00:00Z', '2027-01-15T07:30:00Z'];
  const listAs = async (lookups: PodLookups, uids: readonly string[]): Promise<number | undefined> => {
    const { metadata, ...node } = aNode({ name: 'a' });
    for (const uid of uids) await listed(lookups, { ...node, metadata: { ...metadata, uid } });
    return lookups.known.get('a')?.pods[0]?.readyChanged;
  };
  const lookupsWith = (): PodLookups => {
    const left = [...changes];
    const request = async (): Promise<unknown> => {
      const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime: left.shift() }];
      const pod = {
        metadata: { name: 'p', namespace: 'apps', uid: 'p', resourceVersion: '1' },
        status: { conditions },
      };
      return { items: [pod], metadata: { resourceVersion: '1' } };
    };
    const client = { request } as unknown as KubeClient;
    return new PodLookups({ client, clock: new FakeClock(NOW), logOf: (() => console) as never });
  };
  expect(await listAs(lookupsWith(), ['first', 'first', 'first'])).toBe(NOW);
  expect(await listAs(lookupsWith(), ['first', 'second', 'first'])).toBe(Date.parse(changes[2] ?? ''));
});

it('keeps pods of each namespace of an observed node, however many of another one are not Ready', async () => {
  const bound = [
    { count: 400, namespace: 'apps' },
    { count: 2, namespace: 'kube-system' },
  ];
  const lookups = lookupsOf({ a: bound });
  await listed(lookups, aNode({ name: 'a' }));
  const kept = lookups.observed.get('a')?.pods.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`) ?? [];
  expect(kept).toHaveLength(200);
  expect(kept.slice(0, 4)).toEqual(['apps/p0', 'kube-system/p0', 'apps/p1', 'kube-system/p1']);
});
