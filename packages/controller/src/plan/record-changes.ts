/**
 * What is written to the annotations of nodes whose spec stays: the workloads that fail on them, since when they wait for
 * unhealthy pods and a request of a user waits for them, and requests that are refused.
 */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { EventSource } from '@brupop/shared/kube/events';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { NodeView } from '../cluster/node.ts';
import type { ShadowView } from '../cluster/shadow.ts';
import { isPair, type NodePair } from '../cluster/snapshot.ts';
import type { Decision } from './assess.ts';
import { describeSuspects } from './facts/suspects.ts';
import { ofParts, type Parts } from '../kept/parts.ts';
import type { FleetState } from './fleet.ts';
import type { Blocked } from './gates/reasons.ts';
import type { SuspectsChange } from './observation.ts';
import { hasRequest, type Refusal, refusedRequest, withoutRequest, withRequestTime } from './requests.ts';
import { eventOn } from './spec-change.ts';

export interface RecordChange {
  readonly shadow: ShadowView;
  readonly node: NodeView;
  readonly record: NodeRecord;
  /** The annotation of a request, which is removed. */
  readonly refused?: string;
  readonly event: EventSource | undefined;
}

/** The write of a spec comes first, and has a record of its own. */
export function recordChanges(decisions: Parts<Decision>, { observation, now }: FleetState): RecordChange[] {
  const suspects = new Map(observation.changes.map((one) => [one.pair.name, one]));
  const isSuspect = ({ managedNode: { name } }: Decision): boolean => suspects.has(name);
  const others = suspects.size === 0 ? [] : decisions.flat().filter(isSuspect);
  return [...new Set([...concernedIn(decisions).flat(), ...others])].flatMap((decision) => {
    const { managedNode, change, jobs, next } = decision;
    if (change !== undefined || !isPair(managedNode)) return [];
    const refused = refusedRequest(managedNode.shadow, { next, because: waitsFor(decision, managedNode), now });
    if (refused !== undefined) return [withRefusal(managedNode, refused)];
    if (jobs !== undefined) return [];
    // A user is needed, and must see what could not be read.
    if (managedNode.shadow.record.isUnreadable === true) return [];
    return noted(managedNode, decision, suspects.get(managedNode.name), now);
  });
}

/** Of the others only suspects may change. */
const concernedIn = ofParts((part: readonly Decision[]) =>
  part.filter(
    ({ managedNode: { shadow }, blocked }) =>
      shadow !== undefined && (hasRequest(shadow) || blocked?.startsWaiting === true),
  ),
);

/** Without what a condition says of the request itself, if that is known. */
function waitsFor(
  { blocked, progressing }: Decision,
  { shadow }: NodePair,
): Pick<Blocked, 'reason' | 'message'> | undefined {
  return blocked ?? progressing ?? (shadow.progressing as Pick<Blocked, 'reason' | 'message'> | undefined);
}

/** Since when a request waits is written with what is written anyway, or alone. */
function noted(
  { shadow, node }: NodePair,
  { blocked }: Decision,
  suspects: SuspectsChange | undefined,
  now: number,
): RecordChange[] {
  const record = withRequestTime(shadow, now);
  if (suspects !== undefined) return [withSuspects(suspects, record)];
  if (blocked?.startsWaiting === true)
    return [{ shadow, node, record: { ...record, podsWaitSince: rfc3339(now) }, event: undefined }];
  return record === shadow.record ? [] : [{ shadow, node, record, event: undefined }];
}

/** One Event for each request: a refusal is written once, with the resourceVersion that it was found with. */
function withRefusal({ shadow, node }: NodePair, refusal: Refusal): RecordChange {
  const { annotation, reason, message } = refusal;
  const { uid, resourceVersion } = shadow.metadata;
  const event = eventOn(node, shadow, { reason, message, key: `${uid}/${annotation}/${resourceVersion}` });
  return { shadow, node, record: withoutRequest(shadow, refusal), refused: annotation, event };
}

function withSuspects({ pair: { shadow, node }, suspects }: SuspectsChange, before: NodeRecord): RecordChange {
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
