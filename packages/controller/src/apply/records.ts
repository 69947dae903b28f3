/** Writes what is recorded of nodes whose spec stays, each with the resourceVersion of the plan. */
import { RECORD_ANNOTATION } from '@brupop/shared/api/names';
import { recordText } from '@brupop/shared/api/record';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { readShadow } from '../cluster/shadow.ts';
import type { RecordChange } from '../plan/record-changes.ts';
import { shadowPath } from './shadows.ts';
import type { ApplyContext } from './writer.ts';

export async function writeRecords(context: ApplyContext, changes: readonly RecordChange[]): Promise<void> {
  const { writer } = context;
  await forEachOf(changes, async (change) => {
    const { node, shadow, event } = change;
    const key = `record/${shadow.metadata.uid}`;
    if (!writer.canWrite(key)) return;
    const log = context.logOf(node.metadata.name);
    if (!(await writer.attempt('record', key, () => writeRecord(context, change), log))) return;
    // The annotation does not change the generation, so only the watch shows it.
    writer.settle(key);
    if (event === undefined) return;
    context.events.record(event);
    log[event.warning ? 'warn' : 'info'](`${event.reason}: ${event.message}`);
  });
}

async function writeRecord(context: ApplyContext, { shadow, record }: RecordChange): Promise<void> {
  const { client, assumeCache, signal } = context;
  const { uid, resourceVersion } = shadow.metadata;
  const annotations = { [RECORD_ANNOTATION]: recordText(record) };
  const body = { metadata: { uid, resourceVersion, annotations } };
  assumeCache.shadow(readShadow(await client.mergePatch(shadowPath(shadow), body, { signal })));
}
