import { CLOCK_TOLERANCE_MS } from '@brupop/shared/api/deadlines';
import { isVersion, sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { Blocked, Gate, GateInput } from './reasons.ts';

export const allowedVersion: Gate = (input) => denied(input) ?? tooYoung(input);

function denied({ version, policy: { versions } }: GateInput): Blocked | undefined {
  if (!versions.deny.some((one) => sameVersion(one, version))) return undefined;
  return { reason: 'VersionDenied', message: `spec.versions.deny of BrupopConfig "cluster" names ${version}` };
}

function tooYoung({ version, policy: { versions }, offeredSince, now }: GateInput): Blocked | undefined {
  const { pin, minimumAgeMs } = versions;
  if (pin !== undefined || minimumAgeMs === 0) return undefined;
  const since = offeredSince(version) ?? now;
  if (since > now + CLOCK_TOLERANCE_MS) return fromTheFuture(version, since);
  const retryAt = since + minimumAgeMs;
  if (now >= retryAt) return undefined;
  const message = `${version} has not been available for as long as spec.versions.minimumAge requires; available long enough at ${rfc3339(retryAt)}`;
  return { reason: 'MinimumAgeNotReached', message, retryAt };
}

/** A clock was wrong when the version was first seen, or is wrong now, so its age is unknown. */
function fromTheFuture(version: string, since: number): Blocked {
  const message =
    `status.versions of BrupopConfig "cluster" says that ${version} was first available at ${rfc3339(since)}, which is in the future: ` +
    'check the clock of the controller; if that is right, correct the time with kubectl edit brc cluster --subresource status';
  return { reason: 'MinimumAgeNotReached', message };
}

/** Until its host offers the pinned version, the lock is not in force yet or the version does not exist. */
export const offeredVersion: Gate = (input) => {
  const { version, status } = input;
  if (sameVersion(status.target_version, version)) return undefined;
  return { reason: 'VersionNotOffered', message: whyNotOffered(input) };
};

function whyNotOffered({ version, status: { hostSettings } }: GateInput): string {
  const trouble = hostSettings?.message;
  if (trouble !== undefined) return `The host does not offer the pinned version ${version}: ${trouble}`;
  return (
    `The host does not offer the pinned version ${version}: its repository does not have it, the wave of the host has not come ` +
    '(spec.versions.ignoreWaves), or its agent is of a release that does not set the lock'
  );
}

export const validVersion: Gate = ({ status, version }) => {
  const unreadable = [status.current_version, version].find((version) => !isVersion(version));
  if (unreadable === undefined) return undefined;
  const message = `The agent reports "${unreadable}" where a version such as 1.20.0 was expected`;
  return { reason: 'InvalidVersion', message };
};
