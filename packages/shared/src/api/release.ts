/**
 * Which releases of an agent work with an API server: those with the same major version whose minor
 * version differs by one at most (`docs/upgrade.md`). Agents send their release as User-Agent, since
 * an API server of any release ignores it.
 */
import { AGENT } from './names.ts';
import { isVersion, numbersOf } from './version.ts';

/** The release of these programs. A test compares it with the chart. */
export const RELEASE = '0.1.0';
export const AGENT_USER_AGENT = `${AGENT}/${RELEASE}`;

/** Agents send no release before 0.1.0. */
const WITHOUT_RELEASE = '0.0.0';

export interface AgentSkew {
  readonly reason: 'AgentTooOld' | 'AgentTooNew';
  readonly message: string;
}

/** Returns why an agent with this User-Agent is not supported; undefined when it is. */
export function agentSkew(userAgent = '', own = RELEASE): AgentSkew | undefined {
  const sent = releaseIn(userAgent);
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

/** What it says may come from an intruder, and ends in a message for users. */
export function releaseIn(userAgent = ''): string | undefined {
  const [name, release = ''] = userAgent.split('/', 2);
  return name === AGENT && release.length <= 64 && isVersion(release) ? release : undefined;
}

/** Counts another major version as infinitely many minor ones. */
function minorsAhead(release: string, own: string): number {
  const [major = 0, minor = 0] = numbersOf(release);
  const [ownMajor = 0, ownMinor = 0] = numbersOf(own);
  return major === ownMajor ? minor - ownMinor : (major - ownMajor) * Infinity;
}
