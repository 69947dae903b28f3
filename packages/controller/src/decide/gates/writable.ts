import type { Wait } from '../reasons.ts';
import type { Gate } from './gate.ts';

/** A node whose spec is refused by the API server lets others go first until it is tried again. */
export const writable: Gate = ({ candidate: { refusal } }) => (refusal === undefined ? undefined : refused(refusal));

/** Why a node waits whose spec was refused. */
export function refused(refusal: string): Wait {
  return { reason: 'SpecRefused', message: `The API server refuses the spec: ${refusal}` };
}
