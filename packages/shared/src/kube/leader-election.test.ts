import {
  claimed,
  isReleased,
  type Lease,
  type LeaseSpec,
  released,
  renewInMs,
  requestLimitMs,
  waitBeforeAcquireMs,
} from './leader-election.ts';

const candidate = { identity: 'me', leaseDurationMs: 15_000 };
const lease = (spec?: LeaseSpec): Lease => ({
  metadata: { name: 'l', uid: 'u', resourceVersion: '1' },
  ...(spec && { spec }),
});
const other = lease({ holderIdentity: 'a', leaseDurationSeconds: 15, acquireTime: 'then' });
const own = lease({ holderIdentity: 'me', leaseDurationSeconds: 15, acquireTime: 'then' });
const ownClaim = lease({ ...own.spec, renewTime: 'sent' });
const free = lease(released(other));

const observations: Record<string, [Lease | undefined, Lease | undefined, number]> = {
  'does not wait to create the first Lease': [undefined, undefined, 0],
  'does not wait to acquire a released Lease': [free, other, 0],
  'does not wait to create a Lease that was deleted after its release': [undefined, free, 0],
  'waits for the recorded duration of a held Lease': [other, undefined, 15_000],
  'waits for its own duration when none is recorded': [lease({ holderIdentity: 'a' }), undefined, 15_000],
  'waits for its own duration when a shorter one is recorded': [
    lease({ holderIdentity: 'a', leaseDurationSeconds: 1 }),
    other,
    15_000,
  ],
  'waits for a longer recorded duration': [lease({ holderIdentity: 'a', leaseDurationSeconds: 30 }), other, 30_000],
  'waits for at most four of its own durations': [
    lease({ holderIdentity: 'a', leaseDurationSeconds: 2_147_483_647 }),
    other,
    60_000,
  ],
  'waits when a user has removed the holder': [lease({ ...other.spec, holderIdentity: '' }), other, 15_000],
  'waits when the Lease has no spec': [lease(), undefined, 15_000],
  'waits when a held Lease was deleted': [undefined, other, 15_000],
  'waits when a user has entered its identity as the holder': [own, other, 15_000],
  'does not wait when it first observes its own identity: the process was restarted': [own, undefined, 0],
  'does not wait when it finds itself as the holder because a response was lost': [ownClaim, other, 0],
  'waits when a user has replaced it as the holder': [
    lease({ ...ownClaim.spec, holderIdentity: 'a' }),
    ownClaim,
    15_000,
  ],
};
test.each(Object.entries(observations))('a candidate %s', (_, [observed, previous, expected]) => {
  expect(waitBeforeAcquireMs(observed, previous, candidate, ['earlier', 'sent'])).toBe(expected);
});

const limits = { renewDeadlineMs: 12_000, retryPeriodMs: 1_000 };
const renewals: Record<string, [number, number, number]> = {
  'renews at half of the renew deadline': [12_000, 0, 6_000],
  'renews at half of the renew deadline after a slow renewal': [7_000, 5_000, 1_000],
  'retries a rejected renewal after the retry period': [5_900, 100, 900],
  'retries a renewal without a response at once': [1_000, 5_000, 0],
  'stops in time when the renew deadline comes first': [900, 0, 900],
};
test.each(Object.entries(renewals))('a leader %s', (_, [leftMs, sinceClaimMs, expected]) => {
  expect(renewInMs(leftMs, sinceClaimMs, limits)).toBe(expected);
});

test('a renewal times out one retry period before the renew deadline, and the first acquisition at the renew deadline', () => {
  expect(requestLimitMs(6_000, limits)).toBe(5_000);
  expect(requestLimitMs(1_500, limits)).toBe(1_500);
  expect(requestLimitMs(-Infinity, limits)).toBe(12_000);
});

describe('the record of a leader', () => {
  it('counts a transition when the holder changes, not when it renews', () => {
    expect(claimed(undefined, candidate, 'now').leaseTransitions).toBe(0);
    expect(claimed(other, candidate, 'now')).toMatchObject({ leaseTransitions: 1, acquireTime: 'now' });
    expect(claimed(own, candidate, 'now')).toMatchObject({
      leaseTransitions: 0,
      acquireTime: 'then',
      renewTime: 'now',
    });
  });

  it('keeps a count of transitions that the API server accepts', () => {
    const most = lease({ leaseTransitions: 2_147_483_647 });
    expect(claimed(most, candidate, 'now').leaseTransitions).toBe(2_147_483_647);
  });

  it('is distinguished from one that a user has emptied when it is released', () => {
    expect(isReleased(free)).toBe(true);
    expect(isReleased(lease())).toBe(false);
    expect(isReleased(lease({ holderIdentity: '', leaseDurationSeconds: 15 }))).toBe(false);
  });
});
