import type { Gate } from './gate.ts';

/** A configuration that cannot be followed allows nothing: what its author wanted to limit is unknown. */
export const validConfig: Gate = ({ fleet }) => {
  if (fleet.problem === undefined) return undefined;
  return { reason: 'InvalidConfiguration', message: `BrupopConfig "cluster" cannot be followed: ${fleet.problem}` };
};
