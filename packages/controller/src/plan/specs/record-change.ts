/**
 * What is written to the annotations of a node whose spec does not change: the workloads that fail on it, since when it
 * waits for unhealthy pods, since when a request of a user waits for it, and a request that is refused.
 */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { EventSource } from '@brupop/shared/kube/events';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../../cluster/node.ts';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { NodePair } from '../../cluster/snapshot.ts';
import type { Blocked } from '../facts/reasons.ts';
import { type Refusal, refusedRequest, withoutRequest, withRequestTime } from '../facts/requests.ts';
import { describeSuspects } from '../facts/suspects.ts';
import { eventOn } from './spec-change.ts';

export interface RecordChange {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly record: NodeRecord;
  /** The annotation of a request, which is removed. */
  readonly refused?: string;
  readonly event: EventSource | undefined;
}

type Suspects = NonNullable<NodeRecord['suspects']>;

/** What a plan has found of the node. */
interface Found {
  /** The version that it is to run, at rest. */
  readonly next: string | undefined;
  /** Why it does not update. */
  readonly because: Pick<Blocked, 'reason' | 'message'> | undefined;
  /** Its Jobs are recorded first. */
  readonly hasJobs: boolean;
  /** From now on it waits for unhealthy pods. */
  readonly startsWaiting: boolean;
  /** Undefined: they have not changed. */
  readonly suspects: Suspects | undefined;
  /** Epoch milliseconds. */
  readonly now: number;
}

/** Undefined: nothing is to be written. */
export function recordChange(pair: NodePair, found: Found): RecordChange | undefined {
  const { shadow, node } = pair;
  const { hasJobs, startsWaiting, suspects, now } = found;
  const refused = refusedRequest(shadow, found);
  if (refused !== undefined) return withRefusal(pair, refused);
  // What could not be read needs a user, who must see it.
  if (hasJobs || shadow.record.isUnreadable === true) return undefined;
  // Since when a request waits is written with what is written anyway, or alone.
  const record = withRequestTime(shadow, now);
  if (suspects !== undefined) return withSuspects(pair, suspects, record);
  const next = startsWaiting ? { ...record, podsWaitSince: rfc3339(now) } : record;
  return next === shadow.record ? undefined : { shadow, node, record: next, event: undefined };
}

/** One Event for each request: a refusal is written once, with the resourceVersion that it was found with. */
function withRefusal({ shadow, node }: NodePair, refusal: Refusal): RecordChange {
  const { annotation, reason, message } = refusal;
  const { uid, resourceVersion } = shadow.metadata;
  const event = eventOn(node, shadow, { reason, message, key: `${uid}/${annotation}/${resourceVersion}` });
  return { shadow, node, record: withoutRequest(shadow, refusal), refused: annotation, event };
}

function withSuspects({ shadow, node }: NodePair, suspects: Suspects, before: NodeRecord): RecordChange {
  const record = { ...before, suspects: suspects.length === 0 ? undefined : suspects };
  const since = suspects[0]?.at ?? shadow.record.suspects?.[0]?.at ?? '';
  const version = shadow.updated?.version ?? '?';
  const event =
    suspects.length > 0
      ? { reason: 'Suspect' as const, message: `Since its update to ${version}, ${describeSuspects(suspects)}` }
      : { reason: 'SuspectEnded' as const, message: 'No workload fails on the node any more' };
  const key = `${shadow.metadata.uid}/${since}/${suspects.map(({ workload }) => workload).join(' ')}`;
  return { shadow, node, record, event: eventOn(node, shadow, { ...event, key }) };
}
