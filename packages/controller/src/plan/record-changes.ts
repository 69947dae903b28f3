/**
 * What is written to the annotations of nodes whose spec stays: the workloads that fail on them, since when they wait for
 * unhealthy pods, and requests of users that are refused.
 */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { EventSource } from '@brupop/shared/kube/events';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { isPair, type NodePair } from '../cluster/snapshot.ts';
import type { Decision } from './assess.ts';
import { describeSuspects } from './facts/suspects.ts';
import type { FleetState } from './fleet.ts';
import type { SuspectsChange } from './observation.ts';
import { type Refusal, refusedRequest } from './requests.ts';
import { eventOn } from './spec-change.ts';

export interface RecordChange {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly record: NodeRecord;
  /** The annotation of a request, which is removed; the record is not written. */
  readonly refused?: string;
  readonly event: EventSource | undefined;
}

/** The write of a spec comes first, and has a record of its own. */
export function recordChanges(decisions: readonly Decision[], { observation, now }: FleetState): RecordChange[] {
  const suspects = new Map(observation.changes.map((one) => [one.pair.name, one]));
  return decisions.flatMap((decision) => {
    const { managedNode, change, jobs, blocked } = decision;
    if (change !== undefined || !isPair(managedNode)) return [];
    const refused = refusedRequest(managedNode.shadow, decision.next);
    if (refused !== undefined) return [withRefusal(managedNode, refused)];
    if (jobs !== undefined) return [];
    // A user is needed, and must see what could not be read.
    if (managedNode.shadow.record.isUnreadable === true) return [];
    const found = suspects.get(managedNode.name);
    if (found !== undefined) return [withSuspects(found)];
    if (blocked?.startsWaiting !== true) return [];
    const { shadow, node } = managedNode;
    return [{ shadow, node, record: { ...shadow.record, podsWaitSince: rfc3339(now) }, event: undefined }];
  });
}

/** One Event for each request: a refusal is written once, with the resourceVersion that it was found with. */
function withRefusal({ shadow, node }: NodePair, { annotation, reason, message }: Refusal): RecordChange {
  const { uid, resourceVersion } = shadow.metadata;
  const event = eventOn(node, shadow, { reason, message, key: `${uid}/${annotation}/${resourceVersion}` });
  return { shadow, node, record: shadow.record, refused: annotation, event };
}

function withSuspects({ pair: { shadow, node }, suspects }: SuspectsChange): RecordChange {
  const record = { ...shadow.record, suspects: suspects.length === 0 ? undefined : suspects };
  const since = suspects[0]?.at ?? shadow.record.suspects?.[0]?.at ?? '';
  const version = shadow.updated?.version ?? '?';
  const event =
    suspects.length > 0
      ? { reason: 'Suspect' as const, message: `Since its update to ${version}, ${describeSuspects(suspects)}` }
      : { reason: 'SuspectEnded' as const, message: 'No workload fails on the node any more' };
  const key = `${shadow.metadata.uid}/${since}/${suspects.map(({ workload }) => workload).join(' ')}`;
  return { shadow, node, record, event: eventOn(node, shadow, { ...event, key }) };
}
