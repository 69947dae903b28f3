import { setTimeout as sleep } from 'node:timers/promises';

import type { Scene } from '../fleet/with-fleet.ts';
import { Excuses } from './excuses.ts';
import { drawFault } from './fault.ts';
import type { Fault } from './fault.ts';
import { heal, inflict } from './inflict.ts';
import { Random } from './random.ts';
import { LONG_RECOVERY_MS, recover } from './recovery.ts';
import { Report } from './report.ts';

export interface CampaignOptions {
  readonly seed: number;
  /** How many faults in all. */
  readonly faults: number;
  /** Is told what happens, a line each. */
  readonly say: (line: string) => void;
  /** Ends it after the round that is under way. */
  readonly signal?: AbortSignal;
}

/** How many nodes of a campaign's fleet update at a time. */
export const CAMPAIGN_AT_ONCE = 2;
const FAULTS_PER_ROUND = 20;
/** Between the beginnings of two faults, at most. */
const LONGEST_PAUSE_MS = 1_500;

/**
 * Random faults, from a seed, on a fleet that is updated round after round. A round publishes a version, brings faults about that overlap each
 * other, and ends when every node runs the version with nothing left behind; after a failure that is not tried again soon, a person asks for it,
 * as the shadow says. Throws when a round does not end in time; what the observer found is in the report.
 */
export async function runCampaign(scene: Scene, { seed, faults, say, signal }: CampaignOptions): Promise<Report> {
  const random = new Random(seed);
  const report = new Report();
  const excuses = new Excuses(scene.fleet.observer);
  for (let left = faults; left > 0; left -= FAULTS_PER_ROUND) {
    if (signal?.aborted === true) break;
    const nodes = [...scene.fleet.nodes.keys()].toSorted();
    const drawn = Array.from({ length: Math.min(left, FAULTS_PER_ROUND) }, () => ({
      fault: drawFault(random, nodes),
      pauseMs: random.whole(0, LONGEST_PAUSE_MS),
    }));
    const version = scene.fleet.publishNext();
    const begun = drawn.map(({ fault }) => JSON.stringify(fault)).join(' ');
    say(`${version} ${begun}`);
    await afflict(scene, excuses, report, drawn);
    await heal(scene);
    const { ms, askedAgain } = await recover(scene, { version, nodes, limitMs: LONG_RECOVERY_MS });
    report.recovered(ms);
    say(`${version} on every node ${ms} ms after the last fault`);
    for (const why of askedAgain) say(`  a person asked for another attempt: ${why}`);
    for (const what of report.check(scene.fleet)) say(`  VIOLATION: ${what}`);
  }
  return report;
}

interface Drawn {
  readonly fault: Fault;
  readonly pauseMs: number;
}

/** One fault per node and program at a time: what two would do to each other is no fault of ours. */
async function afflict(scene: Scene, excuses: Excuses, report: Report, drawn: readonly Drawn[]): Promise<void> {
  const busy = new Map<string, Promise<void>>();
  for (const { fault, pauseMs } of drawn) {
    await sleep(pauseMs);
    const place = placeOf(fault);
    const before = busy.get(place) ?? Promise.resolve();
    const strike = async (): Promise<void> =>
      report.tried(fault, await excuses.during(fault, async () => await inflict(scene, fault)));
    busy.set(place, before.then(strike));
  }
  await Promise.all(busy.values());
}

function placeOf(fault: Fault): string {
  if ('node' in fault) return fault.node;
  if ('who' in fault) return 'node' in fault.who ? fault.who.node : fault.who.program;
  return fault.kind;
}
