import type { Gate } from './gate.ts';

/** Only so many nodes are away at once. */
export const capacity: Gate = ({ room }) => room;
