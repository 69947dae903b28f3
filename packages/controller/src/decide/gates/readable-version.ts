import { isVersion } from '../../cluster/version.ts';
import type { Gate } from './gate.ts';

/** A host is only driven from one known version to another. */
export const readableVersion: Gate = ({ candidate: { status, version } }) => {
  const unreadable = [status.current_version, version].find((version) => !isVersion(version));
  if (unreadable === undefined) return undefined;
  const message = `The agent reports "${unreadable}" where a version such as 1.20.0 was expected`;
  return { reason: 'UnreadableVersion', message };
};
