import { setTimeout as sleep } from 'node:timers/promises';
import type { FleetContext } from '../fleet/with-fleet.ts';
import { drawFault, type Fault } from './fault.ts';
import { heal, inject } from './inject.ts';
import { Random } from './random.ts';
import { LONG_RECOVERY_MS, recover } from './recovery.ts';
import type { Report } from './report.ts';
import { Tolerances } from './tolerances.ts';
import { drawTrigger, type Trigger, untilTriggered } from './trigger.ts';

export interface CampaignOptions {
  readonly seed: number;
  /** Number of faults. */
  readonly faults: number;
  /** Collects the figures, also of a campaign that fails. */
  readonly report: Report;
  /** Receives a line for each event. */
  readonly say: (line: string) => void;
  /** Ends the campaign after the current round. */
  readonly signal?: AbortSignal;
}

/** Nodes of a campaign's fleet that update at the same time. */
export const CAMPAIGN_AT_ONCE = 2;
const FAULTS_PER_ROUND = 20;
/** Maximum time between the starts of two faults. */
const LONGEST_PAUSE_MS = 1_500;
/** How long a fault waits for its instant; after that it is injected without it. */
const INSTANT_MS = 3_000;

/**
 * Injects random faults, from a seed, into a fleet that is updated round after round. A round
 * publishes a version, injects overlapping faults, and ends when every node runs the version with
 * nothing left behind. A failure that is not retried soon is retried manually, as the shadow
 * describes. Throws when a round does not end in time. The report has the violations that the
 * observer found.
 */
export async function runCampaign(context: FleetContext, options: CampaignOptions): Promise<void> {
  const { seed, faults, report, say, signal } = options;
  const random = new Random(seed);
  const instants = new Random(seed + 1);
  const tolerances = new Tolerances(context.fleet.observer);
  for (let left = faults; left > 0; left -= FAULTS_PER_ROUND) {
    if (signal?.aborted === true) break;
    const nodes = [...context.fleet.nodes.keys()].toSorted();
    const drawn = Array.from({ length: Math.min(left, FAULTS_PER_ROUND) }, () => ({
      fault: drawFault(random, nodes),
      pauseMs: random.whole(0, LONGEST_PAUSE_MS),
      // Every second fault waits for an instant.
      trigger: instants.fraction() < 0.5 ? drawTrigger(instants) : undefined,
    }));
    const version = context.fleet.publishNext();
    const faults = drawn.map(({ fault, trigger }) => JSON.stringify({ ...fault, trigger })).join(' ');
    say(`${version} ${faults}`);
    await injectAll({ context, tolerances, report, version }, drawn);
    await heal(context);
    const { ms, askedAgain } = await recover(context, { version, nodes, limitMs: LONG_RECOVERY_MS });
    report.recovered(ms);
    say(`${version} on every node ${ms} ms after the last fault`);
    for (const why of askedAgain) say(`  a user asked for another attempt: ${why}`);
    for (const what of report.check(context.fleet)) say(`  VIOLATION: ${what}`);
  }
}

interface Drawn {
  readonly fault: Fault;
  readonly pauseMs: number;
  /**
   * The instant at which it is injected, in the update of its node if it has one; undefined: at
   * once.
   */
  readonly trigger: Trigger | undefined;
}

interface Round {
  readonly context: FleetContext;
  readonly tolerances: Tolerances;
  readonly report: Report;
  readonly version: string;
}

/** One fault per node and program at a time; two could affect each other. */
async function injectAll(round: Round, drawn: readonly Drawn[]): Promise<void> {
  const busy = new Map<string, Promise<void>>();
  for (const one of drawn) {
    await sleep(one.pauseMs);
    const target = targetOf(one.fault);
    const before = busy.get(target) ?? Promise.resolve();
    busy.set(
      target,
      before.then(async () => await injectOne(round, one)),
    );
  }
  await Promise.all(busy.values());
}

async function injectOne({ context, tolerances, report, version }: Round, { fault, trigger }: Drawn): Promise<void> {
  if (trigger !== undefined) {
    const node = 'node' in fault ? fault.node : undefined;
    report.waited(await untilTriggered(context.fleet, trigger, { version, node, limitMs: INSTANT_MS }));
  }
  report.tried(fault, await tolerances.during(fault, async () => await inject(context, fault)));
}

function targetOf(fault: Fault): string {
  if ('node' in fault) return fault.node;
  if ('who' in fault) return 'node' in fault.who ? fault.who.node : fault.who.program;
  return fault.kind;
}
