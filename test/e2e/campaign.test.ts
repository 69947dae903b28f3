import { jest } from '@jest/globals';
import { CAMPAIGN_AT_ONCE, runCampaign } from '../framework/faults/campaign.ts';
import { Report } from '../framework/faults/report.ts';
import { withRollingFleet } from '../framework/faults/rolling-fleet.ts';

jest.setTimeout(1_800_000);

/** `make soak` runs long campaigns. */
const FAULTS = 12;
/**
 * The fleet recovers from these faults within seconds. Others take minutes by design: a shadow that
 * is deleted while its host is down, an eviction that is cut off inside kube-apiserver.
 */
const SEED = 20_261_123;

describe('a fleet that meets random faults', () => {
  it('is updated after each round of them, with nothing left behind and nothing violated', async () => {
    const said: string[] = [];
    await withRollingFleet(CAMPAIGN_AT_ONCE, async (context) => {
      const report = new Report();
      await runCampaign(context, { seed: SEED, faults: FAULTS, report, say: (line) => said.push(line) });
      process.stdout.write(`${[...said, ...report.lines()].join('\n')}\n`);
      expect({ violations: report.violations, said }).toEqual({ violations: [], said });
      expect(report.faults).toBe(FAULTS);
    });
  });
});
