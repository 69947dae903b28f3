import type { Operation } from '../../../packages/shared/src/api/shadow.ts';
import type { FleetContext } from '../fleet/with-fleet.ts';
import type { Fault } from './fault.ts';
import { holdAtSteps, HELD } from './hold-at-steps.ts';
import { heal, inject } from './inject.ts';
import { recover, type Recovery, RECOVERY_MS } from './recovery.ts';
import { withRollingFleet } from './rolling-fleet.ts';
import { Tolerances } from './tolerances.ts';

/** Faults that are injected at the same time, by the name of the case. */
export type Cases = Readonly<Record<string, readonly Fault[]>>;

/** A fault on each node that is held at one of these steps. */
export function onEach(fault: (node: string) => Fault, steps: readonly Operation[] = [...HELD.values()]): Fault[] {
  return [...HELD].filter(([, step]) => steps.includes(step)).map(([node]) => fault(node));
}

export interface CaseOptions {
  /**
   * Whether attempts may fail until a user requests a retry, as after faults of hosts or actions of
   * users.
   */
  readonly mayFail: boolean;
}

export interface CaseResults {
  /** Names of the cases that were selected. */
  readonly chosen: readonly string[];
  /** Names of the cases that passed. */
  readonly passed: readonly string[];
}

/**
 * Runs all `cases`, or the one that the environment variable CASE names: `make matrix CASE='etcd is
 * killed'`.
 */
export async function runCases(cases: Cases, options: CaseOptions): Promise<CaseResults> {
  const only = process.env['CASE'] ?? '';
  const chosen = Object.entries(cases).filter(([name]) => only === '' || name === only);
  const passed = chosen.length === 0 ? [] : await runOnOneFleet(Object.fromEntries(chosen), options);
  return { chosen: chosen.map(([name]) => name), passed };
}

/**
 * Runs one case after the other on one fleet: holds nodes at every step of their update, injects
 * the faults, and releases the nodes until all are updated with nothing left behind. Returns the
 * names of the cases that passed. Throws at the first case that fails or violates an invariant.
 */
async function runOnOneFleet(cases: Cases, options: CaseOptions): Promise<string[]> {
  const names: string[] = [];
  await withRollingFleet(HELD.size, async (context) => {
    for (const [name, faults] of Object.entries(cases)) {
      const { ms, askedAgain } = await runCase(context, faults).catch((error: unknown) => {
        throw new Error(`${name}: ${String(error)}`, { cause: error });
      });
      print(`${name}: ${JSON.stringify(faults)}; on every node ${ms} ms after that`);
      for (const why of askedAgain) print(`  a user asked for another attempt: ${why}`);
      if (askedAgain.length > 0 && !options.mayFail)
        throw new Error(`${name}: no attempt may fail: ${askedAgain.join('; ')}`);
      const problems = context.fleet.problems();
      if (problems.length > 0) throw new Error(`${name}: ${problems.join('; ')}`);
      names.push(name);
    }
  });
  return names;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function runCase(context: FleetContext, faults: readonly Fault[]): Promise<Recovery> {
  const tolerances = new Tolerances(context.fleet.observer);
  const { version, release } = await holdAtSteps(context);
  const outcomes = await Promise.all(
    faults.map(async (fault) => await tolerances.during(fault, async () => await inject(context, fault))),
  );
  await heal(context);
  await release();
  const recovery = await recover(context, { version, nodes: [...context.fleet.nodes.keys()], limitMs: RECOVERY_MS });
  const missed = faults.filter((_fault, index) => outcomes[index] === 'missed' && isRequired(faults[index]));
  if (missed.length > 0) throw new Error(`no victim was found for ${JSON.stringify(missed)}`);
  return recovery;
}

/**
 * Whether the fault must find a victim. A host that is down for its reboot has no power to cut and
 * no agent to stop.
 */
function isRequired(fault: Fault | undefined): boolean {
  const ofAgent = fault !== undefined && 'who' in fault && fault.who.program === 'agent' ? fault.who.node : undefined;
  const node = fault?.kind === 'power cut' ? fault.node : ofAgent;
  return node === undefined || HELD.get(node) !== 'Reboot';
}
