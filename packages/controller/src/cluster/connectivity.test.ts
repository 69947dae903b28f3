import { ZONE_LABEL } from '@brupop/shared/api/names';
import { ago, aManagedNode, MINUTE, type NodeParts, NOW, POLICY, type ShadowParts } from '../testing/objects.ts';
import {
  type ClusterLoss,
  type Connectivity,
  ConnectivityGuard,
  lossOf,
  lostZones,
  type NodeLease,
  readLease,
  RELEASE_AFTER_MS,
  STARTS_FOR_MS,
} from './connectivity.ts';
import type { ManagedNode } from './snapshot.ts';

const SECOND = 1_000;
/** Three quarters of the default of 50 s. */
const EXPIRY = 37_500;

const leaseOf = (name: string, renewedAt: number | undefined): NodeLease => ({
  metadata: { name, uid: name, resourceVersion: '1' },
  renewedAt,
});

interface FleetParts {
  readonly node?: (name: string) => NodeParts;
  readonly shadow?: (name: string) => ShadowParts;
}

/** A guard, its nodes, and a clock that both share; the nodes renew their Leases unless they are cut off. */
class Fleet {
  readonly cutOff = new Set<string>();
  readonly #guard = new ConnectivityGuard();
  readonly #nodes: readonly ManagedNode[];
  #ms = 0;

  constructor(count: number, { node, shadow }: FleetParts = {}) {
    const names = Array.from({ length: count }, (_, index) => `node-${index}`);
    this.#nodes = names.map((name) => aManagedNode(name, node?.(name), shadow?.(name)));
    this.renew();
  }

  renew(times: (name: string) => number = () => NOW + this.#ms): void {
    for (const { name } of this.#nodes) if (!this.cutOff.has(name)) this.observe(leaseOf(name, times(name)));
  }

  observe(object: NodeLease, type: 'Modified' | 'Deleted' = 'Modified'): void {
    this.#guard.observe({ type, object }, { wall: NOW + this.#ms, monotonic: this.#ms });
  }

  /** Lets time pass; nodes that are not cut off renew their Leases every ten seconds. */
  pass(ms: number): Connectivity {
    for (let left = ms; left > 0; left -= 10 * SECOND) {
      this.#ms += Math.min(left, 10 * SECOND);
      this.renew();
      this.probe();
    }
    return this.probe();
  }

  /** `silentMs`: since the latest event of the watch. */
  probe(silentMs = 0, { isUnsure = false, setBackMs = 0, percent = 60 } = {}): Connectivity {
    const policy = { connectivity: { ...POLICY.connectivity, expiredPercent: percent } };
    const now = { wall: NOW + this.#ms - setBackMs, monotonic: this.#ms, silentMs, isUnsure };
    return this.#guard.probe(this.#nodes, policy, now);
  }

  /** Of the whole cluster. */
  probeCluster(silentMs = 0): ClusterLoss {
    const now = { wall: NOW + this.#ms, monotonic: this.#ms, silentMs, isUnsure: false };
    return this.#guard.probeCluster(this.#nodes, POLICY, now);
  }

  /** Another process has reported a loss that began this long ago. */
  resumeClusterLoss(msAgo: number): void {
    this.#guard.resumeClusterLoss(NOW + this.#ms - msAgo, { wall: NOW + this.#ms, monotonic: this.#ms });
  }

  /** As `pass`, of the whole cluster. */
  passCluster(ms: number): ClusterLoss {
    for (let left = ms; left > 0; left -= 10 * SECOND) {
      this.#ms += Math.min(left, 10 * SECOND);
      this.renew();
      this.probeCluster();
    }
    return this.probeCluster();
  }

  hasExpired(name: string, silentMs = 0): boolean | undefined {
    return this.#guard.hasExpired(name, POLICY, { monotonic: this.#ms, silentMs });
  }

  wait(ms: number): void {
    this.#ms += ms;
  }

  cut(count: number): void {
    for (const { name } of this.#nodes.slice(0, count)) this.cutOff.add(name);
  }
}

const inZone = (name: string): NodeParts => ({ labels: { [ZONE_LABEL]: name < 'node-3' ? 'a' : 'b' } });

it('connectivity is lost when 60 percent of the Leases have not been renewed for three quarters of the grace period', () => {
  const fleet = new Fleet(10);
  fleet.cut(6);
  expect(fleet.pass(EXPIRY - 1)).toMatchObject({ lost: false, expired: [], counted: 10 });
  const found = fleet.pass(1);
  expect(found).toMatchObject({ lost: true, lostUntil: NOW + EXPIRY });
  expect(found.expired.map(({ name, ageMs }) => `${name} ${ageMs}`)).toEqual(
    [0, 1, 2, 3, 4, 5].map((index) => `node-${index} ${EXPIRY}`),
  );
});

it.each<readonly [string, number, number, boolean]>([
  ['five of ten nodes', 10, 5, false],
  ['one of two nodes', 2, 1, false],
  ['the only node', 1, 1, false],
  ['two of two nodes', 2, 2, true],
  ['two of three nodes', 3, 2, true],
])('when %s are cut off, of %s nodes %s: lost is %s', (_, count, cut, lost) => {
  const fleet = new Fleet(count);
  fleet.cut(cut);
  expect(fleet.pass(MINUTE).lost).toBe(lost);
});

it('a zone that is cut off is lost, and not the fleet', () => {
  const fleet = new Fleet(10, { node: inZone });
  fleet.cut(3);
  const found = fleet.pass(MINUTE);
  expect(found).toMatchObject({ lost: false, lostUntil: 0 });
  expect(lostZones(found)).toEqual(['a']);
  const lossOfZone = (name: string): unknown => lossOf(found, aManagedNode(name, inZone(name)).node);
  expect(lossOfZone('node-0')).toEqual({ lost: true, lostUntil: NOW + MINUTE });
  expect(lossOfZone('node-9')).toEqual({ lost: false, lostUntil: 0 });
  fleet.cutOff.clear();
  fleet.pass(10 * SECOND);
  expect(lostZones(fleet.pass(RELEASE_AFTER_MS))).toEqual([]);
});

it('two kubelets that label themselves into a zone, and no longer renew their Leases, stop nothing', () => {
  const fleet = new Fleet(7, {
    node: (name) => ({ labels: { [ZONE_LABEL]: name < 'node-2' ? 'of-their-own' : 'b' } }),
  });
  fleet.cut(2);
  expect(lostZones(fleet.pass(MINUTE))).toEqual([]);
  const joined = new Fleet(7, { node: (name) => ({ labels: { [ZONE_LABEL]: name < 'node-3' ? 'of-another' : 'b' } }) });
  joined.cut(2);
  const found = joined.pass(MINUTE);
  expect([found.lost, lostZones(found)]).toEqual([false, []]);
});

it('nodes without the label of a zone are in no zone', () => {
  const fleet = new Fleet(20, { node: (name) => (name < 'node-13' ? {} : { labels: { [ZONE_LABEL]: 'b' } }) });
  fleet.cut(5);
  const found = fleet.pass(MINUTE);
  expect([found.lost, lostZones(found)]).toEqual([false, []]);
});

it('nodes that have been silent for an hour are off and do not count', () => {
  const fleet = new Fleet(8);
  fleet.cut(5);
  expect(fleet.pass(60 * MINUTE - SECOND)).toMatchObject({ lost: true, counted: 8 });
  fleet.pass(SECOND);
  expect(fleet.pass(RELEASE_AFTER_MS)).toMatchObject({ lost: false, counted: 3, expired: [] });
});

describe('while no node at all is heard', () => {
  it('their hour stands still, and counts again when the first ones are back', () => {
    const fleet = new Fleet(8);
    fleet.cut(8);
    expect(fleet.pass(5 * 60 * MINUTE)).toMatchObject({ lost: true, counted: 8 });
    for (const name of ['node-0', 'node-1']) fleet.cutOff.delete(name);
    expect(fleet.pass(60 * MINUTE - SECOND)).toMatchObject({ lost: true, counted: 8 });
    fleet.pass(2 * SECOND);
    expect(fleet.pass(RELEASE_AFTER_MS)).toMatchObject({ lost: false, counted: 2, expired: [] });
  });

  it('the loss ends when enough are back, and the next one lasts an hour', () => {
    const fleet = new Fleet(8);
    fleet.cut(8);
    fleet.pass(5 * 60 * MINUTE);
    fleet.cutOff.clear();
    fleet.pass(10 * SECOND);
    expect(fleet.pass(2 * RELEASE_AFTER_MS)).toMatchObject({ lost: false, counted: 8 });
    fleet.cut(5);
    expect(fleet.pass(60 * MINUTE - SECOND).lost).toBe(true);
    fleet.pass(SECOND);
    expect(fleet.pass(RELEASE_AFTER_MS)).toMatchObject({ lost: false, counted: 3 });
  });

  it('a process that starts then sees the loss', () => {
    const fleet = new Fleet(8);
    fleet.cut(8);
    for (const name of fleet.cutOff) fleet.observe(leaseOf(name, NOW - 5 * 60 * MINUTE));
    expect(fleet.probe()).toMatchObject({ lost: true, counted: 8 });
  });
});

it('nodes that are off hold up nothing while the only other one is in its update', () => {
  const updating: ShadowParts = { spec: { state: 'StagedAndPerformedUpdate', version: '1.21.0' } };
  const fleet = new Fleet(3, { shadow: (name) => (name === 'node-2' ? updating : {}) });
  fleet.cut(2);
  for (const name of fleet.cutOff) fleet.observe(leaseOf(name, NOW - 3 * 24 * 60 * MINUTE));
  fleet.pass(STARTS_FOR_MS);
  expect(fleet.pass(MINUTE)).toMatchObject({ lost: false, counted: 0 });
});

describe('a process that starts with the first nodes after an outage of hours', () => {
  const restarted = (count: number, off: number, hours: number): Fleet => {
    const fleet = new Fleet(count);
    fleet.cut(off);
    for (const name of fleet.cutOff) fleet.observe(leaseOf(name, NOW - hours * 60 * MINUTE));
    return fleet;
  };

  it('waits until most others are heard', () => {
    const fleet = restarted(8, 7, 2);
    expect(fleet.pass(5 * MINUTE)).toMatchObject({ lost: true, counted: 8 });
    fleet.cutOff.clear();
    fleet.pass(10 * SECOND);
    expect(fleet.pass(RELEASE_AFTER_MS)).toMatchObject({ lost: false, counted: 8, expired: [] });
  });

  it('waits for ten minutes at most, since the others may be off for good', () => {
    const fleet = restarted(8, 5, 3 * 24);
    expect(fleet.pass(STARTS_FOR_MS)).toMatchObject({ lost: true, counted: 8 });
    expect(fleet.pass(RELEASE_AFTER_MS + 10 * SECOND)).toMatchObject({ lost: false, counted: 3, expired: [] });
  });
});

it('connectivity is back when Leases have been renewed for twenty seconds without a break', () => {
  const fleet = new Fleet(4);
  fleet.cut(4);
  fleet.pass(MINUTE);
  fleet.cutOff.clear();
  const backAt = fleet.pass(10 * SECOND).lostUntil;
  fleet.cut(4);
  expect(fleet.pass(MINUTE).lost).toBe(true);
  fleet.cutOff.clear();
  fleet.pass(10 * SECOND);
  expect(fleet.pass(RELEASE_AFTER_MS - 1).lost).toBe(true);
  const found = fleet.pass(1);
  expect(found).toMatchObject({ lost: false, expired: [] });
  expect(found.lostUntil).toBeGreaterThan(backAt);
  expect(fleet.pass(MINUTE).lostUntil).toBe(found.lostUntil);
});

it.each<readonly [string, NodeParts, ShadowParts]>([
  ['younger than a minute', { creationTimestamp: ago(-30 * SECOND) }, {}],
  ['being deleted', { deletionTimestamp: ago(0) }, {}],
  ['not managed', { managed: false }, {}],
  ['updating', {}, { spec: { state: 'RebootedIntoUpdate' } }],
])('nodes that are %s are not counted', (_, node, shadow) => {
  const fleet = new Fleet(4, { node: () => node, shadow: () => shadow });
  fleet.cut(4);
  expect(fleet.pass(MINUTE)).toMatchObject({ lost: false, counted: 0 });
});

it('nodes without a Lease are not counted', () => {
  const fleet = new Fleet(4);
  fleet.cut(4);
  for (const name of fleet.cutOff) fleet.observe(leaseOf(name, undefined));
  expect(fleet.pass(MINUTE)).toMatchObject({ lost: false, counted: 0 });
  fleet.observe(leaseOf('node-0', NOW));
  expect(fleet.probe().counted).toBe(1);
  fleet.observe(leaseOf('node-0', NOW), 'Deleted');
  expect(fleet.probe().counted).toBe(0);
});

it('the clocks of nodes do not matter: a Lease counts from when it was seen renewed', () => {
  const fleet = new Fleet(4);
  for (let renewals = 1; renewals <= 10; renewals += 1) {
    fleet.wait(10 * SECOND);
    fleet.renew(() => NOW + renewals - 10 * MINUTE);
    fleet.renew(() => NOW + 10 * MINUTE + renewals);
  }
  expect(fleet.probe()).toMatchObject({ lost: false, expired: [] });
  fleet.cut(4);
  expect(fleet.pass(EXPIRY).lost).toBe(true);
});

it('a new process takes the time in a Lease for its age, and a Lease that is set back is not renewed', () => {
  const fleet = new Fleet(2);
  fleet.renew(() => NOW - MINUTE);
  expect(fleet.probe().expired.map(({ ageMs }) => ageMs)).toEqual([MINUTE, MINUTE]);
});

it('while the watch of the Leases is silent nothing changes', () => {
  const fleet = new Fleet(4);
  fleet.wait(10 * MINUTE);
  expect(fleet.probe(10 * MINUTE)).toMatchObject({ lost: false, expired: [] });
  expect(fleet.probe().lost).toBe(true);
});

it('a Lease is read from what kubelets write', () => {
  const metadata = { name: 'a', uid: 'u', resourceVersion: '1' };
  const raw = (spec: unknown): unknown => ({ metadata: { ...metadata, managedFields: [] }, spec });
  expect(readLease(raw({ renewTime: '2027-01-15T08:00:00.123456Z' }))).toEqual({
    metadata,
    renewedAt: Date.parse('2027-01-15T08:00:00.123Z'),
  });
  for (const spec of [undefined, {}, { renewTime: 'soon' }]) expect(readLease(raw(spec)).renewedAt).toBeUndefined();
});

it('time limits start again when a watch is no longer stale, although no Lease has expired', () => {
  const fleet = new Fleet(4);
  expect(fleet.probe().lostUntil).toBe(0);
  expect(fleet.probe(0, { isUnsure: true })).toMatchObject({ lost: false, lostUntil: NOW });
  expect(fleet.pass(MINUTE).lostUntil).toBe(NOW);
});

it('the end of a loss is never in the future, also when the clock is set back', () => {
  const fleet = new Fleet(4);
  fleet.cut(4);
  expect(fleet.pass(MINUTE).lost).toBe(true);
  const setBackMs = 24 * 60 * MINUTE;
  expect(fleet.probe(0, { setBackMs }).lostUntil).toBe(NOW + MINUTE - setBackMs);
});

it('0 percent switches it off', () => {
  const fleet = new Fleet(4);
  fleet.cut(4);
  fleet.wait(MINUTE);
  expect(fleet.probe(0, { percent: 0 })).toMatchObject({ lost: false, counted: 4 });
});

it('the Lease of one node has expired also while it updates, and not by the silence of the watch', () => {
  const fleet = new Fleet(2, { shadow: () => ({ spec: { state: 'RebootedIntoUpdate', version: '1.21.0' } }) });
  fleet.cut(1);
  fleet.pass(EXPIRY - 1);
  expect(fleet.hasExpired('node-0')).toBe(false);
  fleet.pass(1);
  expect([fleet.hasExpired('node-0'), fleet.hasExpired('node-1')]).toEqual([true, false]);
  expect(fleet.hasExpired('node-0', 1_000)).toBe(false);
  expect(fleet.hasExpired('without-a-lease')).toBeUndefined();
});

/** node-0 to node-9 in three zones: a has four nodes, b and c have three. */
const inThreeZones = (name: string): NodeParts => {
  const zone = name < 'node-4' ? 'a' : name < 'node-7' ? 'b' : 'c';
  return { labels: { [ZONE_LABEL]: zone }, managed: false };
};

describe('the whole cluster', () => {
  it('is lost when seven of ten nodes are silent for a while, also those that are not managed', () => {
    const fleet = new Fleet(10, { node: inThreeZones });
    fleet.cut(7);
    const silent = { counted: 10, expired: 7 };
    expect(fleet.passCluster(EXPIRY - 1)).toMatchObject({ lost: false, isChanging: false, counted: 10, expired: 0 });
    expect(fleet.passCluster(1)).toMatchObject({ lost: false, isChanging: true, ...silent });
    expect(fleet.passCluster(RELEASE_AFTER_MS - 1)).toMatchObject({ lost: false, isChanging: true, ...silent });
    const since = NOW + EXPIRY + RELEASE_AFTER_MS;
    expect(fleet.passCluster(1)).toEqual({ lost: true, isChanging: false, since, ...silent });
    fleet.cutOff.clear();
    expect(fleet.passCluster(10 * SECOND)).toMatchObject({ lost: true, isChanging: true, since });
    expect(fleet.passCluster(RELEASE_AFTER_MS)).toEqual({ lost: false, isChanging: false, counted: 10, expired: 0 });
  });

  it.each<readonly [string, number, number, boolean]>([
    ['two of two', 2, 2, false],
    ['two of three', 3, 2, false],
    ['three of three', 3, 3, true],
    ['five of ten', 10, 5, false],
    ['six of ten', 10, 6, true],
  ])('when %s nodes are silent, of %s nodes %s: lost is %s', (_, count, cut, lost) => {
    const fleet = new Fleet(count, { node: () => ({ managed: false }) });
    fleet.cut(cut);
    expect(fleet.passCluster(2 * MINUTE).lost).toBe(lost);
  });

  it('is not lost with one zone alone, even if that has most nodes and another one fails elsewhere', () => {
    const large = (name: string): NodeParts => ({ labels: { [ZONE_LABEL]: name < 'node-6' ? 'a' : 'b' } });
    const fleet = new Fleet(10, { node: large });
    fleet.cut(6);
    expect(fleet.passCluster(2 * MINUTE)).toMatchObject({ lost: false, isChanging: false, expired: 6 });
    fleet.cut(7);
    expect(fleet.passCluster(2 * MINUTE)).toMatchObject({ lost: false, isChanging: false, expired: 7 });
    fleet.cut(8);
    expect(fleet.passCluster(2 * MINUTE).lost).toBe(true);
  });

  it.each([
    ['a a b c', 3, false],
    ['a a b c', 4, true],
    ['a a b b c', 3, false],
    ['a a b b c', 4, true],
    ['a a a a b', 4, false],
    ['a a a a b', 5, true],
  ])('of nodes in the zones %s the first %s are silent: lost is %s', (zones, cut, lost) => {
    const zoneOf = (name: string): string => zones.split(' ')[Number(name.split('-')[1])] ?? '';
    const fleet = new Fleet(zones.split(' ').length, { node: (name) => ({ labels: { [ZONE_LABEL]: zoneOf(name) } }) });
    fleet.cut(cut);
    expect(fleet.passCluster(2 * MINUTE).lost).toBe(lost);
  });

  it('is not lost when three are silent while the others update, which count unless they are silent themselves', () => {
    const shadow = (name: string): ShadowParts =>
      name < 'node-3' ? {} : { spec: { state: 'StagedAndPerformedUpdate', version: '1.21.0' } };
    const fleet = new Fleet(10, { shadow });
    fleet.cut(3);
    expect(fleet.passCluster(2 * MINUTE)).toMatchObject({ lost: false, counted: 10, expired: 3 });
    fleet.cut(10);
    expect(fleet.passCluster(2 * MINUTE)).toMatchObject({ lost: true, counted: 3, expired: 3 });
  });

  it.each([
    ['one more of five is silent', 'a b c', 'a a', true],
    ['one more of six is silent', 'a b c', 'a a a', false],
    ['a zone is silent, and six are outside of it', 'a a a a a a a a b c', 'd d d d', true],
    ['a zone is silent, and seven are outside of it', 'a a a a a a a a b c', 'd d d d d', false],
  ])(
    'two nodes that conspire, and choose their zones, when %s: %s are silent, %s are heard',
    (_, silent, heard, lost) => {
      const zones = `${silent} ${heard}`.split(' ');
      const labels = (name: string): Record<string, string> => ({
        [ZONE_LABEL]: zones[Number(name.split('-')[1])] ?? '',
      });
      const fleet = new Fleet(zones.length, { node: (name) => ({ labels: labels(name) }) });
      fleet.cut(silent.split(' ').length);
      expect(fleet.passCluster(2 * MINUTE).lost).toBe(lost);
    },
  );

  it('stays lost as long as its nodes are silent, and those that were off before do not count', () => {
    const fleet = new Fleet(10, { node: () => ({ managed: false }) });
    fleet.cut(1);
    fleet.passCluster(61 * MINUTE);
    fleet.cut(8);
    expect(fleet.passCluster(5 * 60 * MINUTE)).toMatchObject({ lost: true, counted: 9, expired: 7 });
  });

  it('is lost at once for a process that starts hours later, if one before has reported it', () => {
    const fleet = new Fleet(10, { node: () => ({ managed: false }) });
    fleet.cut(8);
    for (const name of fleet.cutOff) fleet.observe(leaseOf(name, NOW - 5 * 60 * MINUTE));
    expect(fleet.probeCluster().counted).toBe(2);
    fleet.resumeClusterLoss(5 * 60 * MINUTE);
    expect(fleet.probeCluster()).toMatchObject({ lost: true, isChanging: false, counted: 10, expired: 8 });
  });

  it('that was reported as lost, and no longer is, changes before anything is scaled', () => {
    const fleet = new Fleet(10, { node: () => ({ managed: false }) });
    fleet.resumeClusterLoss(5 * 60 * MINUTE);
    expect(fleet.probeCluster()).toMatchObject({ lost: true, isChanging: true });
    expect(fleet.passCluster(RELEASE_AFTER_MS)).toMatchObject({ lost: false, isChanging: false });
  });

  it('is not lost after an outage of the API server, in which no Lease could be renewed, nor by a clock that is ahead', () => {
    const fleet = new Fleet(10, { node: () => ({ managed: false }) });
    fleet.wait(2 * MINUTE);
    expect(fleet.probeCluster()).toMatchObject({ lost: false, isChanging: true, expired: 10 });
    expect(fleet.passCluster(MINUTE)).toMatchObject({ lost: false, isChanging: false, expired: 0 });
    const ahead = new Fleet(10, { node: () => ({ managed: false }) });
    for (const name of Array.from({ length: 10 }, (_, index) => `node-${index}`))
      ahead.observe(leaseOf(name, NOW - 2 * MINUTE));
    expect(ahead.probeCluster()).toMatchObject({ lost: false, isChanging: true });
    expect(ahead.passCluster(MINUTE)).toMatchObject({ lost: false, isChanging: false });
  });

  it('does not change while the watch of the Leases is silent', () => {
    const fleet = new Fleet(4, { node: () => ({ managed: false }) });
    fleet.wait(10 * MINUTE);
    expect(fleet.probeCluster(10 * MINUTE)).toMatchObject({ lost: false, isChanging: false });
    expect(fleet.probeCluster()).toMatchObject({ lost: false, isChanging: true });
    fleet.wait(10 * MINUTE);
    expect(fleet.probeCluster(10 * MINUTE)).toMatchObject({ lost: false, isChanging: true });
    expect(fleet.probeCluster()).toMatchObject({ lost: true, isChanging: false });
  });
});

it('a zone that has been silent for an hour is off, and its loss has just ended when its first node is heard', () => {
  const fleet = new Fleet(8, { node: inZone });
  fleet.pass(STARTS_FOR_MS);
  fleet.cut(3);
  fleet.pass(59 * MINUTE);
  expect(lostZones(fleet.probe())).toEqual(['a']);
  const lostAt = fleet.pass(2 * MINUTE).zones.get('a')?.lostUntil ?? 0;
  expect(fleet.pass(3 * 60 * MINUTE).zones.get('a')).toEqual({ lost: false, lostUntil: lostAt, isOff: true });
  fleet.cutOff.delete('node-0');
  const back = fleet.pass(10 * SECOND).zones.get('a');
  expect(back).toEqual({ lost: false, lostUntil: NOW + STARTS_FOR_MS + 241 * MINUTE + 10 * SECOND });
  expect(fleet.pass(MINUTE).zones.get('a')).toEqual(back);
});
