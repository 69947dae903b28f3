/**
 * Whether this plugin and the operator of the cluster work together, by the release that the leader of the controllers
 * writes to the status of the BrupopConfig. The rule is that of agents and API servers (`shared/api/release.ts`):
 *
 *     no BrupopConfig, or none that a controller has seen    unknown: there is no warning, but a request may be ignored
 *     no release in the status                               too old: it is from before the first one that reports
 *     another major version, or more than one minor one      too old or too new
 *     otherwise                                              they work together
 *
 * What an operator does not know must not look done. The API server refuses fields that it does not know; an annotation
 * it stores, so requests in annotations are checked here.
 */
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { minorsAhead } from '@brupop/shared/api/release';
import { isVersion, releaseOf, sameVersion } from '@brupop/shared/api/version';
import { RELEASE } from '@brupop/shared/runtime/build';
import { UsageError } from './errors.ts';

type Config = Pick<BrupopConfig, 'status'> | undefined;

/** Requests in annotations, and whether each operator that ever was follows them. */
const REQUESTS = { retry: true, abort: false, 'update-now': false } as const;
export type Request = keyof typeof REQUESTS;

/** Operators before it report no release, and know neither `abort` nor `update-now`. */
const FIRST = '0.1.0';
const UNKNOWN =
  'no controller has reported on a BrupopConfig, so it is not known whether the operator follows it: see whether the ' +
  'pods of the Deployment brupop-controller run';

/**
 * Returns one sentence, without its capital and its period, when the two do not work together; undefined when they do,
 * or when that is not known.
 */
export function skewText(config: Config, own: string = RELEASE): string | undefined {
  if (!isReported(config)) return undefined;
  const release = releaseIn(config);
  if (release === undefined)
    return `the operator is older than ${FIRST}, which is too old for kubectl brupop ${own}: upgrade the operator`;
  const minors = minorsAhead(release, own);
  if (Math.abs(minors) <= 1) return undefined;
  const has = `the operator has the release ${release}, which is too`;
  const install = `install kubectl brupop ${release}`;
  return minors < 0
    ? `${has} old for kubectl brupop ${own}: upgrade the operator, or ${install}`
    : `${has} new for kubectl brupop ${own}: ${install}`;
}

/** Returns one sentence when the planner of the operator may decide otherwise than the one of this plugin. */
export function plannerSkewText(config: Config, own: string = RELEASE): string | undefined {
  const skew = skewText(config, own);
  const release = releaseIn(config);
  if (skew !== undefined || release === undefined || sameVersion(release, own)) return skew;
  return (
    `the operator has the release ${release} and may plan otherwise than kubectl brupop ${own}: ` +
    `install kubectl brupop ${release}`
  );
}

/** Throws UsageError when the operator may not follow the request, before anything is written. */
export function checkRequest(config: Config, request: Request, own: string = RELEASE): void {
  const isAlwaysFollowed = REQUESTS[request] && releaseIn(config) === undefined;
  if (isAlwaysFollowed) return;
  const why = isReported(config) ? skewText(config, own) : UNKNOWN;
  if (why !== undefined) throw new UsageError(`"${request}" was not sent: ${why}`);
}

/** The definition of the BrupopConfig has 0 for the generation that no controller has seen. */
function isReported(config: Config): boolean {
  return (config?.status?.observedGeneration ?? 0) > 0;
}

function releaseIn(config: Config): string | undefined {
  const { release } = config?.status ?? {};
  return release !== undefined && isVersion(release) ? releaseOf(release) : undefined;
}
