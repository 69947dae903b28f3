import type { DrainBlock, DrainStatus } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { afterPass, cancelled, continued, levelOfEnd, newBlocks, type PassOutcome } from './drain-record.ts';

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const LATER = NOW + 60_000;
const fresh: DrainStatus = { observedGeneration: 4, startTime: rfc3339(NOW), evicted: 0, remaining: 0 };
const block: DrainBlock = { pod: 'apps/a', reason: 'DisruptionBudget', message: 'held' };
const outcome = (changes: Partial<PassOutcome> = {}): PassOutcome => ({
  forced: false,
  evicted: 0,
  remaining: 1,
  blockedBy: [],
  handover: undefined,
  result: undefined,
  ...changes,
});

describe('the log line of the end of a drain', () => {
  it.each(['Drained', 'Blocked'] as const)('is no warning with the result %s', (result) =>
    expect(levelOfEnd(result)).toBe('info'),
  );

  it.each(['TimedOut', 'CordonRemoved', 'Forced'] as const)('is a warning with the result %s', (result) =>
    expect(levelOfEnd(result)).toBe('warn'),
  );
});

describe('a drain', () => {
  it('starts again for another generation of the spec', () => {
    expect(continued(undefined, { generation: 4, remaining: 0, now: NOW })).toEqual(fresh);
    expect(
      continued({ ...fresh, observedGeneration: 3, evicted: 7 }, { generation: 4, remaining: 0, now: NOW }),
    ).toEqual(fresh);
  });

  it.each([undefined, 'TimedOut', 'CordonRemoved', 'Forced'] as const)('with the result %s continues', (result) => {
    const before = { ...fresh, evicted: 7, ...(result !== undefined && { result }) };
    expect(continued(before, { generation: 4, remaining: 0, now: LATER })).toBe(before);
  });

  it('that has emptied the node gets its whole time limit again', () => {
    const before = { ...fresh, evicted: 7, result: 'Drained', endTime: rfc3339(NOW) } as const;
    const again = continued(before, { generation: 4, remaining: 2, now: LATER });
    expect(again).toEqual({ ...fresh, resumeTime: rfc3339(LATER), evicted: 7, remaining: 2 });
  });

  it('that was cancelled starts again', () => {
    const before = { ...fresh, evicted: 7, result: 'Cancelled', endTime: rfc3339(NOW) } as const;
    const again = continued(before, { generation: 4, remaining: 2, now: LATER });
    expect(again).toEqual({ ...fresh, startTime: rfc3339(LATER), remaining: 2 });
  });

  it('that has failed keeps its first end time', () => {
    const failed = afterPass(fresh, outcome({ result: 'TimedOut' }), NOW);
    expect(afterPass(failed, outcome({ result: 'TimedOut' }), LATER)).toEqual(failed);
  });

  it('adds up its evictions and counts the remaining pods', () => {
    const first = afterPass(fresh, outcome({ evicted: 3, remaining: 2 }), NOW);
    expect(afterPass(first, outcome({ evicted: 1, remaining: 1 }), LATER)).toEqual({
      ...fresh,
      evicted: 4,
      remaining: 1,
    });
  });

  it('keeps since when each pod blocks it', () => {
    const first = afterPass(fresh, outcome({ blockedBy: [block] }), NOW);
    const other = { ...block, pod: 'apps/b' };
    const then = afterPass(first, outcome({ blockedBy: [{ ...block, message: 'still' }, other] }), LATER);
    expect(then.blockedBy).toEqual([
      { ...block, message: 'still', since: rfc3339(NOW) },
      { ...other, since: rfc3339(LATER) },
    ]);
    expect(newBlocks(first, then).map(({ pod }) => pod)).toEqual(['apps/b']);
  });

  it('lists no more than 20 pods', () => {
    const many = Array.from({ length: 30 }, (_, number) => ({ ...block, pod: `apps/${number}` }));
    expect(afterPass(fresh, outcome({ blockedBy: many }), NOW).blockedBy).toHaveLength(20);
  });

  it('ends with a result and a time', () => {
    expect(afterPass(fresh, outcome({ remaining: 0, result: 'Drained' }), LATER)).toEqual({
      ...fresh,
      result: 'Drained',
      endTime: rfc3339(LATER),
    });
  });

  it('that is cancelled has no blocks', () => {
    const before = afterPass(fresh, outcome({ blockedBy: [block] }), NOW);
    expect(cancelled(before, LATER)).toEqual({ ...fresh, remaining: 1, result: 'Cancelled', endTime: rfc3339(LATER) });
  });
});

it('blocks that every drain has get no Event', () => {
  const blockedBy = (['Terminating', 'VolumeDetach', 'Replacement', 'Throttled', 'TerminationStuck'] as const).map(
    (reason) => ({ pod: `apps/${reason}`, reason, message: '' }),
  );
  const after = afterPass(fresh, outcome({ blockedBy }), NOW);
  expect(newBlocks(fresh, after).map(({ reason }) => reason)).toEqual(['TerminationStuck']);
});
