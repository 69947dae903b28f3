import { NODE_METADATA_FINALIZER } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
import { createLogger } from '@brupop/shared/runtime/log';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { createMetrics } from '../metrics.ts';
import { ago, aGroup, aManagedNode, aSnapshot, MINUTE, NEW, NOW, withGroups } from '../testing/objects.ts';
import { wholePlan } from '../whole-plan.ts';
import { NodeGroupWriter } from './node-groups.ts';
import { type ApplyContext, Writer } from './writer.ts';

/** A leader that begins now. Records the paths that it patches, and its Events. */
function leader() {
  const clock = new FakeClock();
  const log = createLogger({ write: () => undefined });
  const metrics = createMetrics(createRegistry('test'));
  const { signal } = new AbortController();
  const [patched, events]: [string[], string[]] = [[], []];
  const mergePatch = async (path: string): Promise<unknown> => patched.push(path);
  const record: Events['record'] = ({ reason }) => events.push(reason);
  const writer = new Writer({ clock, log, metrics, signal, isLeading: () => true });
  const apply = async (path: string): Promise<unknown> => patched.push(path);
  const client = { mergePatch, apply } as unknown as KubeClient;
  const context = { clock, log, writer, client, signal, events: { record } };
  return { clock, patched, events, groups: new NodeGroupWriter(context as unknown as ApplyContext) };
}

const made = aGroup('gpu', {});
const deleted = { ...made, metadata: { ...made.metadata, finalizers: [NODE_METADATA_FINALIZER] } };
const finalizers = new Map([[deleted, 'Remove']] as const);

it('a leader has ten minutes for a group that was deleted before it began, and then the group ends', async () => {
  const { clock, patched, events, groups } = leader();
  const plan = { finalizers, leftBehind: new Map([[deleted, ['a']]]) };
  expect(await groups.finalize(plan)).toBe(10 * MINUTE);
  await clock.advance(10 * MINUTE - 1);
  expect(await groups.finalize(plan)).toBe(1);
  expect([patched, events]).toEqual([[], []]);
  await clock.advance(1);
  expect(await groups.finalize(plan)).toBeUndefined();
  expect(patched).toEqual([expect.stringContaining('/gpu')]);
  expect(events).toEqual(['MetadataLeftBehind']);
});

it('a deleted group of which nothing is left ends at once', async () => {
  const { patched, events, groups } = leader();
  expect(await groups.finalize({ finalizers, leftBehind: new Map() })).toBeUndefined();
  expect([patched.length, events]).toEqual([1, []]);
});

it('a freeze of a group is reported once, and known before the watch shows it', async () => {
  const { clock, events, groups } = leader();
  const group = aGroup('gpu', { rollout: { failureBudget: 0 } });
  const record = { failed: { version: NEW, code: 'RolledBack', at: ago(MINUTE) } };
  const node = aManagedNode('a', { labels: { pool: 'gpu' } }, { record });
  const made = wholePlan(withGroups(aSnapshot([node], { rollout: { failureBudget: 5 } }), [group]), NOW);
  const write = async (): Promise<void> => {
    await clock.advance(MINUTE / 60);
    await groups.write([group], made.groups, true);
  };
  await write();
  await write();
  expect(events).toEqual(['Frozen']);
  const [seen] = groups.withWritten({ groupObjects: [group] }).groupObjects;
  expect(seen?.status).toEqual({ frozenVersions: [{ version: NEW, since: expect.any(String) as string }] });
  await clock.advance(MINUTE);
  expect(groups.withWritten({ groupObjects: [group] }).groupObjects).toEqual([seen]);
  const edited = { ...group, status: {} as NonNullable<typeof group.status> };
  expect(groups.withWritten({ groupObjects: [edited] }).groupObjects).toEqual([edited]);
});
