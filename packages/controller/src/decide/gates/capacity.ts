import type { Gate } from './gate.ts';

/** At most `maxUpdating` nodes at once. The message names no numbers: else each step of one node would rewrite the condition of all that wait. */
export const capacity: Gate = ({ free }) =>
  free > 0 ? undefined : { reason: 'WaitingForCapacity', message: 'As many nodes are updating as may be at once' };
