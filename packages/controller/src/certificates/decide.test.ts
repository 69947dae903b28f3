import { decide, decideCopy, PUBLISH_MS } from './decide.ts';
import type { Authority, Certificate, Found, ServingCertificate } from './inspect.ts';

const NOW = 1_800_000_000_000;
const DAY_MS = 86_400_000;

function certificate(fingerprint: string, days = 30): Certificate {
  const notAfter = NOW + days * DAY_MS;
  return { fingerprint, pem: fingerprint, subject: fingerprint, notBefore: NOW - DAY_MS, notAfter };
}

const authority = (fingerprint: string, days = 600): Authority => ({ ...certificate(fingerprint, days), key: 'key' });

const entry = (fingerprint: string, publishedAt = NOW - 2 * PUBLISH_MS) => ({
  certificate: certificate(fingerprint, 600),
  publishedAt,
});

function serving(signer: string, changes: Partial<ServingCertificate> = {}): Found['serving'] {
  const issued = { ...certificate('serving'), issuer: signer, signers: [signer], hasNames: true, ...changes };
  return { owner: 'operator', certificate: issued, authorities: [certificate(signer, 600)] };
}

/** Everything is as it should be, except for the changes. */
function settled(changes: Partial<Found> = {}): Found {
  return {
    authorities: { owner: 'operator', current: authority('a') },
    bundle: { owner: 'operator', entries: [entry('a')], isIntact: true },
    serving: serving('a'),
    ...changes,
  };
}

const absent: Found = {
  authorities: { owner: 'absent' },
  bundle: { owner: 'absent', entries: [], isIntact: false },
  serving: { owner: 'absent', authorities: [] },
};

describe('of its own authority', () => {
  it('nothing is written while all is as it should be', () => {
    expect(decide(settled(), NOW)).toEqual({});
  });

  it.each<[string, Found, object]>([
    ['nothing', absent, { do: 'createAuthority', as: 'current' }],
    ['no usable authority', settled({ authorities: { owner: 'operator' } }), { do: 'createAuthority', as: 'current' }],
    [
      'an authority that has expired',
      settled({ authorities: { owner: 'operator', current: authority('a', -0.5) } }),
      { do: 'createAuthority', as: 'current' },
    ],
    [
      'only the next authority',
      settled({ authorities: { owner: 'operator', next: authority('b') } }),
      { do: 'promote', next: authority('b') },
    ],
    [
      'an authority that is near its end',
      settled({ authorities: { owner: 'operator', current: authority('a', 0.4) } }),
      { do: 'createAuthority', as: 'next' },
    ],
    [
      'a new authority that is not in the bundle',
      settled({ authorities: { owner: 'operator', current: authority('b') } }),
      {
        do: 'publish',
        entries: [entry('a'), { ...entry('b', NOW), certificate: certificate('b', 600) }],
      },
    ],
    [
      'no bundle, and a certificate of an authority whose key is lost',
      settled({ authorities: { owner: 'operator', current: authority('b') }, bundle: absent.bundle }),
      { do: 'publish', entries: [entry('b', NOW), entry('a', NOW)] },
    ],
    [
      'a bundle with a time of the far future',
      settled({ bundle: { owner: 'operator', entries: [entry('a', NOW + DAY_MS)], isIntact: true } }),
      { do: 'publish', entries: [entry('a', NOW)] },
    ],
    [
      'a certificate that has expired',
      settled({ serving: serving('a', { notAfter: NOW - 1 }) }),
      { do: 'issue', signer: authority('a') },
    ],
    [
      'a certificate for another name',
      settled({ serving: serving('a', { hasNames: false }) }),
      { do: 'issue', signer: authority('a') },
    ],
    [
      'a damaged certificate',
      settled({ serving: { owner: 'operator', authorities: [] } }),
      { do: 'issue', signer: authority('a') },
    ],
    [
      'a certificate near its end',
      settled({ serving: serving('a', { notAfter: NOW + 0.4 * DAY_MS }) }),
      { do: 'issue', signer: authority('a') },
    ],
  ])('with %s, it writes what is missing first', (_, found, step) => {
    expect(decide(found, NOW)).toMatchObject({ step });
  });

  it('a new one signs when it has been in the bundle for an hour, and the former leaves it an hour after that', () => {
    const authorities = { owner: 'operator', current: authority('b') } as const;
    const bundle = (publishedAt: number, unusedSince?: number): Found['bundle'] => {
      const former = { ...entry('a'), ...(unusedSince !== undefined && { unusedSince }) };
      return { owner: 'operator', entries: [former, entry('b', publishedAt)], isIntact: true };
    };
    expect(decide(settled({ authorities, bundle: bundle(NOW - PUBLISH_MS + 1) }), NOW)).toEqual({});
    expect(decide(settled({ authorities, bundle: bundle(NOW - PUBLISH_MS) }), NOW)).toMatchObject({
      step: { do: 'issue', signer: authority('b') },
    });
    const replaced = { authorities, serving: serving('b') };
    const marked = bundle(NOW - 2 * PUBLISH_MS, NOW - PUBLISH_MS + 1);
    expect(decide(settled({ ...replaced, bundle: bundle(NOW - 2 * PUBLISH_MS) }), NOW)).toMatchObject({
      step: { do: 'publish', entries: [{ unusedSince: NOW }, {}] },
    });
    expect(decide(settled({ ...replaced, bundle: marked }), NOW)).toEqual({});
    expect(decide(settled({ ...replaced, bundle: marked }), NOW + 1)).toMatchObject({
      step: { do: 'publish', entries: [entry('b')] },
    });
  });

  it('the next one takes over when it has been in the bundle for an hour', () => {
    const authorities = { owner: 'operator', current: authority('a', 0.4), next: authority('b') } as const;
    const bundle = (publishedAt: number): Found['bundle'] => ({
      owner: 'operator',
      entries: [entry('a'), entry('b', publishedAt)],
      isIntact: true,
    });
    expect(decide(settled({ authorities, bundle: bundle(NOW - PUBLISH_MS + 1) }), NOW)).toEqual({});
    expect(decide(settled({ authorities, bundle: bundle(NOW - PUBLISH_MS) }), NOW)).toMatchObject({
      step: { do: 'promote', next: authority('b') },
    });
  });
});

describe('an object of another actor', () => {
  it.each(['authorities', 'bundle'] as const)('is left alone with all others, if it is the %s', (object) => {
    const found = { ...absent, [object]: { ...absent[object], owner: 'foreign' } };
    expect(decide(found, NOW)).toMatchObject({ problem: { reason: 'NotOwned', object } });
    expect(decide(found, NOW).step).toBeUndefined();
  });

  it('is trusted but not replaced, if it is the Secret of the API servers', () => {
    const found = settled({ serving: { ...serving('user'), owner: 'foreign' } });
    const problem = { reason: 'NotOwned', object: 'serving' };
    expect(decide(found, NOW)).toMatchObject({
      problem,
      step: { do: 'publish', entries: [entry('a'), entry('user', NOW)] },
    });
    const bundle: Found['bundle'] = { owner: 'operator', entries: [entry('a'), entry('user')], isIntact: true };
    expect(decide({ ...found, bundle }, NOW)).toMatchObject({ problem });
    expect(decide({ ...found, bundle }, NOW).step).toBeUndefined();
  });
});

describe('with cert-manager', () => {
  const issued = { authorities: absent.authorities, serving: { ...serving('a'), owner: 'foreign' } } as const;

  it('the authority of the Secret is copied into the bundle, and a former one stays for an hour', () => {
    const step = { do: 'publish', entries: [{ ...entry('a', NOW) }] };
    expect(decideCopy({ ...absent, ...issued }, NOW)).toMatchObject({ step });
    const bundle: Found['bundle'] = { owner: 'operator', entries: [entry('former'), entry('a')], isIntact: true };
    expect(decideCopy({ ...issued, bundle }, NOW)).toMatchObject({
      step: { do: 'publish', entries: [{ ...entry('former'), unusedSince: NOW }, entry('a')] },
    });
    expect(decideCopy({ ...issued, bundle: { ...bundle, entries: [entry('a')] } }, NOW)).toEqual({});
  });

  it.each<[string, Found['serving'], string]>([
    ['no Secret', absent.serving, 'not written it yet'],
    ['no authority', { ...issued.serving, authorities: [] }, 'ca.crt'],
    ['another name', serving('a', { hasNames: false }), 'the name'],
    ['another signer', serving('a', { signers: [] }), 'signed it'],
    ['an end in the past', serving('a', { notAfter: NOW }), 'expired'],
    ['no pair', { owner: 'foreign', authorities: [certificate('a', 600)] }, 'private key'],
  ])('a Secret with %s is reported', (_, found, message) => {
    const bundle: Found['bundle'] = { owner: 'operator', entries: [entry('a')], isIntact: true };
    const { problem } = decideCopy({ ...issued, bundle, serving: found }, NOW);
    expect([problem?.object, problem?.message]).toEqual(['serving', expect.stringContaining(message)]);
  });

  it('an authority that has expired is reported, and the bundle is left as it is', () => {
    const expired = { ...entry('a'), certificate: certificate('a', -600) };
    const found: Found['serving'] = { ...issued.serving, authorities: [expired.certificate] };
    const bundle: Found['bundle'] = { owner: 'operator', entries: [expired], isIntact: true };
    const { step, problem } = decideCopy({ ...issued, bundle, serving: found }, NOW);
    expect([step, problem?.reason]).toEqual([undefined, 'InvalidSecret']);
  });
});
