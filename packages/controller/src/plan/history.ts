/** What is kept of an update that ends, for `kubectl brupop history`; see shared/api/history.ts. */
import { historyKey, type PastUpdate } from '@brupop/shared/api/history';
import { INT32 } from '@brupop/shared/api/schema';
import type { NodeRecord } from '@brupop/shared/api/record';
import type { ShadowSpec } from '@brupop/shared/api/shadow';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { ShadowView } from '../cluster/shadow.ts';
import { isUnderWay } from '../cluster/state.ts';
import { attempts } from './facts/attempts.ts';
import type { Transition } from './transition.ts';

export interface Past {
  /** Of the annotation. */
  readonly key: string;
  readonly update: PastUpdate;
}

/** True for each end of an update or of a reboot for settings, however it ends. */
function isEnd({ spec }: Pick<Transition, 'spec'>, shadow: ShadowView): boolean {
  return isUnderWay(shadow) && spec.state === 'Idle';
}

/** Counts the updates that have ended, and how long the current one was in each state. */
export function historyAfter(transition: Transition, shadow: ShadowView): Pick<NodeRecord, 'history'> {
  const { count = 0 } = shadow.record.history ?? {};
  if (transition.outcome === 'Started') return count === 0 ? {} : { history: { count, seconds: {} } };
  if (isEnd(transition, shadow)) return { history: { count: (count + 1) % INT32, seconds: {} } };
  if (transition.outcome !== 'Advanced') return {};
  return { history: { count, seconds: secondsAfter(transition.spec, shadow) } };
}

/** Undefined unless an update ends. */
export function pastOf(
  transition: Transition,
  shadow: ShadowView,
  { from, to, code }: Pick<PastUpdate, 'from' | 'to'> & { readonly code: string },
): Past | undefined {
  if (!isEnd(transition, shadow)) return undefined;
  const { spec, outcome } = transition;
  const { record, times } = shadow;
  const end = parseTime(spec.state_transition_timestamp) ?? 0;
  const start = times.startedAt ?? times.stateSince ?? end;
  const update = {
    start: rfc3339(start),
    end: rfc3339(end),
    from,
    to,
    outcome,
    ...(code !== '' && { code }),
    attempt: Math.min(attempts(shadow, shadow.spec.version ?? '') + 1, INT32),
    ...(record.group !== undefined && { group: record.group }),
    seconds: secondsAfter(spec, shadow),
  };
  return { key: historyKey(record.history?.count ?? 0), update };
}

/** With the state that ends. Times may be in the future when the clock was set. */
function secondsAfter({ state_transition_timestamp: time }: ShadowSpec, shadow: ShadowView): Record<string, number> {
  const { stateSince } = shadow.times;
  const end = parseTime(time);
  const known = shadow.record.history?.seconds ?? {};
  if (stateSince === undefined || end === undefined || end < stateSince) return { ...known };
  const { state } = shadow.spec;
  const seconds = (known[state] ?? 0) + Math.floor((end - stateSince) / 1000);
  return { ...known, [state]: Math.min(seconds, INT32) };
}
