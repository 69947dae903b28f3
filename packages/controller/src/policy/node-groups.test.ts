/** Which group a node is in, and what its policy is. */
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { aGroup, aSnapshot } from '../testing/objects.ts';
import { groupOf, type NodeGroup, readNodeGroups } from './node-groups.ts';

const HOUR = 3_600_000;
const read = (groups: readonly BottlerocketNodeGroup[], config: object = {}): NodeGroup[] =>
  readNodeGroups(groups, aSnapshot([], config).policy);
const one = (spec: object, config: object = {}): NodeGroup => {
  const [group] = read([aGroup('gpu', spec)], config);
  if (group === undefined) throw new Error('there is one');
  return group;
};

it('a group may have other checks than those that sets of the configuration ask for', () => {
  const query = (name: string, when: readonly string[]): object => ({ name, when, prometheus: { query: 'up' } });
  const config = {
    quorums: [
      { name: 'db', namespace: 'db', podSelector: { matchLabels: { app: 'db' } }, members: 3, checks: ['leader'] },
    ],
    health: { checks: [query('leader', [])] },
    hooks: { before: [{ name: 'snapshot', job: { cronJob: 'snapshot' }, quorum: 'db' }] },
  };
  expect(one({ nodeSelector: {} }, config).problem).toBeUndefined();
  const group = one({ nodeSelector: {}, health: { checks: [query('errors', ['Before'])] } }, config);
  expect(group.problem).toBeUndefined();
  expect(group.policy.health.checks.map(({ name }) => name)).toEqual(['errors']);
  expect(one({ nodeSelector: {}, health: { checks: [query('errors', [])] } }, config).problem).toContain('spec.health');
});

describe('a node', () => {
  const all = { nodeSelector: {} };

  it('is in the group of the highest precedence, and of those in the first by name', () => {
    const groups = read([
      aGroup('c', all),
      aGroup('b', { ...all, precedence: 5 }),
      aGroup('a', { ...all, precedence: 5 }),
    ]);
    expect(groupOf({}, groups, undefined)?.name).toBe('a');
    expect(groupOf({}, groups.slice(1), undefined)?.name).toBe('b');
  });

  it('is in no group when none selects it', () => {
    expect(groupOf({ pool: 'web' }, read([aGroup('gpu')]), undefined)).toBeUndefined();
    expect(groupOf({ pool: 'gpu' }, read([aGroup('gpu')]), undefined)?.name).toBe('gpu');
  });

  it('that is updating is in the group that its update began with, while that exists', () => {
    const groups = read([aGroup('gpu'), aGroup('web')]);
    expect(groupOf({ pool: 'gpu' }, groups, 'web')?.name).toBe('web');
    expect(groupOf({ pool: 'gpu' }, groups, '')).toBeUndefined();
    expect(groupOf({ pool: 'gpu' }, groups, 'gone')).toBeUndefined();
  });

  it('is in at most one group, whatever the groups and their order', () => {
    const selector = fc.oneof(
      fc.constant({}),
      fc.constantFrom('a', 'b').map((pool) => ({ matchLabels: { pool } })),
    );
    const group = fc.record({
      name: fc.constantFrom('x', 'y', 'z', 'w'),
      nodeSelector: selector,
      precedence: fc.nat(2),
    });
    const groups = fc.uniqueArray(group, { selector: ({ name }) => name });
    const made = (specs: readonly { name: string; nodeSelector: object; precedence: number }[]): NodeGroup[] =>
      read(specs.map(({ name, ...spec }) => aGroup(name, spec)));
    const property = fc.property(groups, fc.constantFrom('a', 'b', 'c'), (specs, pool) => {
      const found = groupOf({ pool }, made(specs), undefined)?.name;
      expect(groupOf({ pool }, made(specs.toReversed()), undefined)?.name).toBe(found);
      const matching = specs.filter(
        ({ nodeSelector }) =>
          isDeepStrictEqual(nodeSelector, {}) || isDeepStrictEqual(nodeSelector, { matchLabels: { pool } }),
      );
      const highest = Math.max(...matching.map(({ precedence }) => precedence));
      const first = matching
        .filter(({ precedence }) => precedence === highest)
        .map(({ name }) => name)
        .toSorted()[0];
      expect(found).toBe(first);
    });
    fc.assert(property);
  });
});

describe('the policy of a group', () => {
  it('has what the group sets, and of the rest what the configuration says', () => {
    const { policy } = one({ drain: { timeout: '2h' } }, { drain: { timeout: '1h', onTimeout: 'Force' } });
    expect(policy.drain).toMatchObject({ timeoutMs: 2 * HOUR, onTimeout: 'Force' });
    expect(one({}, { retry: { attempts: 3 } }).policy.retry.attempts).toBe(3);
  });

  it('adds to what the configuration keeps from the whole fleet, and replaces its windows', () => {
    const blackout = (day: number): object => ({ from: `2026-12-0${day}T00:00:00Z`, to: `2026-12-0${day}T01:00:00Z` });
    const window = (schedule: string): object => ({ schedule, duration: '1h' });
    const { policy } = one(
      { maintenance: { blackouts: [blackout(2)], windows: [window('0 3 * * *')] }, versions: { deny: ['1.21.0'] } },
      { maintenance: { blackouts: [blackout(1)], windows: [window('0 2 * * *')] }, versions: { deny: ['1.20.0'] } },
    );
    expect(policy.maintenance.blackouts).toHaveLength(2);
    expect(policy.maintenance.windows.map(({ schedule }) => schedule)).toEqual(['0 3 * * *']);
    expect(policy.versions.deny).toEqual(['1.20.0', '1.21.0']);
  });

  it('has a pause of its own, beside that of the configuration, which goes first', () => {
    const [own, fleet] = [
      { paused: true, pauseReason: 'own' },
      { paused: true, pauseReason: 'fleet' },
    ];
    expect(one(own)).toMatchObject({ pauses: true, policy: { ...own, interrupt: false } });
    expect(one(own, fleet)).toMatchObject({ pauses: false, policy: fleet });
    expect(one({ paused: false }, fleet)).toMatchObject({ pauses: false, policy: fleet });
    expect(one({}, { paused: false, pauseReason: 'fleet' }).policy).toMatchObject({ paused: false });
    expect(one({ paused: true }, { pauseReason: 'fleet', pauseMode: 'Interrupt' }).policy).toMatchObject({
      paused: true,
      pauseReason: undefined,
      interrupt: false,
    });
  });

  it('interrupts when the group or the fleet asks for it', () => {
    const interrupting = { paused: true, pauseMode: 'Interrupt' };
    expect(one(interrupting).policy.interrupt).toBe(true);
    expect(one({ paused: true }, interrupting).policy.interrupt).toBe(true);
    expect(one(interrupting, { paused: true }).policy.interrupt).toBe(true);
    expect(one({ pauseMode: 'Interrupt' }, { paused: true }).policy.interrupt).toBe(false);
  });

  it('has hooks of its own', () => {
    const hook = (name: string): object => ({ before: [{ name, job: { cronJob: name } }] });
    const { policy } = one({ hooks: hook('own') }, { hooks: hook('fleet') });
    expect(policy.hooks.before.map(({ name }) => name)).toEqual(['own']);
    expect(one({}, { hooks: hook('fleet') }).policy.hooks.before).toHaveLength(1);
    const ofQuorum = { before: [{ name: 'own', job: { cronJob: 'own' }, quorum: 'db' }] } as const;
    expect(one({ hooks: ofQuorum }).problem).toContain('spec.hooks');
  });

  it('limits the group only by what the group itself sets', () => {
    expect(one({}, { concurrency: { maxUpdating: 3 } }).concurrency).toEqual({});
    expect(one({ concurrency: { maxUnavailable: 2 } }).concurrency).toEqual({ maxUnavailable: { nodes: 2 } });
  });
});

describe('a group with a mistake', () => {
  it.each<[string, object, RegExp]>([
    ['in what it overrides', { drain: { timeout: 'soon' } }, /^spec\.drain\.timeout: expected a duration/u],
    [
      'that only shows with the configuration',
      { retry: { maxBackoff: '1m' } },
      /^spec\.retry\.maxBackoff: expected at least/u,
    ],
    ['in its precedence', { precedence: -1 }, /^spec\.precedence: expected a whole number/u],
    ['without a selector', { nodeSelector: undefined }, /^spec\.nodeSelector: expected/u],
    ['after a group that does not exist', { after: ['web'] }, /^spec\.after: .* found "web"/u],
    ['after itself', { after: ['gpu'] }, /^spec\.after: .* cycle/u],
  ])('%s starts nothing, and says why', (_, spec, message) => {
    const { problem, policy } = one(spec);
    expect(problem).toMatch(message);
    expect(policy.problem).toBe(`BottlerocketNodeGroup "gpu": ${problem}`);
  });

  it('leaves updates under way to the configuration', () => {
    expect(one({ drain: { timeout: 'soon', onTimeout: 'Force' } }).policy.drain.onTimeout).toBe('Abort');
  });

  it('in other fields keeps its drain settings', () => {
    const { policy } = one({ retry: { maxBackoff: '1m' }, drain: { timeout: '2h', emptyDirPods: 'Block' } });
    expect(policy).toMatchObject({ drain: { emptyDirPods: 'Block' }, drainMs: 7_200_000 });
  });

  it('in its selector selects no node', () => {
    const requirements = [
      { key: 'pool', operator: 'In', values: ['gpu'] },
      { key: 'a b', operator: 'Exists' },
    ];
    expect(
      groupOf({ pool: 'gpu' }, [one({ nodeSelector: { matchExpressions: requirements } })], undefined),
    ).toBeUndefined();
  });

  it('is told from one of the configuration', () => {
    const group = one({}, { drain: { timeout: 'soon' } });
    expect([group.problem, group.policy.problem]).toEqual([undefined, expect.stringMatching(/^spec\.drain/u)]);
  });

  it('that waits for others in a circle stops all of them', () => {
    const groups = read([
      aGroup('a', { after: ['b'] }),
      aGroup('b', { after: ['c'] }),
      aGroup('c', { after: ['a'] }),
      aGroup('d'),
    ]);
    expect(groups.map(({ problem }) => problem !== undefined)).toEqual([true, true, true, false]);
  });
});

it('the settings of a group are those that its status records for this generation, and not those of another release', () => {
  const rendering = {
    conflicts: 'Respect',
    labels: {},
    annotations: {},
    taints: [],
    settings: { 'settings.motd': '"recorded"' },
  } as const;
  const dropped = { labels: [], annotations: [], taints: [] };
  const valueFor = (recorded: number): string | undefined => {
    const object = aGroup('gpu', { settings: { motd: 'rendered now' } });
    const status = { rendered: { generation: recorded, ...rendering, dropped } };
    const [group] = read([{ ...object, status }]);
    return group?.policy.settings.find(({ key }) => key === 'settings.motd')?.value;
  };
  expect(valueFor(1)).toBe('"recorded"');
  expect(valueFor(0)).toBe('"rendered now"');
});

it.each([
  [{ updates: { 'version-lock': '1.2.3' } }, 'expected settings.updates.version-lock to be set by spec.versions'],
  [{ updates: ['latest'] }, 'expected settings.updates to be set by spec.versions'],
  [{ aws: { credentials: 'p4ssw0rd' } }, 'found settings.aws.credentials: remove it here, replace the secret'],
  [{ aws: [null, null, 'p4ssw0rd'] }, 'found settings.aws: remove it here'],
  [{ 'a"b': 1 }, 'expected names of letters, digits'],
  [JSON.parse(`${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`) as object, 'expected names of letters, digits'],
  [{ motd: 'x'.repeat(2_048) }, 'expected at most 2048 characters, found more in settings.motd'],
  [
    { kernel: { sysctl: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`a.${i}`, '1'])) } },
    'found 102 with',
  ],
])('a group with a mistake in its settings requests none of them, and says why (%#)', (settings, problem) => {
  const [group] = read([aGroup('gpu', { settings: { motd: 'x', ...settings } })]);
  expect(group?.problem).toContain(problem);
  expect(group?.problem).not.toContain('p4ssw0rd');
  expect(group?.policy.settings).toEqual([]);
});

it.each([
  ['by a label that kubelets can set', { matchLabels: { pool: 'gpu' } }, true],
  ['by such a label, too', { matchLabels: { 'node-restriction.kubernetes.io/pool': 'gpu', pool: 'gpu' } }, true],
  ['without any label', {}, true],
  ['by labels that kubelets cannot set', { matchLabels: { 'node-restriction.kubernetes.io/pool': 'gpu' } }, false],
])('a group that selects %s may give no label that kubelets cannot set: %#', (_, nodeSelector, isMistake) => {
  const labels = { 'node-restriction.kubernetes.io/tenant': 'a' };
  const [{ problem = '' } = {}] = read([aGroup('gpu', { nodeSelector, nodeMetadata: { labels } })]);
  expect(problem.includes('unless kubelets can set none of the labels in spec.nodeSelector')).toBe(isMistake);
  expect(problem === '').toBe(!isMistake);
});

describe('calendars', () => {
  const windows = Array.from({ length: 50 }, (_, i) => ({ schedule: `${i} ${i % 24} * * MON-FRI`, duration: '1h' }));
  const { policy } = aSnapshot([], { maintenance: { windows } });

  it('are those of the fleet, unless a group has other windows, blackouts or mistakes', () => {
    const other = { maintenance: { windows: windows.slice(1) } };
    const broken = { maintenance: { timeZone: 'Mars/Base' } };
    const groups = readNodeGroups(
      [
        aGroup('a'),
        aGroup('b', { maintenance: { windows, margin: '1h' } }),
        aGroup('c', other),
        aGroup('d', other),
        aGroup('e', broken),
        aGroup('f', broken),
      ],
      policy,
    );
    const [a, b, c, d, e, f] = groups.map((group) => group.policy);
    expect([a, b].map((found) => found?.calendar)).toEqual([policy.calendar, policy.calendar]);
    expect([a?.calendar === policy.calendar, b?.calendarOfRequests === policy.calendarOfRequests]).toEqual([
      true,
      true,
    ]);
    expect([c?.calendar === d?.calendar, c?.calendar === policy.calendar]).toEqual([true, false]);
    for (const found of [e, f]) {
      expect([found?.calendar.nextFit(0, 1), found?.calendarOfRequests.nextFit(0, 1)]).toEqual([undefined, undefined]);
      expect(found?.problem).toContain('Mars/Base');
    }
  });

  it('of 100 groups with the 50 windows of the fleet take about as long as that of the fleet', () => {
    const objects = Array.from({ length: 100 }, (_, i) => aGroup(`g${i}`));
    const before = process.cpuUsage();
    for (const group of readNodeGroups(objects, policy)) group.policy.calendar.at(0);
    const { user, system } = process.cpuUsage(before);
    // More than ten seconds when each group had a calendar of its own, nearly the renew deadline of the Lease.
    expect((user + system) / 1_000).toBeLessThan(2_000);
  });
});
