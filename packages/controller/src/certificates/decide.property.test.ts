/**
 * Walks years of a cluster: a leader checks every few minutes or is away for days, is killed between
 * two writes, and users delete or damage objects. Agents and API servers have what was written up to
 * an hour ago. The objects are values here; `inspect.test.ts` has the real ones.
 */
import { CLOCK_TOLERANCE_MS } from '@brupop/shared/api/deadlines';
import fc from 'fast-check';
import {
  AUTHORITY_LIFETIME_MS,
  BACKDATE_MS,
  CERTIFICATE_LIFETIME_MS,
  type Decision,
  decide,
  PUBLISH_MS,
  type Step,
  works,
} from './decide.ts';
import type { Authority, BundleEntry, Certificate, Found, ServingCertificate } from './inspect.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 1440 * MINUTE_MS;
/** Clocks of leaders differ, so what one of them counts as an hour may be a little less. */
const LAG_MS = PUBLISH_MS - 2 * CLOCK_TOLERANCE_MS;
const CHECK_MS = 5 * MINUTE_MS;

type Serving = ServingCertificate & { readonly authorities: readonly Certificate[] };

/** The three objects; undefined while there is none. */
interface World {
  now: number;
  made: number;
  keys: { current?: Authority; next?: Authority } | undefined;
  bundle: { entries: readonly BundleEntry[]; isIntact: boolean } | undefined;
  serving: Serving | 'damaged' | undefined;
  /** The certificate was issued after the former one had expired. */
  isLate: boolean;
  /** What was written before, and until when it was there. */
  bundles: { readonly entries: readonly BundleEntry[]; readonly until: number }[];
  servings: { readonly certificate: Serving; readonly until: number }[];
}

const empty = (): World => ({
  now: 1_800_000_000_000,
  made: 0,
  keys: undefined,
  bundle: undefined,
  serving: undefined,
  isLate: false,
  bundles: [],
  servings: [],
});

const ownerOf = (object: unknown) => (object === undefined ? 'absent' : 'operator');

function found({ keys, bundle, serving }: World): Found {
  const { entries = [], isIntact = false } = bundle ?? {};
  const { authorities = [], ...certificate } = typeof serving === 'object' ? serving : { signers: [] };
  const published = entries.map((entry) => entry.certificate);
  const known = [...Object.values({ ...keys }), ...published, ...authorities].map(
    (one: Certificate) => one.fingerprint,
  );
  const signers = certificate.signers.filter((signer) => known.includes(signer));
  return {
    authorities: { owner: ownerOf(keys), ...keys },
    bundle: {
      owner: ownerOf(bundle),
      entries: isIntact ? entries : published.map((one) => ({ certificate: one })),
      isIntact,
    },
    serving: {
      owner: ownerOf(serving),
      authorities,
      ...('issuer' in certificate && { certificate: { ...certificate, signers } }),
    },
  };
}

function issued(world: World, lifetime: number, latest = Infinity): Certificate {
  world.made += 1;
  const fingerprint = `certificate-${world.made}`;
  const notAfter = Math.min(world.now + lifetime, latest);
  return { fingerprint, pem: fingerprint, subject: fingerprint, notBefore: world.now - BACKDATE_MS, notAfter };
}

function issueFrom(world: World, signer: Authority): void {
  const { serving, bundle, now } = world;
  // The key was lost in the last hour of the certificate, so nothing could be prepared.
  world.isLate = typeof serving === 'object' && serving.notAfter <= now;
  replaceServing(world, {
    ...issued(world, CERTIFICATE_LIFETIME_MS, signer.notAfter),
    issuer: signer.subject,
    signers: [signer.fingerprint],
    hasNames: true,
    authorities: bundle?.entries.map(({ certificate }) => certificate) ?? [],
  });
}

const performs: { [Do in Step['do']]: (world: World, step: Extract<Step, { do: Do }>) => void } = {
  createAuthority: (world, step) => {
    const made = { ...issued(world, AUTHORITY_LIFETIME_MS), key: 'key' };
    world.keys = step.as === 'next' ? { ...world.keys, next: made } : { current: made };
  },
  promote: (world, step) => (world.keys = { current: step.next }),
  publish: (world, step) => replaceBundle(world, { entries: step.entries, isIntact: true }),
  issue: (world, step) => issueFrom(world, step.signer),
};

function perform(world: World, step: Step): void {
  const write = performs[step.do] as (world: World, step: Step) => void;
  write(world, step);
}

/** API servers serve the former certificate for a while, and also when the Secret is deleted or damaged. */
function replaceServing(world: World, serving: World['serving']): void {
  if (typeof world.serving === 'object') world.servings.push({ certificate: world.serving, until: world.now });
  world.serving = serving;
}

function replaceBundle(world: World, bundle: World['bundle']): void {
  if (world.bundle?.isIntact === true) world.bundles.push({ entries: world.bundle.entries, until: world.now });
  world.bundle = bundle;
}

/** Decides and writes until nothing is left, or until the leader is killed after `killedAfter` writes. */
function check(world: World, killedAfter = Infinity): Decision {
  for (let writes = 0; ; writes += 1) {
    const decision = decide(found(world), world.now);
    if (decision.step === undefined || writes >= killedAfter) return decision;
    if (writes >= 10) throw new Error(`not settled: ${JSON.stringify(decision.step)}`);
    perform(world, decision.step);
  }
}

/** Certificates that an API server may serve, and that some agent would reject. */
function rejected(world: World): string[] {
  const { now, bundle, serving } = world;
  world.bundles = world.bundles.filter(({ until }) => now < until + LAG_MS);
  world.servings = world.servings.filter(({ until }) => now < until + LAG_MS);
  const mounted = [...world.bundles, ...(bundle?.isIntact === true ? [bundle] : [])].map(({ entries }) => entries);
  const served = [
    ...world.servings.map(({ certificate }) => certificate),
    ...(typeof serving === 'object' ? [serving] : []),
  ];
  return served
    .filter(({ notAfter }) => now < notAfter)
    .filter(({ signers }) =>
      mounted.some(
        (entries) =>
          !entries.some(({ certificate }) => signers.includes(certificate.fingerprint) && now < certificate.notAfter),
      ),
    )
    .map(({ fingerprint }) => fingerprint);
}

const damages: Record<string, (world: World) => void> = {
  'deletes the authorities': (world) => (world.keys = undefined),
  'damages the current authority': ({ keys }) => void delete keys?.current,
  'damages the next authority': ({ keys }) => void delete keys?.next,
  'deletes the bundle': (world) => replaceBundle(world, undefined),
  'damages the bundle': (world) =>
    replaceBundle(world, { entries: world.bundle?.entries.slice(1) ?? [], isIntact: false }),
  'deletes the certificate': (world) => replaceServing(world, undefined),
  'damages the certificate': (world) => replaceServing(world, 'damaged'),
};
const damage = fc.constantFrom(...Object.keys(damages));
/** A leader that works, one that is killed after some writes, or none for days. */
const away = fc.oneof(
  { weight: 6, arbitrary: fc.record({ ms: fc.constant(CHECK_MS), killedAfter: fc.constant(Infinity) }) },
  { weight: 2, arbitrary: fc.record({ ms: fc.constant(CHECK_MS), killedAfter: fc.integer({ min: 0, max: 3 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ ms: fc.integer({ min: CHECK_MS, max: 80 * DAY_MS }), killedAfter: fc.constant(Infinity) }),
  },
);

/** Lets `ms` pass and returns what agents reject before and after. */
function pass(world: World, ms: number): string[] {
  const before = world.isLate ? [] : rejected(world);
  world.now += ms;
  return [...before, ...(world.isLate ? [] : rejected(world))];
}

interface Period {
  readonly damage: string | null;
  readonly away: { readonly ms: number; readonly killedAfter: number };
}

/** After a damage, the leader works for more than an hour. */
function live(world: World, { damage, away }: Period): string[] {
  if (damage !== null) damages[damage]?.(world);
  check(world, away.killedAfter);
  const found = pass(world, away.ms);
  const rounds = damage === null ? 0 : PUBLISH_MS / CHECK_MS + 1;
  for (let round = 0; round < rounds; round += 1) {
    check(world);
    found.push(...pass(world, CHECK_MS));
  }
  return found;
}

describe('the certificate', () => {
  it('is accepted by all agents, whatever happens to one of the objects at a time, with an hour in between', () => {
    const life = fc.array(fc.record({ damage: fc.option(damage, { freq: 3 }), away }), {
      minLength: 20,
      maxLength: 50,
    });
    fc.assert(
      fc.property(life, (periods) => {
        const world = empty();
        check(world);
        expect(periods.flatMap((period) => live(world, period))).toEqual([]);
      }),
    );
  });

  it('works again within an hour, whatever happens to all objects in any order', () => {
    const life = fc.array(fc.record({ damage, away }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(life, (periods) => {
        const world = empty();
        for (const period of periods) {
          damages[period.damage]?.(world);
          check(world, period.away.killedAfter);
          world.now += period.away.ms;
        }
        check(world);
        expect(works(found(world), world.now)).toBe(true);
        world.now += PUBLISH_MS;
        check(world);
        world.isLate = false;
        world.now += PUBLISH_MS;
        check(world);
        expect(rejected(world)).toEqual([]);
        expect(world.serving).toMatchObject({ signers: [world.keys?.current?.fingerprint] });
      }),
    );
  });

  it('is replaced every two months for ten years, and its authority every sixteen months', () => {
    const world = empty();
    const rejections: string[] = [];
    for (let at = 0; at < 3650 * DAY_MS; at += HOUR_MS) {
      check(world);
      rejections.push(...pass(world, HOUR_MS));
    }
    const authorities = 3650 / 487 + 1;
    const certificates = 3650 / 60 + authorities;
    expect(rejections).toEqual([]);
    expect(Math.abs(world.made - authorities - certificates)).toBeLessThan(3);
  });
});
