import type { Rollout } from './rollout.ts';
import { seconds } from './view.ts';

export interface Outcome {
  readonly rollout: Pick<Rollout, 'times' | 'elapsedMs'>;
  readonly nodes: number;
  /** Ready replicas: the fewest seen, of how many. */
  readonly workloads: readonly { readonly name: string; readonly least: number; readonly of: number }[];
  readonly mostUnavailable: number;
  readonly violations: readonly string[];
}

/** Lines with the duration of the rollout and its effect on the workloads. */
export function summarize({ rollout, nodes, workloads, mostUnavailable, violations }: Outcome): string[] {
  const times = [...rollout.times.values()];
  const mean = times.reduce((sum, ms) => sum + ms, 0) / Math.max(1, times.length);
  const spread = times.length === 0 ? '' : ` (${tenths(Math.min(...times))} to ${tenths(Math.max(...times))})`;
  return [
    `Updated ${times.length} of ${nodes} nodes in ${seconds(rollout.elapsedMs)}: ${tenths(mean)} per node${spread}.`,
    `At most ${mostUnavailable} ${mostUnavailable === 1 ? 'node' : 'nodes'} unavailable at once.`,
    ...workloads.map(({ name, least, of }) => `${name}: never fewer than ${least} of ${of} replicas ready.`),
    violations.length === 0
      ? 'No disruption budget was violated, and no node rebooted undrained.'
      : `VIOLATED: ${violations.join('; ')}`,
  ];
}

function tenths(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
