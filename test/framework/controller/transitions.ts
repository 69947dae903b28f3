import type { Replica } from './replica.ts';

/** How many transitions between two versions the metrics of a controller show, by their outcome. */
export async function transitionsOf(replica: Replica, from: string, to: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  const metrics = await replica.metrics();
  for (const [, labels = '', count] of metrics.matchAll(/^brupop_update_transitions_total\{(.+)\} (\d+)$/gmu)) {
    const { outcome = '', ...versions } = Object.fromEntries(
      [...labels.matchAll(/(\w+)="([^"]*)"/gu)].map(([, name = '', value = '']) => [name, value]),
    );
    if (versions['from_version'] !== from || versions['to_version'] !== to) continue;
    counts[outcome] = (counts[outcome] ?? 0) + Number(count);
  }
  return counts;
}

/** Reasons of the Events on a Node whose update succeeds. */
export const EVENTS_OF_AN_UPDATE = ['UpdateAdvanced', 'UpdateAdvanced', 'UpdateStarted', 'UpdateSucceeded'];
