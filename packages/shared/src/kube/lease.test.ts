import { claim, waitBeforeAcquireMs, type Lease, type LeaseSpec, readLease, release, released } from './lease.ts';

const OWN_MS = 15_000;
const lease = (spec: LeaseSpec): Lease => ({ metadata: { name: 'l', uid: 'u', resourceVersion: '1' }, spec });
const others = lease({ holderIdentity: 'a', leaseDurationSeconds: 15, acquireTime: 'then' });
const givenBack = lease(release(others.spec));
const ours = lease({ holderIdentity: 'me', leaseDurationSeconds: 15, acquireTime: 'mine' });
const named = lease({ holderIdentity: 'me', leaseDurationSeconds: 15, acquireTime: 'then' });

const sightings: Record<string, [Lease | undefined, Lease | undefined, number]> = {
  'a Lease that never was may be created at once': [undefined, undefined, 0],
  'a released Lease may be taken at once': [givenBack, others, 0],
  'a released Lease that was deleted may be created at once': [undefined, givenBack, 0],
  'a Lease of another is heeded for its duration': [others, undefined, 15_000],
  'a Lease that asks for no time is heeded for the own duration': [lease({ holderIdentity: 'a' }), undefined, 15_000],
  'a Lease that asks for a second is heeded for the own duration': [
    lease({ holderIdentity: 'a', leaseDurationSeconds: 1 }),
    others,
    15_000,
  ],
  'a Lease that asks for 30 s is heeded for 30 s': [
    lease({ holderIdentity: 'a', leaseDurationSeconds: 30 }),
    others,
    30_000,
  ],
  'a Lease that asks for years is heeded for four own durations': [
    lease({ holderIdentity: 'a', leaseDurationSeconds: 2_147_483_647 }),
    others,
    60_000,
  ],
  'a Lease whose holder was taken out by hand is left to whoever led': [
    lease({ ...others.spec, holderIdentity: '' }),
    others,
    15_000,
  ],
  'a Lease without a spec is left to whoever led': [readLease({ metadata: others.metadata }), undefined, 15_000],
  'a Lease that was deleted under its holder is left to it': [undefined, others, 15_000],
  'an own Lease may be taken at once': [ours, others, 0],
  'an own Lease that was deleted may be created at once': [undefined, ours, 0],
  'a Lease that a process of the same name has left behind may be taken at once': [named, undefined, 0],
  'a Lease into which a hand has put the own name is left to whoever led': [named, others, 15_000],
};
test.each(Object.entries(sightings))('%s', (_, [now, was, expected]) => {
  expect(waitBeforeAcquireMs({ lease: now, was, identity: 'me', leaseDurationMs: OWN_MS, claimedAt: 'mine' })).toBe(
    expected,
  );
});

describe('a claim', () => {
  const claimOf = (held?: Lease): LeaseSpec =>
    claim({ lease: held, identity: 'me', leaseDurationMs: OWN_MS, acquireTime: undefined, now: 0 });

  it('counts a change of hands, and no renewal', () => {
    expect(claimOf().leaseTransitions).toBe(0);
    expect(claimOf(others).leaseTransitions).toBe(1);
    expect(claimOf(ours)).toMatchObject({ leaseTransitions: 0, acquireTime: 'mine' });
  });

  it('is still one that the API server takes when the count was set to the largest by hand', () => {
    expect(claimOf(lease({ leaseTransitions: 2_147_483_647 })).leaseTransitions).toBe(2_147_483_647);
  });

  it('is given back in a form that emptying it by hand does not have', () => {
    expect(released(givenBack)).toBe(true);
    expect(released(lease({}))).toBe(false);
    expect(released(lease({ holderIdentity: '', leaseDurationSeconds: 15 }))).toBe(false);
  });
});
