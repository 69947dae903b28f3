import type { BrupopConfig } from '@brupop/shared/brupop-config';

/** What people have set for the whole fleet, checked. */
export interface FleetSettings {
  readonly paused: boolean;
  readonly pauseReason: string | undefined;
  readonly maxUpdating: MaxUpdating;
  /** Why the configuration cannot be followed, and what to write instead. Nothing new starts then. */
  readonly problem: string | undefined;
}

export type MaxUpdating = { readonly nodes: number } | { readonly percent: number };

/** What holds when there is no BrupopConfig, or where it is silent: one node at a time. */
export const DEFAULTS: FleetSettings = {
  paused: false,
  pauseReason: undefined,
  maxUpdating: { nodes: 1 },
  problem: undefined,
};

const PERCENT = /^(?<number>[1-9]\d?|100)%$/u;

/** Reads a BrupopConfig. The API server's schema refuses most mistakes; what slips through is named in `problem`. */
export function readFleetSettings(config: BrupopConfig | undefined): FleetSettings {
  // Read as unknown: a CustomResourceDefinition of another release may have let other types in.
  const spec = asRecord(config?.spec);
  const concurrency = asRecord(spec['concurrency']);
  const { paused, pauseReason } = spec;
  const maxUpdating = concurrency['maxUpdating'] ?? undefined;
  const limit = maxUpdating === undefined ? DEFAULTS.maxUpdating : readMaxUpdating(maxUpdating);
  const problem = [pausedProblem(paused), limit === undefined ? maxUpdatingProblem(maxUpdating) : undefined].find(
    (found) => found !== undefined,
  );
  return {
    paused: paused === true,
    pauseReason: typeof pauseReason === 'string' && pauseReason !== '' ? pauseReason : undefined,
    maxUpdating: limit ?? DEFAULTS.maxUpdating,
    problem,
  };
}

/** How many of `managed` nodes may be updating at once: a percentage is rounded down, but at least 1. */
export function nodesAtOnce(limit: MaxUpdating, managed: number): number {
  return 'nodes' in limit ? limit.nodes : Math.max(1, Math.floor((managed * limit.percent) / 100));
}

function readMaxUpdating(value: unknown): MaxUpdating | undefined {
  if (typeof value === 'number') return Number.isInteger(value) && value >= 1 ? { nodes: value } : undefined;
  const percent = typeof value === 'string' ? PERCENT.exec(value)?.groups?.['number'] : undefined;
  return percent === undefined ? undefined : { percent: Number(percent) };
}

function maxUpdatingProblem(value: unknown): string {
  return `spec.concurrency.maxUpdating: expected a whole number from 1, such as 2, or a percentage from "1%" to "100%", found ${JSON.stringify(value)}`;
}

function pausedProblem(paused: unknown): string | undefined {
  if (paused === undefined || paused === null || typeof paused === 'boolean') return undefined;
  return `spec.paused: expected true or false, found ${JSON.stringify(paused)}`;
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
