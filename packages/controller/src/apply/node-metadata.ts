/**
 * Writes what groups give to Nodes, and takes it back. Each Node is read first, and decided on as it is then; each write carries
 * the resourceVersion of that read. A Node that another writer changes back is written less and less often.
 */
import { GROUP_TAINTS_ANNOTATION } from '@brupop/shared/api/names';
import type { KubernetesObject, ObjectMeta } from '@brupop/shared/api/meta';
import { isFields } from '@brupop/shared/api/schema';
import { corePath } from '@brupop/shared/kube/paths';
import { type Backoff, backoff } from '@brupop/shared/runtime/backoff';
import {
  appliedKeys,
  type AppliedKeys,
  KEY_FIELDS,
  type ManagedFields,
  managerOf,
  type NodeTaint,
  otherOwner,
} from '../cluster/group-metadata.ts';
import type { MetadataNotes } from '../cluster/metadata-notes.ts';
import { decideMetadata, type MetadataWrite } from '../upkeep/metadata-writes.ts';
import type { MetadataChange } from '../upkeep/node-metadata.ts';
import { type NodeWrite, PRIORITY } from './queue.ts';
import { type ApplyContext, UselessWrite } from './writer.ts';

/** A Node that moves from one group to another needs three writes. */
const MAX_WRITES = 6;
/** Policies may reject some Nodes of a group only. */
const REJECTED_IN_A_ROW = 10;
const REPEATED = { baseMs: 1_000, capMs: 600_000 };
/** A Node that kept what was written for this long is not being changed back. */
const KEPT_MS = 1_800_000;
/** One that was written so often within that time is. */
const CHANGED_BACK_AFTER = 4;

interface LiveNode extends KubernetesObject {
  readonly metadata: ObjectMeta & { readonly managedFields?: readonly ManagedFields[] };
  readonly spec?: { readonly taints?: readonly NodeTaint[] };
}

interface Written {
  readonly what: string;
  readonly count: number;
  readonly delays: Backoff;
  /** On the monotonic clock, milliseconds. */
  readonly at: number;
  readonly nextAt: number;
}

interface MetadataNodeWrite extends NodeWrite {
  /** It holds an update slot, so the next plan has to see it. */
  readonly evicts: boolean;
}

export class NodeMetadataWriter {
  readonly #context: ApplyContext;
  readonly #notes: MetadataNotes;
  /** By the UID of the Node. */
  readonly #written = new Map<string, Written>();
  /** By {@link groupKeyOf}: how many Nodes in a row were rejected. */
  readonly #rejected = new Map<string, number>();

  constructor(context: ApplyContext, notes: MetadataNotes) {
    this.#context = context;
    this.#notes = notes;
  }

  /** Returns what is due, and after how many milliseconds there is more to write. */
  due(changes: readonly MetadataChange[]): { readonly writes: readonly MetadataNodeWrite[]; readonly inMs?: number } {
    const now = this.#context.clock.monotonic();
    for (const [uid, { at }] of this.#written) if (now - at > KEPT_MS) this.#written.delete(uid);
    const waits = changes.map((change) => this.#waitMs(change, now));
    const due = changes.filter((change, index) => waits[index] === 0 && this.#canWrite(change));
    const later = waits.filter((ms) => ms > 0);
    return {
      writes: due.map((change) => this.#writeOf(change)),
      ...(later.length > 0 && { inMs: Math.min(...later) }),
    };
  }

  #writeOf(change: MetadataChange): MetadataNodeWrite {
    const { writer } = this.#context;
    const key = keyOf(change);
    const write = async (): Promise<void> => {
      if (this.#canWrite(change)) await writer.once(key, () => this.#writeNode(change));
    };
    return { key, object: change.node.metadata.name, priority: PRIORITY.metadata, evicts: change.evicts, write };
  }

  #canWrite(change: MetadataChange): boolean {
    const { writer } = this.#context;
    const isAccepted = change.isOnOthers && !change.isRejected;
    return writer.canWrite(keyOf(change)) && (isAccepted || writer.canWrite(groupKeyOf(change)));
  }

  /** What admission denies for every Node of a group is not tried for each of them. */
  #countRejections(change: MetadataChange, isRejected: boolean): void {
    const { writer } = this.#context;
    const key = groupKeyOf(change);
    const inARow = isRejected ? (this.#rejected.get(key) ?? 0) + 1 : 0;
    if (inARow === 0) this.#rejected.delete(key);
    else this.#rejected.set(key, inARow);
    // The last of them were in flight together.
    if (inARow >= REJECTED_IN_A_ROW && writer.canWrite(key)) writer.backOff(key);
  }

  #waitMs({ node, wanted }: MetadataChange, now: number): number {
    const written = this.#written.get(node.metadata.uid);
    return written?.what === textOf(wanted) ? Math.max(0, written.nextAt - now) : 0;
  }

  async #writeNode(change: MetadataChange): Promise<void> {
    const { client, clock, logOf, writer, signal } = this.#context;
    const { name, uid } = change.node.metadata;
    const log = logOf(name);
    const key = keyOf(change);
    const path = corePath('nodes', { name });
    let conflicts: ReturnType<typeof decideMetadata>['conflicts'] = [];
    const send = async (): Promise<void> => {
      let live = await client.request<LiveNode>({ method: 'GET', path, signal });
      for (let count = 0; count < MAX_WRITES && live.metadata.uid === uid; count += 1) {
        const next = decideOn(live, change);
        ({ conflicts } = next);
        const [write] = next.writes;
        if (write === undefined) return;
        live = await this.#send(live, write);
        log.info('node metadata written', { write: write.kind, groups: write.groups.join(',') });
        if (count === 0) this.#remember(change);
      }
    };
    const isWritten = await writer.attempt('node_metadata', key, send, log);
    const rejection = isWritten ? undefined : writer.latestRejection(key);
    // What could not be read or written for a passing reason is tried again.
    if (!isWritten && rejection === undefined) return;
    this.#countRejections(change, rejection !== undefined);
    const isChangedBack = (this.#written.get(uid)?.count ?? 0) >= CHANGED_BACK_AFTER;
    const isNews = this.#notes.note(uid, { conflicts, rejection, isChangedBack }, clock.now());
    for (const { manager, key: field } of isNews ? conflicts : [])
      log.warn('another field manager owns node metadata of a group', { key: field, manager });
  }

  async #send(live: LiveNode, write: MetadataWrite): Promise<LiveNode> {
    const { client, signal } = this.#context;
    const { name, uid, resourceVersion } = live.metadata;
    const path = corePath('nodes', { name });
    const metadata = { uid, resourceVersion };
    if (write.kind === 'Apply') {
      // An empty field would be owned as well.
      const given = Object.entries(write.body).filter(([, values]) => Object.keys(values as object).length > 0);
      const body = {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name, ...metadata, ...Object.fromEntries<object>(given) },
      };
      return await client.apply(path, body, { fieldManager: managerOf(write.groups[0] ?? ''), signal });
    }
    if (write.kind === 'Adopt') {
      const managedFields = adopted(live.metadata.managedFields ?? [], write.keys);
      return await client.mergePatch(path, { metadata: { ...metadata, managedFields } }, { signal });
    }
    const annotations = { [GROUP_TAINTS_ANNOTATION]: write.record };
    const body = { metadata: { ...metadata, annotations }, spec: { taints: write.taints } };
    return await client.mergePatch(path, body, { signal });
  }

  #remember({ node, wanted }: MetadataChange): void {
    const { uid } = node.metadata;
    const [what, at, before] = [textOf(wanted), this.#context.clock.monotonic(), this.#written.get(uid)];
    const isRepeated = before?.what === what;
    const { count, delays } = isRepeated ? before : { count: 0, delays: backoff(REPEATED) };
    this.#written.set(uid, { what, count: count + 1, delays, at, nextAt: isRepeated ? at + delays.next() : at });
  }
}

function keyOf({ node }: MetadataChange): string {
  return `metadata/${node.metadata.uid}`;
}

function groupKeyOf({ wanted }: MetadataChange): string {
  return `metadata-of/${wanted?.group ?? ''}/${wanted?.rendered.generation ?? ''}`;
}

function textOf(wanted: MetadataChange['wanted']): string {
  return JSON.stringify(wanted ?? null);
}

function tooLarge(omitted: number): string {
  return (
    `metadata.managedFields names ${omitted} keys more of the managers ${managerOf('*')} than node groups ever apply. Its ` +
    'kubelet, or whoever applied them, must remove them: see kubectl get node -o yaml --show-managed-fields'
  );
}

/** Throws UselessWrite for a Node of which not all is read: an apply would remove the keys that are left out. */
function decideOn({ metadata, spec }: LiveNode, { wanted, known }: MetadataChange): ReturnType<typeof decideMetadata> {
  const { labels = {}, annotations = {}, managedFields = [] } = metadata;
  const { applied, omitted } = appliedKeys(managedFields);
  if (omitted > 0) throw new UselessWrite(tooLarge(omitted));
  const state = { labels, annotations, taints: spec?.taints ?? [], applied };
  return decideMetadata({
    state,
    wanted,
    known,
    otherOwner: (field, key) => otherOwner(managedFields, field, key),
  });
}

/**
 * The managed fields with these keys as the group's alone, as the package csaupgrade of client-go moves fields to another manager.
 */
function adopted(managedFields: readonly ManagedFields[], keys: AppliedKeys): readonly ManagedFields[] {
  const others = managedFields.map((entry) => {
    const metadata = entry.fieldsV1?.['f:metadata'];
    if (!isFields(metadata)) return entry;
    const left = KEY_FIELDS.flatMap((field) => {
      const owned = metadata[`f:${field}`];
      if (!isFields(owned)) return [];
      const kept = Object.entries(owned).filter(([name]) => !keys[field].includes(name.slice(2)));
      return [[`f:${field}`, Object.fromEntries(kept)] as const];
    });
    return {
      ...entry,
      fieldsV1: { ...entry.fieldsV1, 'f:metadata': { ...metadata, ...Object.fromEntries<object>(left) } },
    };
  });
  const own = KEY_FIELDS.map(
    (field) => [`f:${field}`, Object.fromEntries(keys[field].map((key) => [`f:${key}`, {}]))] as const,
  );
  const entry = {
    manager: managerOf(keys.group),
    operation: 'Apply',
    apiVersion: 'v1',
    fieldsType: 'FieldsV1',
    fieldsV1: { 'f:metadata': Object.fromEntries<object>(own) },
  };
  return [...others, entry];
}
