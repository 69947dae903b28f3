/**
 * `make soak FAULTS=1000 SEED=7`: random faults on a fleet that is updated round after round. The
 * seed, which is printed, repeats the same faults in the same order; their effect also depends on
 * the machine. With `CAREFUL=1`, the configuration asks for canaries, rollbacks and every check of the
 * health. The exit code is 1 after a violation.
 */
import { randomInt } from 'node:crypto';
import { CAMPAIGN_AT_ONCE, runCampaign } from '../../test/framework/faults/campaign.ts';
import type { FleetContext } from '../../test/framework/fleet/with-fleet.ts';
import { Report } from '../../test/framework/faults/report.ts';
import { withRollingFleet } from '../../test/framework/faults/rolling-fleet.ts';

const DEFAULT_FAULTS = 100;

function say(line: string): void {
  process.stdout.write(`${new Date().toISOString().slice(11, 19)} ${line}\n`);
}

function wholeNumber(name: string, fallback: number): number {
  const text = process.env[name] ?? '';
  if (text === '') return fallback;
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new Error(`${name}: expected a whole number from 1, found ${text}`);
  return value;
}

async function soak(): Promise<void> {
  const faults = wholeNumber('FAULTS', DEFAULT_FAULTS);
  const seed = wholeNumber('SEED', randomInt(1, 2 ** 31));
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort());
  const isCareful = process.env['CAREFUL'] === '1';
  const repeat = `make soak FAULTS=${faults} SEED=${seed}${isCareful ? ' CAREFUL=1' : ''}`;
  say(`${faults} faults, seed ${seed} (repeat with: ${repeat})`);
  const campaign = async (context: FleetContext): Promise<void> => {
    const report = new Report();
    try {
      await runCampaign(context, { seed, faults, report, say, signal: interrupted.signal });
    } finally {
      report.check(context.fleet);
      for (const line of report.lines()) say(line);
    }
    if (report.violations.length > 0) process.exitCode = 1;
  };
  await withRollingFleet(CAMPAIGN_AT_ONCE, campaign, { isCareful });
}

try {
  await soak();
} catch (error) {
  say(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
process.exit();
