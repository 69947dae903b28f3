/**
 * The last updates of a node: a ring of annotations of its shadow, `…/history-0` to `…/history-9`, with one update in each as
 * JSON. The controller writes one of them in the request that ends the update, and reads none: what a user has edited, or what is
 * too long, matters only to the readers, which skip it, and it is replaced ten updates later (ADR 73). They outlive the shadow
 * in a ConfigMap (ADR 77).
 *
 *     {"start":"2026-11-22T10:00:00Z","end":"2026-11-22T10:09:00Z","from":"1.20.0","to":"1.21.0","outcome":"Succeeded",
 *      "attempt":1,"seconds":{"StagedAndPerformedUpdate":60,"RebootedIntoUpdate":240,"MonitoringUpdate":240}}
 */
import * as v from 'valibot';
import { parseTime } from '../runtime/clock.ts';
import type { ObjectMeta } from './meta.ts';
import { HISTORY_ANNOTATION, RECORD_ANNOTATION } from './names.ts';
import { recordText } from './record.ts';
import { count, type Infer, object, text, time } from './schema.ts';

export const MAX_UPDATES = 10;
/** Of one update, UTF-16 code units. */
const MAX_LENGTH = 1000;

const entry = object({
  start: time(),
  end: time(),
  from: text(100),
  to: text(100),
  /** An `Outcome` of the controller; of a later release perhaps another one. */
  outcome: text(64),
  code: v.exactOptional(text(64)),
  /** Which attempt with the version it was, from 1. */
  attempt: count(),
  group: v.exactOptional(text(63)),
  /** How long it was in each state of the spec, whole seconds. */
  seconds: v.record(text(64), count()),
});
export type PastUpdate = Infer<typeof entry>;

/** @param number - of the update, from 0: the tenth after it has the same annotation */
export function historyKey(number: number): string {
  return `${HISTORY_ANNOTATION}-${number % MAX_UPDATES}`;
}

/** Without those that cannot be read, the latest first. */
export function readHistory({ annotations = {} }: Pick<ObjectMeta, 'annotations'>): PastUpdate[] {
  const found = Array.from({ length: MAX_UPDATES }, (_, slot) => annotations[historyKey(slot)] ?? '');
  return found.flatMap((one) => read(one) ?? []).toSorted((a, b) => startOf(b) - startOf(a));
}

/**
 * The annotations of a shadow that is created for a node with these updates: the ring continues after the latest of them.
 * Empty without updates.
 */
export function historyAnnotations(updates: readonly PastUpdate[]): Readonly<Record<string, string>> {
  if (updates.length === 0) return {};
  const oldestFirst = updates.slice(0, MAX_UPDATES).toReversed();
  const ring = oldestFirst.map((update, number) => [historyKey(number), JSON.stringify(update)] as const);
  const record = recordText({ history: { count: oldestFirst.length, seconds: {} } });
  return { ...Object.fromEntries(ring), ...(record !== null && { [RECORD_ANNOTATION]: record }) };
}

const startOf = ({ start }: PastUpdate): number => parseTime(start) ?? 0;

function read(found: string): PastUpdate | undefined {
  if (found === '' || found.length > MAX_LENGTH) return undefined;
  try {
    const { success, output } = v.safeParse(entry, JSON.parse(found));
    return success ? output : undefined;
  } catch {
    return undefined;
  }
}
