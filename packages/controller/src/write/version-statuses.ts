import type { VersionStatus } from '@brupop/shared/brupop-config';
import { parseTime, rfc3339 } from '@brupop/shared/clock';
import type { VersionCount } from '../decide/outlook.ts';

/** So many are kept. */
const MAX_VERSIONS = 50;

/**
 * The versions for the status at `now` (epoch milliseconds), newest first. One that nobody runs or is offered any more is kept while there is
 * room, so that its age does not begin anew when it comes back.
 */
export function versionStatuses(
  counts: readonly VersionCount[],
  before: readonly VersionStatus[],
  now: number,
): VersionStatus[] {
  const current = counts.map((count): VersionStatus => {
    const known = before.find(({ version }) => version === count.version);
    const isDated = known !== undefined && parseTime(known.firstOfferedTime) !== undefined;
    return { ...count, firstOfferedTime: isDated ? known.firstOfferedTime : rfc3339(now) };
  });
  const gone = before
    .filter(({ version }) => !counts.some((count) => count.version === version))
    .map((one) => ({ ...one, running: 0, offered: 0 }));
  return [...current.toSorted(newestFirst), ...gone.toSorted(newestFirst)].slice(0, MAX_VERSIONS).toSorted(newestFirst);
}

/** For people to read: numbers as numbers. */
function newestFirst(a: VersionStatus, b: VersionStatus): number {
  return b.version.localeCompare(a.version, 'en', { numeric: true });
}
