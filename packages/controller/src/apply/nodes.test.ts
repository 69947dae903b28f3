/** Writes that the API server accepts, and that admission or a finalizer undoes. */
import {
  CORDONED_ANNOTATION,
  OUT_OF_SERVICE_ANNOTATION,
  OUT_OF_SERVICE_TAINT,
  OUT_OF_SERVICE_VALUE,
  WAITING_TAINT,
} from '@brupop/shared/api/names';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { anApplyContext } from '../testing/apply-context.ts';
import { aManagedNode, ago, aNode, MINUTE, NOW } from '../testing/objects.ts';
import { outOfServiceWrite } from './lost-nodes.ts';
import { cleanupWrite, taintWrite } from './nodes.ts';
import type { NodeWrite } from './queue.ts';
import type { ApplyContext } from './writer.ts';

const LIVE: KubernetesObject & { readonly spec: object } = {
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: 'node-a', uid: 'uid-node-a', resourceVersion: '1' },
  spec: {},
};

const EVENT = {
  reason: 'Restored',
  warning: false,
  about: { apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: 'uid-node-a' },
  message: 'restored',
  key: '1',
} as const;
const cordonedSince = { annotations: { [CORDONED_ANNOTATION]: ago(MINUTE) } };
const restored = aManagedNode('node-a', { ...cordonedSince, unschedulable: true });
const orphaned = aManagedNode('node-a', cordonedSince);
const outOfService = {
  ...LIVE,
  metadata: { ...LIVE.metadata, annotations: { [OUT_OF_SERVICE_ANNOTATION]: ago(MINUTE) } },
  spec: { taints: [{ key: OUT_OF_SERVICE_TAINT, value: OUT_OF_SERVICE_VALUE, effect: 'NoExecute' }] },
};
const taintOnly = { ...LIVE, spec: { taints: [{ key: WAITING_TAINT, effect: 'PreferNoSchedule' }] } };

/** What is written, the Node of an answer that has it, and the Node as it was before, to which admission changes it back. */
const WRITES: Record<string, [(context: ApplyContext) => NodeWrite, object, object]> = {
  'a taint': [(context) => taintWrite(context, { node: aNode(), waiting: true, startup: false }), taintOnly, LIVE],
  'the end of a taint': [
    (context) => taintWrite(context, { node: aNode(), waiting: false, startup: false }),
    LIVE,
    taintOnly,
  ],
  'the end of a cordon': [
    (context) => cleanupWrite(context, { managedNode: restored, kind: 'Restore', dueAt: NOW, event: EVENT }),
    LIVE,
    { ...LIVE, metadata: { ...LIVE.metadata, ...cordonedSince }, spec: { unschedulable: true } },
  ],
  'the end of an annotation': [
    (context) => cleanupWrite(context, { managedNode: orphaned, kind: 'PruneAnnotations', dueAt: NOW }),
    LIVE,
    { ...LIVE, metadata: { ...LIVE.metadata, ...cordonedSince } },
  ],
  'the end of an out-of-service taint': [
    (context) => outOfServiceWrite(context, { node: aNode(), wanted: false, event: undefined }),
    LIVE,
    outOfService,
  ],
};
/** Sends the write as often as a plan does that asks for it each 100 ms of a minute, and returns how often it was sent. */
async function sentInAMinute(
  writeOf: (context: ApplyContext) => NodeWrite,
  before: object,
  answer: object,
): Promise<number> {
  const clock = new FakeClock(NOW);
  let sent = 0;
  const mergePatch = async (): Promise<object> => {
    sent += 1;
    return await Promise.resolve(answer);
  };
  const context = anApplyContext({ clock, client: { request: async () => await Promise.resolve(before), mergePatch } });
  await askForAMinute(writeOf, context, clock);
  return sent;
}

async function askForAMinute(writeOf: (context: ApplyContext) => NodeWrite, context: ApplyContext, clock: FakeClock) {
  for (let ms = 0; ms < MINUTE; ms += 100) {
    const { key, write } = writeOf(context);
    if (context.writer.canWrite(key)) await write();
    await clock.advance(100);
  }
}

test.each(Object.entries(WRITES))('%s that admission undoes is written less and less often', async (_, write) => {
  const [writeOf, , before] = write;
  expect(await sentInAMinute(writeOf, before, before)).toBeLessThanOrEqual(8);
});

test.each(Object.entries(WRITES))('%s that the watch does not show yet is written again soon', async (_, write) => {
  const [writeOf, kept, before] = write;
  expect(await sentInAMinute(writeOf, before, kept)).toBeGreaterThan(100);
});

test('a shadow that waits for a finalizer is deleted less and less often', async () => {
  const clock = new FakeClock(NOW);
  let sent = 0;
  const other = { ...LIVE, metadata: { ...LIVE.metadata, uid: 'another' } };
  const deleting = { metadata: { deletionTimestamp: ago(MINUTE), finalizers: ['example.com/archive'] } };
  const request = async ({ method }: { readonly method: string }): Promise<object> => {
    if (method === 'DELETE') sent += 1;
    return await Promise.resolve(method === 'DELETE' ? deleting : other);
  };
  const context = anApplyContext({ clock, client: { request } });
  const cleanup = { managedNode: restored, kind: 'DeleteShadow', dueAt: NOW } as const;
  await askForAMinute((of) => cleanupWrite(of, cleanup), context, clock);
  expect(sent).toBeLessThanOrEqual(8);
});

test('settings that a host keeps are reported although a finalizer keeps the shadow', async () => {
  const deleting = { metadata: { deletionTimestamp: ago(MINUTE), finalizers: ['example.com/archive'] } };
  const request = async ({ method }: { readonly method: string }): Promise<object> =>
    await Promise.resolve(method === 'DELETE' ? deleting : { items: [], metadata: { resourceVersion: '1' } });
  const reasons: string[] = [];
  const record: ApplyContext['events']['record'] = ({ reason }) => void reasons.push(reason);
  const context = anApplyContext({ clock: new FakeClock(NOW), client: { request }, record });
  const kept = { ...EVENT, reason: 'HostSettingsKept' } as const;
  await cleanupWrite(context, { managedNode: restored, kind: 'Unmanage', dueAt: NOW, kept }).write();
  expect(reasons).toEqual(['HostSettingsKept']);
});
