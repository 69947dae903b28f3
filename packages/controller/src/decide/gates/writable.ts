import type { Gate } from './gate.ts';

/** A node whose spec is refused by the API server lets others go first until it is tried again. */
export const writable: Gate = ({ candidate: { refusal } }) =>
  refusal === undefined ? undefined : { reason: 'SpecRefused', message: `The API server refuses the spec: ${refusal}` };
