import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { Condition } from '@brupop/shared/api/meta';
import type { EventSource } from '@brupop/shared/kube/events';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { Registry } from 'prom-client';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { createMetrics } from '../metrics.ts';
import { recordChanges } from './config-events.ts';

function conditions(...all: readonly (readonly [type: string, reason: string])[]): BrupopConfigStatus {
  const list = all.map(([type, reason]) => ({ type, reason, message: `why ${reason}` }) as Condition);
  return { conditions: list };
}

/** Returns the Events, and the lines of the log, of one change. */
function changed(
  before: BrupopConfigStatus | undefined,
  now: BrupopConfigStatus,
): { events: string[]; lines: string[] } {
  const { log, lines } = recordingLogger();
  const events: EventSource[] = [];
  const record = (event: EventSource): void => void events.push(event);
  const context = { clock: new FakeClock(), log, events: { record } as never, metrics: createMetrics(new Registry()) };
  recordChanges(context, { uid: 'c', before, now, failed: [], frozen: [] });
  return {
    events: events.map(({ reason }) => reason),
    lines: lines.map((line) => {
      const { level, condition, reason, message } = JSON.parse(line) as Record<string, string>;
      return `${level} ${condition} ${reason}: ${message}`;
    }),
  };
}

it.each([
  ['Ready', 'InUse', 'InvalidConfiguration', 'warn'],
  ['Paused', 'NotPaused', 'Paused', 'info'],
  ['Connected', 'LeasesRenewed', 'LeasesExpired', 'warn'],
  ['WindowOpen', 'InWindow', 'OutsideWindows', 'info'],
] as const)('the log says why no update starts, and when that is over: %s', (type, good, bad, level) => {
  const before = conditions([type, good]);
  const now = conditions([type, bad]);
  expect(changed(before, now)).toEqual({ events: [bad], lines: [`${level} ${type} ${bad}: why ${bad}`] });
  expect(changed(now, now)).toEqual({ events: [], lines: [] });
  expect(changed(now, before)).toEqual({ events: [good], lines: [`info ${type} ${good}: why ${good}`] });
  expect(changed(undefined, conditions(['Ready', 'InUse'], ['Paused', 'NotPaused']))).toEqual({
    events: [],
    lines: [],
  });
});

it('an Event and the log say that a wrong clock keeps every node from starting', () => {
  const [before, now] = [conditions(['Frozen', 'NotFrozen']), conditions(['Frozen', 'ClockSkew'])];
  expect(changed(before, now)).toEqual({ events: ['ClockSkew'], lines: ['warn Frozen ClockSkew: why ClockSkew'] });
  expect(changed(now, before)).toEqual({ events: [], lines: [] });
});

it('what changes with each node has Events alone', () => {
  const now = conditions(['Progressing', 'Updating'], ['Degraded', 'NodesFailed']);
  expect(changed(conditions(['Progressing', 'UpToDate'], ['Degraded', 'AsExpected']), now)).toEqual({
    events: ['Updating', 'NodesFailed'],
    lines: [],
  });
});
