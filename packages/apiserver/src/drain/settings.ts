import type { DrainFailure } from '@brupop/shared/api/agent-protocol';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { type DrainSettings, overridden, readDrainSettings, withDefaults } from '@brupop/shared/api/config-spec';
import { budgetHoldMs, FORCE_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { CONFIG_NAME } from '@brupop/shared/api/names';
import { problemOfShape } from '@brupop/shared/api/spec-schema';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { DrainStatus } from '@brupop/shared/api/shadow';
import { type DrainPod, isTerminating } from '@brupop/shared/drain/pods';
import { MAY_NOT_FORCE } from '@brupop/shared/drain/preflight';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { parseTime } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { ApiError } from '../errors.ts';

interface Sources {
  readonly configs: Pick<Reflector<BrupopConfig>, 'get'>;
  readonly groups: Pick<Reflector<BottlerocketNodeGroup>, 'get'>;
}

type Fields = Readonly<Record<string, unknown>>;

export class Settings {
  readonly #sources: Sources;
  readonly #log: Logger;
  #lastValid: Fields | undefined;
  #logged: string | undefined;

  constructor(sources: Sources, log: Logger) {
    this.#sources = sources;
    this.#log = log;
  }

  /**
   * Returns what holds for the drain of a node whose update began with the group `name`. A group that is gone, or has a
   * mistake in these settings, leaves the node to the configuration. With another mistake, such as one that an edit of the
   * configuration makes, it protects its pods as before. Throws ApiError `Unavailable` when this replica has seen no valid
   * configuration.
   */
  ofGroup(name: string | undefined): DrainSettings {
    const group = name === undefined ? undefined : this.#sources.groups.get(name);
    const fleet = this.#lastInForce();
    const { value, problems } = readDrainSettings(group === undefined ? fleet : overridden(fleet, group.spec));
    return problems.length === 0 ? value : readDrainSettings(fleet).value;
  }

  /**
   * Returns what the controller has put in force, or the spec while it has not seen it. While the
   * configuration is invalid or was deleted, the last valid one applies to updates under way; the controller starts
   * none. Throws as {@link Settings.ofGroup}.
   */
  #lastInForce(): Fields {
    const config = this.#sources.configs.get(CONFIG_NAME);
    if (config === undefined && this.#lastValid !== undefined) return this.#lastValid;
    const { inForce, problem } = read(config);
    if (problem !== undefined && problem !== this.#logged) this.#log.error('the BrupopConfig is invalid', { problem });
    this.#logged = problem;
    if (problem === undefined) this.#lastValid = inForce;
    if (this.#lastValid !== undefined) return this.#lastValid;
    throw new ApiError('Unavailable', `BrupopConfig "${CONFIG_NAME}" is invalid: ${problem ?? ''}`);
  }
}

function read({ spec, status }: Partial<BrupopConfig> = {}): { readonly inForce: Fields; readonly problem?: string } {
  const inForce = status?.inForce?.spec ?? withDefaults(spec);
  const problem = problemOfShape(spec) ?? readDrainSettings(inForce).problems[0];
  return problem === undefined ? { inForce } : { inForce, problem };
}

/** Evict: within disruption budgets. Force: delete past them. Over: do nothing more. */
export type Stage = 'Evict' | 'Force' | 'Over';

/** How long Force lasts beyond the longest grace period; at most FORCE_LIMIT_MS in all. */
const FORCE_MS = 10 * 60_000;
/** How long after its deletion time a pod is left behind: its processes end with the reboot. */
const ABANDON_MS = 60_000;

type Limits = Pick<DrainSettings, 'timeoutMs' | 'onTimeout' | 'maxGracePeriodMs'>;

/** True where pods that budgets hold are asked for before all others. With Force they go at the time limit at the latest. */
export function holdsForBudgets({ blockedBudgets, onTimeout }: DrainSettings): boolean {
  return blockedBudgets === 'TryLast' && onTimeout === 'Abort';
}

/** True when the budgets have had their time to let go of the pods that they hold. */
export function isHoldOver(drain: DrainStatus, { timeoutMs }: Limits, now: number): boolean {
  return elapsedMs(drain, now) >= budgetHoldMs(timeoutMs);
}

/** The limit of a drain with all stages, milliseconds. */
function wholeLimitMs({ timeoutMs, onTimeout, maxGracePeriodMs }: Limits, pods: readonly DrainPod[]): number {
  if (onTimeout === 'Abort') return timeoutMs;
  const longest = pods.reduce((most, { graceSeconds }) => Math.max(most, graceSeconds), 0);
  const graceMs = Math.min(longest * 1000, maxGracePeriodMs ?? Infinity);
  return timeoutMs + Math.min(FORCE_MS + graceMs, FORCE_LIMIT_MS);
}

/** What is left of the whole limit, milliseconds; not below 0. */
export function limitRemainingMs(drain: DrainStatus, settings: Limits, pods: readonly DrainPod[], now: number): number {
  if (drain.result === 'Blocked') return 0;
  const limitMs = drain.held === true ? budgetHoldMs(settings.timeoutMs) : wholeLimitMs(settings, pods);
  return Math.max(0, limitMs - elapsedMs(drain, now));
}

export function stageOf(drain: DrainStatus, settings: Limits, pods: readonly DrainPod[], now: number): Stage {
  if (drain.held === true || elapsedMs(drain, now) < settings.timeoutMs) return 'Evict';
  return limitRemainingMs(drain, settings, pods, now) > 0 ? 'Force' : 'Over';
}

/** Not below 0: the start may be ahead of this replica's clock. */
function elapsedMs({ startTime, resumeTime = startTime }: DrainStatus, now: number): number {
  return Math.max(0, now - (parseTime(resumeTime) ?? now));
}

/** True for a pod that is still terminating long after its deletion time. */
export function isAbandoned(pod: DrainPod, now: number): boolean {
  const goneBy = parseTime(pod.metadata.deletionTimestamp);
  return isTerminating(pod) && goneBy !== undefined && goneBy + ABANDON_MS < now;
}

export const CORDON_REMOVED: DrainFailure = {
  code: 'CordonRemoved',
  message: 'another actor uncordoned the node twice while it was drained, so the node is left alone',
};

export function timedOut({ timeoutMs }: Pick<DrainSettings, 'timeoutMs'>): DrainFailure {
  return { code: 'DrainTimedOut', message: `the node was not empty after ${Math.round(timeoutMs / 60_000)} min` };
}

/** The time limit is over, and Force, which the configuration asks for, is not permitted. */
export function mayNotForce(settings: Pick<DrainSettings, 'timeoutMs'>): DrainFailure {
  const { code, message } = timedOut(settings);
  return { code, message: `${message}; ${MAY_NOT_FORCE}` };
}
