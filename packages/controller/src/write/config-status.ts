import { isDeepStrictEqual } from 'node:util';
import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/brupop-config';
import type { Clock } from '@brupop/shared/clock';
import { CONFIG_KIND, CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, CONTROLLER, GROUP } from '@brupop/shared/constants';
import type { KubeClient } from '@brupop/shared/kube';
import { crPath } from '@brupop/shared/kube-paths';
import type { Condition } from '@brupop/shared/kubernetes-types';
import type { FleetSettings } from '../decide/fleet-settings.ts';
import type { NodeCounts, Plan } from '../decide/plan.ts';
import { transitionTime } from './publish.ts';
import type { Writes } from './writes.ts';

export interface ConfigStatusOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly writes: Writes;
}

/** Writes are at least so far apart; the last state is always written. */
const MIN_GAP_MS = 1_000;
const KEY = 'config_status';

/** Keeps the status of the BrupopConfig, if there is one. */
export class ConfigStatus {
  readonly #options: ConfigStatusOptions;
  #written: { readonly uid: string; readonly status: BrupopConfigStatus } | undefined;
  #writtenAt = -Infinity;

  constructor(options: ConfigStatusOptions) {
    this.#options = options;
  }

  /** Forgets what was written: called when the lead is taken. */
  clear(): void {
    this.#written = undefined;
  }

  /** Writes what has changed. Answers the milliseconds after which it has more to write, or undefined. */
  async publish(config: BrupopConfig | undefined, plan: Plan, signal: AbortSignal): Promise<number | undefined> {
    if (config === undefined) return undefined;
    const { clock, writes } = this.#options;
    const { uid } = config.metadata;
    const before = this.#written?.uid === uid ? this.#written.status : config.status;
    const status = statusOf(config, plan, before, clock.now());
    if (isDeepStrictEqual(status, before) || !writes.mayTry(KEY)) return undefined;
    const wait = this.#writtenAt + MIN_GAP_MS - clock.monotonic();
    if (wait > 0) return wait;
    this.#writtenAt = clock.monotonic();
    await writes.attempt('config_status', KEY, signal, () => this.#apply(uid, status, signal));
    return undefined;
  }

  async #apply(uid: string, status: BrupopConfigStatus, signal: AbortSignal): Promise<void> {
    const place = { version: CONFIG_VERSION, name: CONFIG_NAME, subresource: 'status' };
    const body = {
      apiVersion: `${GROUP}/${CONFIG_VERSION}`,
      kind: CONFIG_KIND,
      metadata: { name: CONFIG_NAME, uid },
      status,
    };
    const options = { fieldManager: CONTROLLER, force: true, signal };
    await this.#options.client.apply(crPath(CONFIG_PLURAL, place), body, options);
    this.#written = { uid, status };
  }
}

/** The status that says what a plan made of the configuration, at `now` (epoch milliseconds). */
export function statusOf(
  { metadata: { generation = 0 } }: BrupopConfig,
  { fleet, counts }: { readonly fleet: FleetSettings; readonly counts: NodeCounts },
  before: BrupopConfigStatus | undefined,
  now: number,
): BrupopConfigStatus {
  const conditions = [ready(fleet), paused(fleet)].map((condition): Condition => {
    const last = before?.conditions?.find(({ type }) => type === condition.type);
    const lastTransitionTime = transitionTime(last, condition.status, now);
    return { ...condition, lastTransitionTime, observedGeneration: generation };
  });
  return { observedGeneration: generation, conditions, nodes: counts };
}

/** Reasons of the conditions of a BrupopConfig. `docs/runbook.md` explains each. */
export const CONFIG_REASONS = ['InUse', 'InvalidConfiguration', 'Paused', 'NotPaused'] as const;

interface NewCondition extends Omit<Condition, 'lastTransitionTime'> {
  readonly reason: (typeof CONFIG_REASONS)[number];
}

function ready({ problem }: FleetSettings): NewCondition {
  if (problem === undefined) {
    return { type: 'Ready', status: 'True', reason: 'InUse', message: 'The configuration is in use' };
  }
  const message = `No node begins an update: ${problem}`;
  return { type: 'Ready', status: 'False', reason: 'InvalidConfiguration', message };
}

function paused({ paused, pauseReason }: FleetSettings): NewCondition {
  if (!paused) {
    return { type: 'Paused', status: 'False', reason: 'NotPaused', message: 'Nodes may begin updates' };
  }
  const message = pauseReason ?? 'spec.paused is true; spec.pauseReason does not say why';
  return { type: 'Paused', status: 'True', reason: 'Paused', message };
}
