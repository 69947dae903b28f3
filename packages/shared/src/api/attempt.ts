/**
 * The id of an attempt in the log lines of all programs: when its update started. The controller records it on the
 * shadow in the write that starts the update, so it survives restarts and a change of the leader; API servers read it there
 * and send it to the agent with the shadow. A program of another release only has lines without it.
 */
import type { BottlerocketShadow } from './shadow.ts';

export interface Attempted {
  readonly spec: Pick<BottlerocketShadow['spec'], 'state'>;
  readonly status?: Pick<NonNullable<BottlerocketShadow['status']>, 'current_state'> | undefined;
  /** When the latest update started. */
  readonly attempt?: string | undefined;
}

/** Undefined for a node at rest: until its next update starts, no line belongs to an attempt. */
export function currentAttempt({ spec, status, attempt }: Attempted): string | undefined {
  const isAtRest = spec.state === 'Idle' && (status?.current_state ?? 'Idle') === 'Idle';
  return isAtRest ? undefined : attempt;
}
