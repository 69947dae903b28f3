/** Writes what is recorded of nodes whose spec stays, and removes requests that are refused, each with the resourceVersion of the plan. */
import { RECORD_ANNOTATION } from '@brupop/shared/api/names';
import { type NodeRecord, recordText } from '@brupop/shared/api/record';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { readShadow, type ShadowView } from '../cluster/shadow.ts';
import type { RecordChange } from '../plan/specs/record-change.ts';
import { pathOf } from './shadows.ts';
import type { ApplyContext } from './writer.ts';

export async function writeRecords(context: ApplyContext, changes: readonly RecordChange[]): Promise<void> {
  const { writer } = context;
  await forEachOf(changes, async (change) => {
    const { node, shadow, event } = change;
    const key = `record/${shadow.metadata.uid}`;
    if (!writer.canWrite(key)) return;
    const log = context.logOf(node.metadata.name);
    if (!(await writer.attempt('record', key, () => writeChange(context, change), log))) return;
    // An annotation does not change the generation, so only the watch shows it.
    writer.settle(key);
    if (event === undefined) return;
    context.events.record(event);
    log[event.warning ? 'warn' : 'info'](`${event.reason}: ${event.message}`);
  });
}

async function writeChange(context: ApplyContext, { shadow, record, refused }: RecordChange): Promise<void> {
  await annotate(context, shadow, {
    ...(refused !== undefined && { [refused]: null }),
    ...(record !== shadow.record && { [RECORD_ANNOTATION]: recordText(record) }),
  });
}

/** Writes the record alone. Throws a KubeError, also when the shadow has changed since the plan. */
export async function patchRecord(context: ApplyContext, shadow: ShadowView, record: NodeRecord): Promise<void> {
  await annotate(context, shadow, { [RECORD_ANNOTATION]: recordText(record) });
}

async function annotate(
  { client, assumeCache, signal }: ApplyContext,
  shadow: ShadowView,
  annotations: Readonly<Record<string, string | null>>,
): Promise<void> {
  const { uid, resourceVersion } = shadow.metadata;
  const body = { metadata: { uid, resourceVersion, annotations } };
  assumeCache.shadow(readShadow(await client.mergePatch(pathOf(shadow), body, { signal })));
}
