import { MAX_RECORDED_EVENTS } from '@brupop/shared/api/config-notifications';
import { aNotice, aReceiver } from '../testing/notices.ts';
import {
  dueOf,
  FORGET_MS,
  type Known,
  knownFrom,
  newcomer,
  rolloutAfter,
  seenAt,
  withCheck,
  withoutEnded,
  withSent,
  withState,
  withUnasked,
} from './record.ts';

const SINCE = '2027-01-15T08:00:00Z';
const known = (...sent: string[]): Known => ({ state: 'Ready', since: SINCE, sent });
const NONE = { notices: [], others: [] };
const ids = (notices: readonly { readonly id: string }[]): string[] => notices.map(({ id }) => id);

describe('an event', () => {
  it('is due to a receiver that asks for it and does not know it', () => {
    const notices = [aNotice('a'), aNotice('b'), aNotice('c', { event: 'Failed' })];
    expect(ids(dueOf(notices, aReceiver({ events: ['Frozen'] }), known('a')))).toEqual(['b']);
  });

  it('is known to the next leader by the status', () => {
    const status = { receivers: [{ name: 'ops', state: 'Ready', since: SINCE, sent: ['a'] }] };
    const found = knownFrom(status, aReceiver(), SINCE);
    expect(found && dueOf([aNotice('a')], aReceiver(), found)).toEqual([]);
    expect(knownFrom(status, aReceiver({ name: 'other' }), SINCE)).toBeUndefined();
  });

  it('that ends and begins again within ten minutes stays known', () => {
    const seen = seenAt(seenAt(new Map(), { notices: [{ id: 'a' }], others: [] }, 0), NONE, FORGET_MS - 1);
    expect(withoutEnded(known('a'), seen).sent).toEqual(['a']);
  });

  it('that begins again later is sent again', () => {
    const seen = seenAt(seenAt(new Map(), { notices: [{ id: 'a' }], others: [] }, 0), NONE, FORGET_MS);
    expect(withoutEnded(known('a'), seen).sent).toEqual([]);
  });

  it('that lasts and is left out remains known, and is forgotten before one that is not', () => {
    const seen = seenAt(new Map(), { notices: [{ id: 'a' }], others: [{ id: 'b' }] }, FORGET_MS);
    expect(withoutEnded(known('a', 'b', 'c'), seen).sent).toEqual(['a', 'b']);
    const all = Array.from({ length: MAX_RECORDED_EVENTS - 1 }, () => 'a');
    expect(withSent(known(...all, 'b'), 'new', seen).sent).toEqual([...all, 'new']);
  });

  it('is recorded once, and at most a hundred are', () => {
    expect(withSent(known('a'), 'a', new Map()).sent).toEqual(['a']);
    const names = Array.from({ length: 150 }, (_, index) => String(index));
    const all = names.reduce((before, id) => withSent(before, id, new Map()), known());
    expect([all.sent.length, all.sent.at(0), all.sent.at(-1)]).toEqual([100, '50', '149']);
  });

  it('is not forgotten while it lasts, whatever has ended meanwhile', () => {
    const names = Array.from({ length: 150 }, (_, index) => String(index));
    const seen = new Map(names.map((id, index) => [id, id === '0' ? 1_000 : index]));
    const all = names.reduce((before, id) => withSent(before, id, seen), known());
    expect(all.sent).toContain('0');
  });
});

test('a new receiver gets what stops nodes, and not what failed before it was there', () => {
  const notices = [aNotice('frozen'), aNotice('failed', { event: 'Failed' })];
  expect(ids(dueOf(notices, aReceiver(), newcomer({ notices, others: [] }, SINCE)))).toEqual(['frozen']);
});

test('a receiver that asks for failures from now on gets none from before, and one that asked for them gets all', () => {
  const notices = [aNotice('frozen'), aNotice('failed', { event: 'Failed' })];
  const found = { notices, others: [] };
  const [without, all] = [aReceiver({ events: ['Frozen'] }), aReceiver()];
  expect(ids(dueOf(notices, all, withUnasked(known(), without, found, new Map())))).toEqual(['frozen']);
  expect(ids(dueOf(notices, all, withUnasked(known(), all, found, new Map())))).toEqual(['frozen', 'failed']);
  const full = known(...Array.from({ length: 100 }, (_, index) => String(index)));
  expect(withUnasked(full, without, found, new Map()).sent).toHaveLength(100);
});

describe('the state of a receiver', () => {
  it('keeps its time while only the message changes', () => {
    const problem = { message: 'no response', reason: 'Timeout', receiverHash: 'a' };
    const broken = withState(known(), 'later', 'NotReady', problem);
    expect(broken).toEqual({ state: 'NotReady', since: 'later', sent: [], ...problem });
    const other = { message: 'status 500', reason: 'ServerError', receiverHash: 'a' };
    expect(withState(broken, 'even later', 'NotReady', other)).toEqual({ ...broken, ...other });
  });

  it('is the same object while nothing changes', () => {
    const ready = known('a');
    expect(withState(ready, 'later', 'Ready')).toBe(ready);
  });

  it.each([
    ['Secret', 'Ready'],
    ['Address', 'Ready'],
    ['Refused', 'NotReady'],
    ['Unknown', 'NotReady'],
  ])('that is NotReady for the reason %s is %s after a check alone', (reason, state) => {
    const broken = withState(known(), SINCE, 'NotReady', { message: 'because', reason, receiverHash: 'a' });
    expect(withCheck(broken, 'later').state).toBe(state);
  });

  it('of another release is Unknown', () => {
    const status = { receivers: [{ name: 'ops', state: 'Muted', since: SINCE }] };
    expect(knownFrom(status, aReceiver(), SINCE)?.state).toBe('Unknown');
  });
});

describe('a rollout', () => {
  const HOUR = 3_600_000;
  const none = { startedAt: undefined, endedAt: undefined };
  const cases: Record<
    string,
    [before: Parameters<typeof rolloutAfter>[0], rolling: boolean, certain: boolean, after: object, succeeded?: number]
  > = {
    'begins when a node needs an update': [none, true, true, { startedAt: 5 * HOUR, endedAt: undefined }],
    'goes on': [{ startedAt: HOUR, endedAt: undefined }, true, true, { startedAt: HOUR, endedAt: undefined }],
    'ends when no node needs an update': [
      { startedAt: HOUR, endedAt: undefined },
      false,
      true,
      { startedAt: undefined, endedAt: 5 * HOUR },
    ],
    'ends when no node needs an update, with a success in its first second': [
      { startedAt: HOUR + 999, endedAt: undefined },
      false,
      true,
      { startedAt: undefined, endedAt: 5 * HOUR },
      HOUR,
    ],
    'in which no node has succeeded ends without a notification': [
      { startedAt: HOUR, endedAt: undefined },
      false,
      true,
      none,
      HOUR - 1_000,
    ],
    'goes on while it is not certain that it has ended': [
      { startedAt: HOUR, endedAt: undefined },
      false,
      false,
      { startedAt: HOUR, endedAt: undefined },
    ],
    'was never there': [none, false, true, none],
    'is finished for an hour': [
      { startedAt: undefined, endedAt: 4 * HOUR + 1 },
      false,
      true,
      { startedAt: undefined, endedAt: 4 * HOUR + 1 },
    ],
    'is forgotten after an hour': [{ startedAt: undefined, endedAt: 4 * HOUR }, false, true, none],
    'with an end in the future is forgotten': [{ startedAt: undefined, endedAt: 6 * HOUR }, false, true, none],
  };
  it.each(Object.entries(cases))('%s', (_, [before, isRolling, isCertain, after, succeeded = 2 * HOUR]) => {
    const found = { isRolling, isCertain, lastSuccess: () => succeeded };
    expect(rolloutAfter(before, found, 5 * HOUR)).toEqual(after);
  });
});
