import type { DrainBlock, DrainStatus } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { afterPass, cancelled, continued, newBlocks, type PassOutcome } from './drain-status.ts';

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5);
const LATER = NOW + 60_000;
const fresh: DrainStatus = { observedGeneration: 4, startTime: rfc3339(NOW), evicted: 0, remaining: 0 };
const block: DrainBlock = { pod: 'apps/a', reason: 'DisruptionBudget', message: 'held' };
const outcome = (changes: Partial<PassOutcome> = {}): PassOutcome => ({
  evicted: 0,
  remaining: 1,
  blockedBy: [],
  handover: undefined,
  result: undefined,
  ...changes,
});

describe('a drain', () => {
  it('begins anew for another generation of the spec', () => {
    expect(continued(undefined, { generation: 4, remaining: 0, now: NOW })).toEqual(fresh);
    expect(
      continued({ ...fresh, observedGeneration: 3, evicted: 7 }, { generation: 4, remaining: 0, now: NOW }),
    ).toEqual(fresh);
  });

  it.each([undefined, 'TimedOut', 'Vetoed', 'Forced'] as const)('with the result %s goes on where it was', (result) => {
    const before = { ...fresh, evicted: 7, ...(result !== undefined && { result }) };
    expect(continued(before, { generation: 4, remaining: 0, now: LATER })).toBe(before);
  });

  it('that has emptied the node has its time again', () => {
    const before = { ...fresh, evicted: 7, result: 'Drained', endTime: rfc3339(NOW) } as const;
    const again = continued(before, { generation: 4, remaining: 2, now: LATER });
    expect(again).toEqual({ ...fresh, resumeTime: rfc3339(LATER), evicted: 7, remaining: 2 });
  });

  it('that was called off begins anew', () => {
    const before = { ...fresh, evicted: 7, result: 'Cancelled', endTime: rfc3339(NOW) } as const;
    const again = continued(before, { generation: 4, remaining: 2, now: LATER });
    expect(again).toEqual({ ...fresh, startTime: rfc3339(LATER), remaining: 2 });
  });

  it('that has failed ended when it first did', () => {
    const failed = afterPass(fresh, outcome({ result: 'TimedOut' }), NOW);
    expect(afterPass(failed, outcome({ result: 'TimedOut' }), LATER)).toEqual(failed);
  });

  it('adds up its evictions and counts what is left', () => {
    const first = afterPass(fresh, outcome({ evicted: 3, remaining: 2 }), NOW);
    expect(afterPass(first, outcome({ evicted: 1, remaining: 1 }), LATER)).toEqual({
      ...fresh,
      evicted: 4,
      remaining: 1,
    });
  });

  it('keeps since when each pod holds it up', () => {
    const first = afterPass(fresh, outcome({ blockedBy: [block] }), NOW);
    const other = { ...block, pod: 'apps/b' };
    const then = afterPass(first, outcome({ blockedBy: [{ ...block, message: 'still' }, other] }), LATER);
    expect(then.blockedBy).toEqual([
      { ...block, message: 'still', since: rfc3339(NOW) },
      { ...other, since: rfc3339(LATER) },
    ]);
    expect(newBlocks(first, then).map(({ pod }) => pod)).toEqual(['apps/b']);
  });

  it('names no more than 20 pods', () => {
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

  it('that is called off waits for nothing any more', () => {
    const before = afterPass(fresh, outcome({ blockedBy: [block] }), NOW);
    expect(cancelled(before, LATER)).toEqual({ ...fresh, remaining: 1, result: 'Cancelled', endTime: rfc3339(LATER) });
  });
});

it('what belongs to every drain is worth no Event', () => {
  const blockedBy = (['Terminating', 'VolumeDetach', 'Replacement', 'Throttled', 'TerminationStuck'] as const).map(
    (reason) => ({ pod: `apps/${reason}`, reason, message: '' }),
  );
  const after = afterPass(fresh, outcome({ blockedBy }), NOW);
  expect(newBlocks(fresh, after).map(({ reason }) => reason)).toEqual(['TerminationStuck']);
});
