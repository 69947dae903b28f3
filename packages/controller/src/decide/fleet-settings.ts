import { PAUSE_MODES } from '@brupop/shared/brupop-config';
import type { BrupopConfig, PauseMode } from '@brupop/shared/brupop-config';
import { DRAIN_DEFAULTS, readDrainSettings } from '@brupop/shared/drain/settings';
import type { DrainSettings } from '@brupop/shared/drain/settings';
import { SpecReader } from '@brupop/shared/spec-reader';

/** What people have set for the whole fleet, checked. */
export interface FleetSettings {
  readonly paused: boolean;
  readonly pauseMode: PauseMode;
  readonly pauseReason: string | undefined;
  readonly maxUpdating: MaxUpdating;
  readonly drain: DrainSettings;
  /** Why the configuration cannot be followed, and what to write instead. Nothing new starts then. */
  readonly problem: string | undefined;
}

export type MaxUpdating = { readonly nodes: number } | { readonly percent: number };

/** What holds when there is no BrupopConfig, or where it is silent: one node at a time. */
export const DEFAULTS: FleetSettings = {
  paused: false,
  pauseMode: 'Finish',
  pauseReason: undefined,
  maxUpdating: { nodes: 1 },
  drain: DRAIN_DEFAULTS,
  problem: undefined,
};

const PERCENT = /^(?<number>[1-9]\d?|100)%$/u;

/** Reads a BrupopConfig. The API server's schema refuses most mistakes; what slips through is named in `problem`. */
export function readFleetSettings(config: BrupopConfig | undefined): FleetSettings {
  const read = new SpecReader(config?.spec);
  const drain = readDrainSettings(config?.spec);
  const settings = {
    paused: read.flag('paused'),
    pauseMode: read.oneOf('pauseMode', PAUSE_MODES),
    pauseReason: pauseReasonIn(read),
    maxUpdating: maxUpdatingIn(read),
    drain: drain.settings,
  };
  return { ...settings, problem: read.problem ?? drain.problem };
}

function pauseReasonIn(read: SpecReader): string | undefined {
  const reason = read.valueOf('pauseReason');
  return typeof reason === 'string' && reason !== '' ? reason : undefined;
}

function maxUpdatingIn(read: SpecReader): MaxUpdating {
  const field = 'concurrency.maxUpdating';
  const value = read.valueOf(field);
  const limit = value === undefined ? DEFAULTS.maxUpdating : readMaxUpdating(value);
  if (limit === undefined) read.wrong(field, MAX_UPDATING_EXPECTED, value);
  return limit ?? DEFAULTS.maxUpdating;
}

const MAX_UPDATING_EXPECTED = 'a whole number from 1, such as 2, or a percentage from "1%" to "100%"';

/** How many of `managed` nodes may be updating at once: a percentage is rounded down, but at least 1. */
export function nodesAtOnce(limit: MaxUpdating, managed: number): number {
  return 'nodes' in limit ? limit.nodes : Math.max(1, Math.floor((managed * limit.percent) / 100));
}

function readMaxUpdating(value: unknown): MaxUpdating | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && value >= 1 ? { nodes: value } : undefined;
  const percent = typeof value === 'string' ? PERCENT.exec(value)?.groups?.['number'] : undefined;
  return percent === undefined ? undefined : { percent: Number(percent) };
}
