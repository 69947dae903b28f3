/** Writes the status of the BottlerocketNodeGroups, and the finalizer of those that have given something to Nodes. */
import { namesOf } from '@brupop/shared/runtime/errors';
import { isDeepStrictEqual } from 'node:util';
import {
  CONTROLLER,
  GROUP,
  NODE_GROUP_KIND,
  NODE_GROUP_VERSION,
  NODE_METADATA_FINALIZER,
} from '@brupop/shared/api/names';
import { LANE } from '@brupop/shared/api/brupop-config';
import type { BottlerocketNodeGroup, NodeGroupStatus } from '@brupop/shared/api/node-group';
import { nodeGroupPath } from '@brupop/shared/kube/paths';
import { groupStatusOf } from '../report/group-status.ts';
import { recordLane } from './config-events.ts';
import { type GroupFinalizer, type NodeMetadataPlan, REMOVAL_LIMIT_MS } from '../upkeep/node-metadata.ts';
import type { GroupRollout } from '../report/rollout.ts';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import type { ApplyContext } from './writer.ts';

/** Pause between two writes of one group; the latest status is always written. */
const MIN_GAP_MS = 1_000;
/** Later the watch counts, since another actor may have edited the status. */
const WATCH_LIMIT_MS = 30_000;

const API_VERSION = `${GROUP}/${NODE_GROUP_VERSION}`;
/** Reasons of the Events on a group. `docs/runbook.md` explains each. */
export const GROUP_EVENT_REASONS = ['MetadataLeftBehind'] as const;
const [LEFT_BEHIND] = GROUP_EVENT_REASONS;

interface Reported {
  readonly rollout: GroupRollout;
  /** Everything that follows from configuration and groups alone is written. */
  readonly isWritten: boolean;
}

interface Written {
  readonly status: NodeGroupStatus;
  /** On the monotonic clock, milliseconds. */
  readonly at: number;
  /** What the cache showed then. */
  readonly shown: NodeGroupStatus | undefined;
}

export class NodeGroupWriter {
  readonly #context: ApplyContext;
  /** When this process became the leader, on the monotonic clock. */
  readonly #startedAt: number;
  /** By UID; the watch may be behind. */
  readonly #written = new Map<string, Written>();
  /** By UID: what the cache shows. */
  #shown: ReadonlyMap<string, NodeGroupStatus | undefined> = new Map();

  constructor(context: ApplyContext) {
    this.#context = context;
    this.#startedAt = context.clock.monotonic();
  }

  /** The watch may not show yet what was written, such as a freeze. */
  withWritten<T extends { readonly groupObjects: readonly BottlerocketNodeGroup[] }>(snapshot: T): T {
    this.#shown = new Map(snapshot.groupObjects.map(({ metadata: { uid }, status }) => [uid, status]));
    const groupObjects = snapshot.groupObjects.map((object) => {
      const status = this.#statusOf(object);
      return status === object.status ? object : { ...object, status: withLane(object.status, status) };
    });
    return { ...snapshot, groupObjects };
  }

  /** Returns after how many milliseconds there is more to write, or undefined. */
  async write(
    objects: readonly BottlerocketNodeGroup[],
    rollouts: readonly GroupRollout[],
    isWritten: boolean,
  ): Promise<number | undefined> {
    const byName = new Map(rollouts.map((rollout) => [rollout.group.name, rollout]));
    const uids = new Set(objects.map(({ metadata: { uid } }) => uid));
    for (const uid of this.#written.keys()) if (!uids.has(uid)) this.#written.delete(uid);
    const delays: number[] = [];
    await forEachOf(objects, async (object) => {
      const rollout = byName.get(object.metadata.name);
      const delay = rollout && (await this.#writeOne(object, { rollout, isWritten }));
      if (delay !== undefined) delays.push(delay);
    });
    return delays.length === 0 ? undefined : Math.min(...delays);
  }

  /**
   * A group ends with something left only when this leader has had its time to remove it, since there may have been no
   * leader when it was deleted. Returns after how many milliseconds that is, or undefined.
   */
  async finalize({
    finalizers,
    leftBehind,
  }: Pick<NodeMetadataPlan, 'finalizers' | 'leftBehind'>): Promise<number | undefined> {
    const { clock, writer } = this.#context;
    const waitMs = this.#startedAt + REMOVAL_LIMIT_MS - clock.monotonic();
    const due = [...finalizers].filter(([object]) => waitMs <= 0 || !leftBehind.has(object));
    await forEachOf(due, async ([object, change]) => {
      const key = `finalizer/${object.metadata.uid}`;
      await writer.once(key, async () => {
        const isWritten = await writer.attempt('group_finalizer', key, () => this.#setFinalizer(object, change));
        const nodes = leftBehind.get(object);
        if (isWritten && nodes !== undefined) this.#reportLeftBehind(object, nodes);
      });
    });
    return due.length < finalizers.size ? waitMs : undefined;
  }

  async #setFinalizer({ metadata }: BottlerocketNodeGroup, change: GroupFinalizer): Promise<void> {
    const { client, signal } = this.#context;
    const { name, uid, resourceVersion, finalizers: before = [] } = metadata;
    const others = before.filter((one) => one !== NODE_METADATA_FINALIZER);
    const finalizers = change === 'Add' ? [...others, NODE_METADATA_FINALIZER] : others;
    const path = nodeGroupPath({ name });
    await client.mergePatch(path, { metadata: { uid, resourceVersion, finalizers } }, { signal });
  }

  #reportLeftBehind(object: BottlerocketNodeGroup, nodes: readonly string[]): void {
    const { events, log } = this.#context;
    const { name, uid } = object.metadata;
    const message =
      `The group was deleted, but its labels, annotations and taints could not be removed within 10 minutes from the Nodes ` +
      `${namesOf(nodes)}. Remove them with kubectl; kubectl get node --show-managed-fields shows which are of the group`;
    log.error('metadata of a deleted group stays on nodes', { group: name, nodes: namesOf(nodes) });
    events.record({ reason: LEFT_BEHIND, warning: true, about: aboutGroup(object), message, key: uid });
  }

  async #writeOne(object: BottlerocketNodeGroup, reported: Reported): Promise<number | undefined> {
    const { clock, writer } = this.#context;
    const { name, uid } = object.metadata;
    const written = this.#written.get(uid);
    const before = this.#statusOf(object);
    const status = groupStatusOf(object, { ...reported, before, now: clock.now() });
    const key = `group/${uid}`;
    if (isDeepStrictEqual(status, before) || !writer.canWrite(key)) return undefined;
    const waitMs = (written?.at ?? -Infinity) + MIN_GAP_MS - clock.monotonic();
    if (waitMs > 0) return waitMs;
    const isWritten = await writer.attempt('group_status', key, async () => await this.#apply(name, uid, status));
    const { failed, frozen } = reported.rollout;
    if (isWritten) recordLane(this.#context, { uid, before, now: status, failed, frozen, about: aboutGroup(object) });
    return undefined;
  }

  /** A cache that has not changed since the write is of a watch that hangs. */
  #statusOf({ metadata: { uid }, status }: BottlerocketNodeGroup): NodeGroupStatus | undefined {
    const written = this.#written.get(uid);
    if (written === undefined) return status;
    const isRecent = this.#context.clock.monotonic() - written.at < WATCH_LIMIT_MS;
    return isRecent || this.#shown.get(uid) === written.shown ? written.status : status;
  }

  async #apply(name: string, uid: string, status: NodeGroupStatus): Promise<void> {
    const { client, clock, signal } = this.#context;
    const path = nodeGroupPath({ name, subresource: 'status' });
    const body = { apiVersion: API_VERSION, kind: NODE_GROUP_KIND, metadata: { name, uid }, status };
    await client.apply(path, body, { fieldManager: CONTROLLER, signal });
    this.#written.set(uid, { status, at: clock.monotonic(), shown: this.#shown.get(uid) });
  }
}

function aboutGroup({ metadata: { name, uid } }: BottlerocketNodeGroup) {
  return { apiVersion: API_VERSION, kind: NODE_GROUP_KIND, name, uid };
}

/** What is remembered of versions is as in `latest`. */
function withLane(status: NodeGroupStatus | undefined, latest: NodeGroupStatus | undefined): NodeGroupStatus {
  const others = Object.entries(status ?? {}).filter((entry) => !isOfLane(entry));
  return Object.fromEntries([...others, ...Object.entries(latest ?? {}).filter(isOfLane)]);
}

function isOfLane([name]: [string, unknown]): boolean {
  return Object.hasOwn(LANE, name);
}
