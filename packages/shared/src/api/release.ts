/**
 * Which releases of an agent work with an API server, and of `kubectl brupop` with a controller: those with the same
 * major version whose minor version differs by one at most (`docs/upgrade.md`). Agents send their release as User-Agent, since
 * an API server of any release ignores it.
 */
import { RELEASE, REVISION } from '../runtime/build.ts';
import { AGENT } from './names.ts';
import { isVersion, numbersOf, releaseOf } from './version.ts';

export { RELEASE };
export const AGENT_USER_AGENT = `${AGENT}/${RELEASE}${REVISION === 'unknown' ? '' : `+${REVISION}`}`;

/** Agents send no release before 0.1.0. */
const WITHOUT_RELEASE = '0.0.0';

export interface AgentSkew {
  readonly reason: 'AgentTooOld' | 'AgentTooNew';
  readonly message: string;
}

/** Returns why an agent with this User-Agent is not supported; undefined when it is. */
export function agentSkew(userAgent = '', own = RELEASE): AgentSkew | undefined {
  const build = buildIn(userAgent);
  const sent = build === undefined ? undefined : releaseOf(build);
  const minors = minorsAhead(sent ?? WITHOUT_RELEASE, own);
  if (Math.abs(minors) <= 1) return undefined;
  const found = sent === undefined ? 'does not send its release' : `has the release ${sent}`;
  const { reason, age, remedy } = minors < 0 ? TOO_OLD : TOO_NEW;
  return { reason, message: `The agent ${found}, which is too ${age} for the API server with ${own}: ${remedy}` };
}

const TOO_OLD = {
  reason: 'AgentTooOld',
  age: 'old',
  remedy: 'finish the upgrade of the DaemonSet brupop-agent, and delete the pod of this agent if it is not replaced',
} as const;
const TOO_NEW = {
  reason: 'AgentTooNew',
  age: 'new',
  remedy: 'upgrade the Deployment brupop-apiserver to the same release',
} as const;

/** The release and the revision, `0.1.0+REVISION`. Any client may send them, and they are shown to users. */
export function buildIn(userAgent = ''): string | undefined {
  const [name, build = ''] = userAgent.split('/', 2);
  return name === AGENT && build.length <= 64 && isVersion(build) ? build : undefined;
}

/** By how many minor versions `release` is ahead of `own`; another major version counts as infinitely many. */
export function minorsAhead(release: string, own: string): number {
  const [major = 0, minor = 0] = numbersOf(release);
  const [ownMajor = 0, ownMinor = 0] = numbersOf(own);
  return major === ownMajor ? minor - ownMinor : (major - ownMajor) * Infinity;
}
