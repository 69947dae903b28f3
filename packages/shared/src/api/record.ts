/**
 * What the controller remembers of a node between two reconciles, and over a change of the leader: one annotation of the
 * node's shadow, as JSON, written in the same request as the spec. Only the controller writes it. If a user has edited it so
 * that a field cannot be read, the record is without that field, and says so: the node then waits for a retry.
 *
 *     {"startedAt":"2026-11-22T10:00:00Z","from":"1.20.0","failed":{"version":"1.21.0","code":"RolledBack","at":"…"}}
 */
import * as v from 'valibot';
import { RECORD_ANNOTATION } from './names.ts';
import { count, flag, ifReadable, type Infer, list, object, partial, text, time } from './schema.ts';
import type { ObjectMeta } from './meta.ts';

/** Of each kind; the controller writes at most 50 of them. */
const MAX_NAMES = 200;
/** Anyone who may create pods may name their controllers: a kind, a namespace, a name and a revision at most. */
const MAX_NAME = 700;
const version = text(100);
/** A hash of settings, and when they failed or were rebooted for. */
const settingsAt = object({ hash: text(100), at: time() });

const NO_HISTORY: { count: number; seconds: Record<string, number> } = { count: 0, seconds: {} };

const entries = {
  /** When the latest update started (RFC 3339, as all times here). */
  startedAt: time(),
  /** The version that the node ran then; after the reboot nothing else shows it. */
  from: version,
  /** The BottlerocketNodeGroup that it started with, until a success. */
  group: text(253),
  /** When the configuration ended it (a pause, a window, `spec.versions`): such an attempt does not count for the order of nodes. */
  endedByConfigAt: time(),
  /** When it was first allowed to drain and reboot the host; absent after its end. */
  rebootRequestedAt: time(),
  /** The boot ID of the Node at that time. */
  bootBefore: text(100),
  /** What was not Ready before the drain: DaemonSets as `namespace/name`, controllers as `Kind namespace/name`, conditions. */
  unreadyBefore: list(text(MAX_NAME), MAX_NAMES),
  /** The workloads whose pods the drain evicts, `Kind namespace/name`. */
  evictedWorkloads: list(text(MAX_NAME), MAX_NAMES),
  /**
   * The workloads and DaemonSets whose pods on the node were Ready when its drain started, and how many seconds they took
   * to become so; `needs`: what they found on the node that not every node has.
   */
  readyBefore: object({
    at: time(),
    workloads: v.record(text(MAX_NAME), count(9_999_999)),
    needs: v.exactOptional(v.record(text(MAX_NAME), list(text(MAX_NAME), MAX_NAMES))),
  }),
  /** Since when the update waits for unhealthy pods on the node. */
  podsWaitSince: time(),
  /** The workloads whose pods fail on it since its latest update; `from`: the node whose drain moved the pod. */
  suspects: list(
    object({ workload: text(MAX_NAME), problem: text(200), at: time(), from: v.exactOptional(text(253)) }),
    MAX_NAMES,
  ),
  /** The members of quorums that were on the node at its start; `pod` is without the namespace of the set. */
  members: list(object({ quorum: text(253), pod: text(253) }), MAX_NAMES),
  /**
   * The Jobs of the attempt, as `Before/check/NAME` with `Succeeded`, and its versions. A Job is recorded before it is
   * created, so that no other controller creates it again.
   */
  jobs: v.record(text(400), text(100)),
  /** The latest update, or reboot for settings (`isReboot`), that succeeded; absent from a start until a success. */
  succeeded: object({ version, at: time(), isReboot: v.exactOptional(flag()) }),
  /** The latest update that succeeded before a reboot for settings; absent from the start of an update. */
  updated: object({ version, at: time() }),
  /**
   * The version that the node failed with, and why; absent after a success. `isHidden`: since then there was a reboot
   * for settings, an attempt with another version, or one whose spec a user wrote, and the agent reports that instead.
   */
  failed: object({ version, code: text(100), at: time(), isHidden: v.exactOptional(flag()) }),
  /** The version of the latest update, if a user ended it with the annotation `abort`; absent from the next start. */
  aborted: object({ version, at: time() }),
  /** A user asked for the latest update with the annotation `update-now`: it waits for no window. */
  updateNow: flag(),
  /** The value of that annotation while it waits, cut to its first characters, and when the controller has first seen it. */
  asked: object({ version, at: time() }),
  /** The return from a version that failed to the previous one. */
  rollback: object({ failed: version, previous: version, since: time(), isDone: flag() }),
  /**
   * How many updates of the node have ended, and how long the current one was in each state of the spec, whole seconds: for
   * history.ts. No decision depends on it, so that it cannot be unreadable.
   */
  history: v.fallback(object({ count: count(), seconds: v.record(text(64), count()) }), NO_HISTORY),
  /** How long the latest update took, whole seconds. */
  updateSeconds: count(9_999_999),
  /** Seconds until the update was deferred: a lower bound of the next estimate. */
  deferredAfterSeconds: count(9_999_999),
  /** Attempts since the latest success that failed or were cancelled. */
  unsuccessful: count(),
  /** Attempts since the latest success that ended because the host no longer offered their version. */
  withdrawn: count(),
  /** How many attempts with one version have failed. */
  attempts: object({ version, count: count() }),
  /** How often the node was cordoned for pods that budgets held, and when the latest of these attempts started. */
  blockedDrains: object({ count: count(), at: time() }),
  /** The boot ID of the host when it was allowed to change settings. */
  settingsBoot: text(100),
  settingsFailed: settingsAt,
  settingsRebooted: settingsAt,
  /** The settings of the group that the host has last proved, as key and value. */
  settingsProved: v.array(v.tuple([v.string(), v.string()])),
};

type Entries = typeof entries;
const whole = partial(entries);
const readable = object(
  Object.fromEntries(Object.entries<v.GenericSchema>(entries).map(([name, schema]) => [name, ifReadable(schema)])),
);

export type NodeRecord = { readonly [K in keyof Entries]?: Infer<Entries[K]> | undefined } & {
  /** The annotation is no JSON object, or one of its fields cannot be read. */
  readonly isUnreadable?: true | undefined;
};

export function readRecord({ annotations }: Pick<ObjectMeta, 'annotations'>): NodeRecord {
  const found = annotations?.[RECORD_ANNOTATION];
  if (found === undefined) return {};
  try {
    const value: unknown = JSON.parse(found);
    const read = v.safeParse(whole, value);
    if (read.success) return read.output;
    return { ...(v.parse(readable, value) as NodeRecord), isUnreadable: true };
  } catch {
    return { isUnreadable: true };
  }
}

/** The text of the annotation; null: there is nothing to remember. */
export function recordText(record: NodeRecord): string | null {
  const known = Object.keys(entries).flatMap((name) => {
    const value = record[name as keyof Entries];
    return value === undefined ? [] : [[name, value] as const];
  });
  return known.length === 0 ? null : JSON.stringify(Object.fromEntries(known));
}
