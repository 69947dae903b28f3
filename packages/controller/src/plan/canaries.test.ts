import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { pinned } from '@brupop/shared/testing/settings';
import type { Evaluation } from '../cluster/checks.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { answered, viewOf } from '../testing/checks.ts';
import {
  ago,
  aGroup,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  OLD,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { statusOf } from '../report/config-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;

/** Updated by this operator `ms` ago. */
function updated(name: string, ms = MINUTE, node: NodeParts = {}): ManagedNode {
  const record = { succeeded: { version: NEW, at: ago(ms) } };
  return aManagedNode(name, node, { record, status: { current_version: NEW, target_version: NEW } });
}

function snapshotOf(nodes: readonly ManagedNode[], rollout: object, status?: BrupopConfigStatus): Snapshot {
  const snapshot = aSnapshot(nodes, { concurrency: { maxUpdating: 10 }, rollout });
  const config = snapshot.config && { ...snapshot.config, ...(status !== undefined && { status }) };
  return { ...snapshot, config };
}

function planned(nodes: readonly ManagedNode[], rollout: object, status?: BrupopConfigStatus, now = NOW): Plan {
  const snapshot = snapshotOf(nodes, rollout, status);
  return plan({ ...snapshot, pods: aSnapshot(nodes, {}, now).pods }, now);
}

function started(made: Plan): string[] {
  return made.specs.filter(({ outcome }) => outcome === 'Started').map(({ node }) => node.metadata.name);
}

/** Why the nodes wait. */
function reasons(made: Plan): Record<string, string> {
  const waiting = made.conditions
    .flat()
    .filter(({ progressing: { reason } }) => reason !== 'UpToDate' && reason !== 'Updating');
  return Object.fromEntries(waiting.map(({ node, progressing }) => [node.metadata.name, progressing.reason]));
}

function messageOf(made: Plan, name: string): string | undefined {
  return made.conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing.message;
}

const completed = (ms: number): BrupopConfigStatus => ({ canaries: [{ version: NEW, since: ago(ms) }] });
const pool = (name: string, of: string): ManagedNode => aManagedNode(name, { labels: { pool: of } });
const ofPool = { nodeSelector: { matchLabels: { pool: 'canary' } } };

test('without canaries all nodes start', () => {
  expect(started(planned([aManagedNode('a'), aManagedNode('b')], {}))).toEqual(['a', 'b']);
});

test('only as many nodes as the configuration says start before the others', () => {
  const made = planned([aManagedNode('a'), aManagedNode('b'), aManagedNode('c')], { canary: { nodes: 1 } });
  expect(started(made)).toEqual(['a']);
  expect(reasons(made)).toEqual({ b: 'WaitingForCanary', c: 'WaitingForCanary' });
  expect(messageOf(made, 'b')).toBe(`1 canary must update to ${NEW} before the other nodes`);
});

test('a percentage is of the nodes that need the version', () => {
  const nodes = Array.from({ length: 10 }, (_, i) => aManagedNode(`node-${i}`));
  expect(started(planned(nodes, { canary: { nodes: '20%' } }))).toEqual(['node-0', 'node-1']);
});

test('a canary that is updating keeps the others waiting', () => {
  const canary = aManagedNode('a', {}, { spec: underWay('RebootedIntoUpdate') });
  const made = planned([canary, aManagedNode('b')], { canary: { nodes: 1 } });
  expect(started(made)).toEqual([]);
  expect(reasons(made)).toEqual({ b: 'WaitingForCanary' });
});

test('the others start when the canaries have succeeded', () => {
  const made = planned([updated('a'), aManagedNode('b'), aManagedNode('c')], { canary: { nodes: 1 } });
  expect(started(made)).toEqual(['b', 'c']);
  expect(made.canaries).toEqual([{ version: NEW, since: NOW }]);
});

test('a node that joined with the version is no canary', () => {
  const joined = aManagedNode('a', {}, { status: { current_version: NEW, target_version: NEW } });
  const made = planned([joined, aManagedNode('b'), aManagedNode('c')], { canary: { nodes: 1 } });
  expect(started(made)).toEqual(['b']);
});

test('a release that reaches the nodes in waves needs as many canaries as one that reaches all at once', () => {
  const notOffered = { status: { target_version: OLD } };
  const others = ['c', 'd', 'e'].map((name) => aManagedNode(name, {}, notOffered));
  const early = planned([updated('a'), aManagedNode('b'), ...others], { canary: { nodes: 3 }, approval: 'Required' });
  expect(started(early)).toEqual(['b']);
  expect(early.canaries).toEqual([]);
});

test('a canary past its deadline is not waited for', () => {
  const hanging = aManagedNode('a', {}, { spec: underWay('RebootedIntoUpdate', 5 * HOUR) });
  const made = planned([hanging, aManagedNode('b'), aManagedNode('c')], { canary: { nodes: 1 } });
  expect(started(made)).toEqual(['b']);
  expect(messageOf(made, 'c')).toContain('not updated: a');
});

test('a node that goes back to its previous version is no canary of that', () => {
  const record = {
    succeeded: { version: OLD, at: ago(MINUTE) },
    rollback: { failed: NEW, previous: OLD, since: ago(HOUR), isDone: true },
  };
  const made = planned([aManagedNode('a', {}, { record }), aManagedNode('b')], { canary: { nodes: 1 } });
  expect(made.canaries).toEqual([]);
});

test('a node that failed as a canary is followed by another one', () => {
  const failed = aManagedNode('a', {}, { status: { crash_count: 1, state_transition_failure_timestamp: ago(0) } });
  const made = planned([failed, aManagedNode('b'), aManagedNode('c')], { canary: { nodes: 1 } });
  expect(started(made)).toEqual(['b']);
});

describe('a pin to an older version', () => {
  /** Its host offers the pinned version. */
  const newer = (name: string): ManagedNode =>
    aManagedNode(
      name,
      {},
      {
        spec: { settings: pinned({ versionLock: OLD }) },
        status: { current_version: NEW, target_version: OLD },
      },
    );
  const planned = (nodes: readonly ManagedNode[], rollout: object): Plan =>
    plan(aSnapshot(nodes, { versions: { pin: OLD }, concurrency: { maxUpdating: 10 }, rollout }), NOW);

  it('has canaries as a newer one has', () => {
    const made = planned([newer('a'), newer('b'), newer('c')], { canary: { nodes: 1 } });
    expect(started(made)).toEqual(['a']);
    expect(messageOf(made, 'b')).toBe(`1 canary must update to ${OLD} before the other nodes`);
  });

  it('needs the approval, and starts with it', () => {
    const nodes = [newer('a'), newer('b')];
    expect(reasons(planned(nodes, { approval: 'Required' }))).toEqual({
      a: 'WaitingForApproval',
      b: 'WaitingForApproval',
    });
    expect(started(planned(nodes, { approval: 'Required', approvedVersion: OLD }))).toEqual(['a', 'b']);
  });
});

describe('a reboot for settings', () => {
  const record = { startedAt: ago(30 * MINUTE), from: NEW, rebootRequestedAt: ago(25 * MINUTE) };
  const others = [aManagedNode('b'), aManagedNode('c')];
  const joined = { current_version: NEW, target_version: NEW };

  it('is no canary, and takes the place of none', () => {
    const spec = { ...underWay('MonitoringUpdate', MINUTE), version: NEW };
    const made = planned([aManagedNode('a', {}, { record, spec, status: joined }), ...others], {
      canary: { nodes: 1 },
    });
    expect(started(made)).toEqual(['b']);
  });

  it('is no success of the version that the node joined with', () => {
    const success = {
      ...record,
      succeeded: { version: NEW, at: ago(MINUTE), isReboot: true },
    };
    const made = planned([aManagedNode('a', {}, { record: success, status: joined }), ...others], {
      canary: { nodes: 1 },
    });
    expect([started(made), made.canaries]).toEqual([['b'], []]);
  });

  it.each([
    ['under way', {}],
    ['over', { succeeded: { version: NEW, at: ago(0), isReboot: true } }],
  ])('leaves on record that the node succeeded as a canary, while it is %s', (_, more) => {
    const before = { ...record, ...more, updated: { version: NEW, at: ago(HOUR) } };
    const canary = aManagedNode('a', {}, { record: before, status: joined });
    const made = planned([canary, ...others], { canary: { nodes: 1 }, soak: '30m' });
    expect(made.canaries).toEqual([{ version: NEW, since: NOW }]);
  });
});

test('a success that the release before recorded counts as it did there', () => {
  const record = { succeeded: { version: NEW, at: ago(HOUR) }, settingsRebooted: { hash: 'x', at: ago(HOUR) } };
  const canary = aManagedNode('a', {}, { record, status: { current_version: NEW, target_version: NEW } });
  expect(started(planned([canary, aManagedNode('b')], { canary: { nodes: 1 } }))).toEqual(['b']);
});

describe('a canary of a group', () => {
  const inGroup = (health: object, conditions: readonly string[]): Plan => {
    const canary = updated('a', HOUR, { labels: { pool: 'gpu' }, conditions });
    const snapshot = snapshotOf([canary, aManagedNode('b')], { canary: { nodes: 1 }, soak: '1h' }, completed(HOUR / 2));
    return plan(withGroups(snapshot, [aGroup('gpu', { health })]), NOW);
  };

  it.each([
    ['does not count', { conditions: [] }, ['DiskPressure'], []],
    ['counts', { conditions: ['GpuBroken'] }, ['GpuBroken'], ['a']],
  ])('is healthy by the rules of the group: a condition that %s there', (_, health, conditions, unhealthy) => {
    const message = messageOf(inGroup(health, conditions), 'b') ?? '';
    expect(message.includes('not healthy: a')).toBe(unhealthy.length > 0);
  });
});

test('only nodes that the selector selects are canaries', () => {
  const made = planned([pool('a', 'web'), pool('b', 'canary')], { canary: ofPool });
  expect(started(made)).toEqual(['b']);
  expect(reasons(made)).toEqual({ a: 'WaitingForCanary' });
});

test('a selector without a node that needs the version starts nothing, and says why', () => {
  const made = planned([pool('a', 'web')], { canary: ofPool });
  expect(started(made)).toEqual([]);
  expect(messageOf(made, 'a')).toBe(
    `spec.rollout.canary.nodeSelector of BrupopConfig "cluster" selects no node that updates to ${NEW}, so no node starts`,
  );
});

test('a canary that a user skips is not waited for', () => {
  const skipped = aManagedNode('a', { labels: { pool: 'canary' }, annotations: { [SKIP_ANNOTATION]: 'true' } });
  const made = planned([skipped, updated('b', MINUTE, { labels: { pool: 'canary' } }), pool('c', 'web')], {
    canary: ofPool,
  });
  expect(started(made)).toEqual(['c']);
});

describe('a query of health.checks after the update', () => {
  const spec = {
    rollout: { canary: { nodes: 1 }, soak: '1h' },
    health: { checks: [{ name: 'errors', when: ['After'], prometheus: { query: 'up' } }] },
  };

  function plannedWith(answer: Partial<Evaluation> | undefined, status?: BrupopConfigStatus): Plan {
    const snapshot = aSnapshot([updated('a'), aManagedNode('b')], spec);
    const config = snapshot.config && { ...snapshot.config, ...(status !== undefined && { status }) };
    const evaluations = answer === undefined ? new Map() : answered(snapshot.policy, NOW, () => answer);
    return plan({ ...snapshot, config, checks: viewOf(evaluations) }, NOW);
  }

  it('is asked again before the soak, which starts when it passes', () => {
    const unknown = plannedWith(undefined);
    expect(unknown.canaries).toEqual([]);
    expect(unknown.checks.evaluate).toMatchObject([{ check: 'errors' }]);
    expect(plannedWith({}).canaries).toEqual([{ version: NEW, since: NOW }]);
  });

  it('starts the soak again when it does not pass, and the others say why', () => {
    const made = plannedWith({ passed: false, found: 'no data' }, completed(20 * MINUTE));
    expect(made.canaries).toEqual([]);
    expect(messageOf(made, 'b')).toBe(
      `1 canary must update to ${NEW} before the other nodes; updated, but the check errors does not pass: no data`,
    );
  });

  it('goes on with the soak while an answer is missing', () => {
    expect(plannedWith(undefined, completed(20 * MINUTE)).canaries).toHaveLength(1);
  });

  it('is not asked any more after the soak', () => {
    const made = plannedWith({ passed: false, found: 'no data' }, completed(61 * MINUTE));
    expect(started(made)).toEqual(['b']);
    expect(made.checks.evaluate).toEqual([]);
  });
});

describe('while the canaries soak', () => {
  const rollout = { canary: { nodes: 1 }, soak: '1h' };

  it('no other node starts, and the plan is made again at the end', () => {
    const made = planned([updated('a'), aManagedNode('b')], rollout, completed(20 * MINUTE));
    expect(started(made)).toEqual([]);
    expect(reasons(made)).toEqual({ b: 'Soaking' });
    expect(made.wakeAt).toBe(NOW + 40 * MINUTE);
    expect(messageOf(made, 'b')).toBe(
      `The canaries run ${NEW}, and soak until 2027-01-15T08:40:00Z (spec.rollout.soak)`,
    );
  });

  it('the rollout is expected to be complete later', () => {
    const maintenance = { updateEstimate: '10m' };
    const nodes = [updated('a'), aManagedNode('b')];
    const snapshot = aSnapshot(nodes, { rollout, maintenance });
    const config = snapshot.config && { ...snapshot.config, status: completed(20 * MINUTE) };
    expect(plan({ ...snapshot, config }, NOW).forecast.completionTime).toBe('2027-01-15T08:50:00Z');
  });

  it.each([
    ['is not Ready', { ready: false }],
    ['has a problem condition', { conditions: ['DiskPressure'] }],
  ])('a canary that %s starts the time again', (_, unhealthy) => {
    const soaking = completed(50 * MINUTE);
    const broken = planned([updated('a', HOUR, unhealthy), aManagedNode('b')], rollout, soaking);
    expect(broken.canaries).toEqual([]);
    expect(reasons(broken)).toMatchObject({ b: 'WaitingForCanary' });
    expect(messageOf(broken, 'b')).toContain('not healthy: a');
    const healed = planned([updated('a', HOUR), aManagedNode('b')], rollout, {});
    expect(healed.canaries).toEqual([{ version: NEW, since: NOW }]);
    expect(reasons(healed)).toEqual({ b: 'Soaking' });
  });
});

describe('a soak in a fleet that changes', () => {
  const HALF = completed(12 * HOUR);
  const leaving = { taints: [{ key: 'karpenter.sh/disrupted', effect: 'NoSchedule' }] };
  const others = Array.from({ length: 19 }, (_, i) => aManagedNode(`node-${i}`));

  it.each<[string, readonly ManagedNode[], number | string]>([
    ['nodes join that need more canaries', [updated('a')], '10%'],
    ['a canary has been deleted', [updated('a')], 2],
    ['a canary is being removed', [updated('a'), updated('b', MINUTE, leaving)], 2],
    ['one that is being removed is not Ready', [updated('a'), updated('b', MINUTE, { ...leaving, ready: false })], 2],
  ])('goes on when %s', (_, canaries, nodes) => {
    const made = planned([...canaries, ...others], { canary: { nodes }, soak: '24h' }, HALF);
    expect([started(made), made.canaries]).toEqual([
      [],
      HALF.canaries?.map(({ version }) => ({ version, since: NOW - 12 * HOUR })),
    ]);
  });

  it.each<[string, readonly ManagedNode[]]>([
    ['has been deleted', []],
    ['is being removed', [updated('b', MINUTE, leaving)]],
  ])('starts again, with another canary, when the last one %s', (_, canaries) => {
    const made = planned([...canaries, ...others], { canary: { nodes: 1 }, soak: '24h' }, HALF);
    expect([started(made), made.canaries]).toEqual([['node-0'], []]);
  });

  it.each([NEW, OLD])(
    'starts again when a canary went back and is offered %s, unless enough others remain',
    (target) => {
      const record = { succeeded: { version: NEW, at: ago(MINUTE) } };
      const back = { record, status: { current_version: OLD, target_version: target } };
      const after = (...canaries: readonly ManagedNode[]): Plan =>
        planned([...canaries, ...others], { canary: { nodes: 2 }, soak: '24h' }, HALF);
      const made = after(updated('a'), aManagedNode('b', {}, back));
      expect([started(made).length, made.canaries]).toEqual([1, []]);
      const goesOn = [{ version: NEW, since: NOW - 12 * HOUR }];
      expect(after(updated('a'), aManagedNode('b', {}, back), updated('c')).canaries).toEqual(goesOn);
      expect(after(updated('a'), aManagedNode('b', leaving, back)).canaries).toEqual(goesOn);
    },
  );

  it('starts again, with other canaries, when an edit selects none of those that have succeeded', () => {
    const made = planned([updated('a'), pool('b', 'canary'), ...others], { canary: ofPool, soak: '24h' }, HALF);
    expect([started(made), made.canaries]).toEqual([['b'], []]);
  });

  it('does not start with fewer canaries than the configuration says', () => {
    const made = planned([updated('a'), updated('b', MINUTE, leaving), ...others], {
      canary: { nodes: 2 },
      soak: '24h',
    });
    expect([started(made), made.canaries]).toEqual([['node-0'], []]);
  });
});

describe('when the canaries have soaked', () => {
  const rollout = { canary: { nodes: 1 }, soak: '1h' };

  it('all others start', () => {
    expect(started(planned([updated('a'), aManagedNode('b')], rollout, completed(HOUR)))).toEqual(['b']);
  });

  it('a canary that becomes unhealthy or is deleted later changes nothing', () => {
    const down = updated('a', HOUR, { ready: false });
    expect(started(planned([down, aManagedNode('b')], rollout, completed(HOUR)))).toEqual(['b']);
    const made = planned([aManagedNode('b'), aManagedNode('c')], rollout, completed(HOUR));
    expect(started(made)).toEqual(['b', 'c']);
    expect(made.canaries).toEqual([{ version: NEW, since: NOW - HOUR }]);
  });

  it('another version begins again', () => {
    const next = { status: { target_version: '1.22.0' } };
    const made = planned([aManagedNode('a', {}, next), aManagedNode('b', {}, next)], rollout, completed(HOUR));
    expect(started(made)).toEqual(['a']);
  });
});

describe('a version that needs an approval', () => {
  const approval = 'Required';

  it('waits for it with all nodes if there are no canaries', () => {
    const made = planned([aManagedNode('a')], { approval });
    expect(reasons(made)).toEqual({ a: 'WaitingForApproval' });
    expect(messageOf(made, 'a')).toBe(
      `${NEW} needs an approval: set spec.rollout.approvedVersion of BrupopConfig "cluster" to ${NEW}`,
    );
  });

  it('waits for it after the canaries', () => {
    const rollout = { canary: { nodes: 1 }, soak: '10m', approval };
    expect(started(planned([aManagedNode('a'), aManagedNode('b')], rollout))).toEqual(['a']);
    const soaked = planned([updated('a'), aManagedNode('b')], rollout, completed(HOUR));
    expect(reasons(soaked)).toEqual({ b: 'WaitingForApproval' });
  });

  it('starts when it is the approved one', () => {
    expect(started(planned([aManagedNode('a')], { approval, approvedVersion: `${NEW}+build` }))).toEqual(['a']);
    expect(started(planned([aManagedNode('a')], { approval, approvedVersion: OLD }))).toEqual([]);
  });
});

test('the status records for which versions the canaries have succeeded', () => {
  const snapshot = snapshotOf([updated('a'), aManagedNode('b')], { canary: { nodes: 1 }, soak: '1h' });
  const { config } = snapshot;
  if (config === undefined) throw new Error('the snapshot has a configuration');
  const made = plan(snapshot, NOW);
  const status = statusOf({ config, plan: made, before: undefined, isWritten: true, now: NOW });
  expect(status.canaries).toEqual([{ version: NEW, since: ago(0) }]);
});

test.each([
  ['right', 0, NOW],
  ['wrong', -6 * HOUR, undefined],
])('a clock that is %s: what it records', (_, clockSkewMs, since) => {
  const snapshot = snapshotOf([updated('a'), aManagedNode('b')], { canary: { nodes: 1 }, soak: '1h' });
  const made = plan({ ...snapshot, clockSkewMs }, NOW);
  expect(made.canaries.map((one) => one.since)).toEqual(since === undefined ? [] : [since]);
});

test('a soak that began is kept by a clock that is hours behind', () => {
  const snapshot = snapshotOf([updated('a'), aManagedNode('b')], { canary: { nodes: 1 }, soak: '1h' }, completed(0));
  const made = plan({ ...snapshot, clockSkewMs: -6 * HOUR }, NOW - 6 * HOUR);
  expect(made.canaries).toEqual([{ version: NEW, since: NOW }]);
});

it('a canary that is not offered the version, or is off, is named', () => {
  const rollout = { canary: { nodeSelector: { matchLabels: { pool: 'canary' } } } };
  const canary = { labels: { pool: 'canary' } };
  const offered = { target_version: OLD };
  const nodes = [
    updated('a', MINUTE, canary),
    aManagedNode('b', canary, { status: offered }),
    aManagedNode('c', { ...canary, ready: false }, { status: offered }),
    aManagedNode('d'),
  ];
  const waiting = planned(nodes, rollout)
    .conditions.flat()
    .find(({ node }) => node.metadata.name === 'd');
  expect(waiting?.progressing.message).toContain('not updated: b (not offered it), c (not Ready)');
});
