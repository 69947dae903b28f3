import type { BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { settingsOfVersions } from '../policy/policy.ts';
import { GROUP_CONDITIONS } from '../report/config-conditions.ts';
import {
  ago,
  aGroup,
  aManagedNode,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  NOW,
  OLD,
  underWay,
  withGroups,
} from '../testing/objects.ts';
import { wholePlan, type WholePlan } from '../whole-plan.ts';
import { isCertain, isRolling, MAX_NOTICES, type Notice, noticesOf } from './events.ts';

const HOUR = 60 * MINUTE;

interface World {
  readonly nodes: readonly ManagedNode[];
  readonly spec?: object;
  readonly status?: BrupopConfigStatus;
  readonly groups?: Parameters<typeof withGroups>[1];
  readonly changes?: Partial<WholePlan>;
  readonly finishedAt?: number;
}

function planOf({ nodes, spec = {}, status = {}, groups = [], changes = {} }: World): WholePlan {
  const snapshot = aSnapshot(nodes, spec);
  const config = snapshot.config && { ...snapshot.config, status };
  return { ...wholePlan(withGroups({ ...snapshot, config }, groups), NOW), ...changes };
}

function allFound(world: World): ReturnType<typeof noticesOf> {
  const { nodes, status = {}, groups = [], finishedAt } = world;
  return noticesOf({ plan: planOf(world), status, groups, nodes, finishedAt });
}
const found = (world: World): readonly Notice[] => allFound(world).notices;

const shown = (notices: readonly Notice[]): string[] =>
  notices.map(({ event, object, version = '' }) => `${event} ${object.kind} ${object.name} ${version}`.trim());

/** It is retried later. */
function failed(name: string, version = NEW): ManagedNode {
  return aManagedNode(name, { ready: false }, { record: { failed: { version, code: 'RolledBack', at: ago(MINUTE) } } });
}

const upToDate = (name: string): ManagedNode =>
  aManagedNode(name, {}, { status: { current_version: NEW, target_version: NEW } });
const late = { lastProgressTime: ago(24 * HOUR), countedSeconds: 0, countedFrom: ago(5 * HOUR) };

test('a fleet at rest has nothing to notify of', () => {
  expect(found({ nodes: [upToDate('a')] })).toEqual([]);
  expect(found({ nodes: [aManagedNode('a')] })).toEqual([]);
});

test('a node that failed is named with its version and code', () => {
  const [notice, ...others] = found({
    nodes: [failed('a'), aManagedNode('b')],
    spec: { rollout: { failureBudget: 5 } },
  });
  expect(others).toEqual([]);
  expect(notice).toMatchObject({
    event: 'Failed',
    severity: 'warning',
    object: { kind: 'Node', name: 'a' },
    version: NEW,
    summary: `a failed with Bottlerocket ${NEW}: RolledBack`,
    command: 'kubectl get brs -A -o wide --field-selector metadata.name=brs-a',
  });
});

test.each([
  [
    'RolledBack',
    false,
    /^Its update to 1\.21\.0 failed at .* when it is tried again\. .* until the node succeeds or /u,
  ],
  [
    'RolledBack',
    true,
    /^Its update to 1\.21\.0 failed at .*\. It was deleted since\. .* until all nodes run the version or /u,
  ],
  ['WorkloadsFailed', false, /^Since its update to 1\.21\.0, a workload fails on it .* the condition Suspect /iu],
])('a failure says what failed, and until when it counts: %s, deleted %s', (code, deleted, expected) => {
  const one = { name: 'a', version: NEW, code, since: NOW - MINUTE, ...(deleted && { deleted }) };
  const [notice] = found({ nodes: [aManagedNode('a')], changes: { failed: [one] } });
  expect(notice?.message).toMatch(expected);
  expect(notice?.message).not.toMatch(code === 'WorkloadsFailed' ? /tried again/u : /Suspect/u);
});

describe('a frozen version', () => {
  const nodes = [failed('a'), failed('b'), aManagedNode('c')];
  const spec = { rollout: { failureBudget: 1 } };
  const frozen = (since: string): BrupopConfigStatus => ({ frozenVersions: [{ version: NEW, since }] });

  it('counts when the status has it', () => {
    expect(shown(found({ nodes, spec }))).not.toContain(`Frozen BrupopConfig cluster ${NEW}`);
    expect(shown(found({ nodes, spec, status: frozen(ago(MINUTE)) }))).toContain(`Frozen BrupopConfig cluster ${NEW}`);
  });

  it('has another ID when it is frozen again, and else the same', () => {
    const idOf = (since: string): unknown => found({ nodes, spec, status: frozen(since) })[0]?.id;
    expect(idOf(ago(MINUTE))).toEqual(idOf(ago(MINUTE)));
    expect(idOf(ago(MINUTE))).not.toEqual(idOf(ago(0)));
  });

  it('says what to do', () => {
    const [first] = found({ nodes, spec, status: frozen(ago(MINUTE)) });
    expect(first?.message).toContain('set spec.rollout.resume to the current time');
    expect(first?.command).toBe('kubectl describe brc cluster');
  });
});

function inGroup(node: ManagedNode): ManagedNode {
  if (node.node === undefined) throw new Error('there is a Node');
  const labels = { ...node.node.metadata.labels, pool: 'db' };
  return { ...node, node: { ...node.node, metadata: { ...node.node.metadata, labels } } };
}

test('a version that is frozen for a group names the group', () => {
  const object = aGroup('db', { rollout: { failureBudget: 0 } });
  const lane = { frozenVersions: [{ version: NEW, since: ago(MINUTE) }] };
  const nodes = [inGroup(failed('a')), inGroup(aManagedNode('b')), aManagedNode('c')];
  const groups = [{ ...object, status: lane as NonNullable<typeof object.status> }];
  const notices = found({ nodes, spec: { rollout: { failureBudget: 5 } }, groups });
  expect(shown(notices)).toContain(`Frozen BottlerocketNodeGroup db ${NEW}`);
  expect(notices[0]?.command).toBe('kubectl describe brng db');
});

test('a held version counts while workloads fail on it, and the status has it', () => {
  const suspect = { node: 'a', version: NEW, workload: 'DaemonSet apps/<!channel>', problem: 'not Ready', at: NOW };
  const hold = { version: NEW, since: NOW - MINUTE, until: NOW + HOUR, isOver: false };
  const status = { heldVersions: [{ version: NEW, since: ago(MINUTE) }] };
  const nodes = [aManagedNode('a')];
  const held = (suspects: readonly (typeof suspect)[], of: BrupopConfigStatus): string[] =>
    shown(found({ nodes, status: of, changes: { holds: [{ ...hold, suspects }] } }));
  expect(held([suspect], status)).toEqual([`Held BrupopConfig cluster ${NEW}`]);
  expect(held([], status)).toEqual([]);
  expect(held([suspect], {})).toEqual([]);
});

test('nodes that wait for an approval make one event for each version, with the command that approves it', () => {
  const notices = found({ nodes: [aManagedNode('a'), aManagedNode('b')], spec: { rollout: { approval: 'Required' } } });
  expect(shown(notices)).toEqual([`WaitsForApproval BrupopConfig cluster ${NEW}`]);
  expect(notices[0]?.command).toBe(
    `kubectl patch brc cluster --type merge -p '{"spec":{"rollout":{"approvedVersion":"${NEW}"}}}'`,
  );
});

describe('of the versions that wait for an approval', () => {
  const offered = (name: string, version: string): ManagedNode =>
    aManagedNode(name, {}, { status: { target_version: version } });
  const waiting = (...nodes: readonly ManagedNode[]): string[] =>
    shown(found({ nodes, spec: { rollout: { approval: 'Required' } } }));

  it('leaves out one that a single agent reports, also with other build metadata', () => {
    const nodes = [offered('a', '9.9.9'), offered('b', NEW), offered('c', `${NEW}+invented`)];
    expect(waiting(...nodes)).toEqual([`WaitsForApproval BrupopConfig cluster ${NEW}`]);
  });

  it('names that of the only node', () => {
    expect(waiting(offered('a', NEW))).toEqual([`WaitsForApproval BrupopConfig cluster ${NEW}`]);
  });

  it('names five at most, those of the most nodes first', () => {
    const pairs = Array.from({ length: 6 }, (_, i) => [`${i}a`, `${i}b`].map((name) => offered(name, `2.${i}.0`)));
    const shownOnes = waiting(...pairs.flat(), offered('c', '2.5.0'));
    expect(shownOnes).toHaveLength(5);
    expect(shownOnes[0]).toBe('WaitsForApproval BrupopConfig cluster 2.5.0');
  });
});

test('a rollout that is late is stuck', () => {
  const spec = { rollout: { progressDeadline: '2h' } };
  const notices = found({ nodes: [aManagedNode('down', { ready: false })], spec, status: { progress: late } });
  expect(shown(notices)).toEqual(['Stuck BrupopConfig cluster']);
  expect(notices[0]?.message).toContain('longer than spec.rollout.progressDeadline allows');
});

test('a rollout that is late has the same ID as long as no node succeeds, and another one when it is late again', () => {
  const spec = { rollout: { progressDeadline: '2h' } };
  const idOf = (progress: typeof late): unknown =>
    found({ nodes: [aManagedNode('down', { ready: false })], spec, status: { progress } })[0]?.id;
  const id = idOf(late);
  expect(id).toEqual(expect.any(String));
  expect(idOf({ ...late, countedSeconds: 7_200, countedFrom: ago(MINUTE) })).toBe(id);
  expect(idOf({ ...late, lastProgressTime: ago(12 * HOUR) })).not.toBe(id);
});

function overdue(
  startedMs: number,
  step: 'RebootedIntoUpdate' | 'MonitoringUpdate',
  message = 'rebooting',
): ManagedNode {
  const record = { startedAt: ago(startedMs) };
  const status = {
    current_state: 'StagedAndPerformedUpdate',
    lastOperation: failure(undefined, { operation: 'Reboot', state: 'Processing', message }),
  } as const;
  return aManagedNode('a', { ready: false }, { spec: underWay(step, 30 * HOUR), status, record });
}

test('a node that is stuck has the same ID in all steps of its update, and another one in the next update', () => {
  const idOf = (...node: Parameters<typeof overdue>): unknown =>
    found({ nodes: [overdue(...node)] }).find(({ event }) => event === 'Stuck')?.id;
  const id = idOf(31 * HOUR, 'RebootedIntoUpdate');
  expect(id).toEqual(expect.any(String));
  expect(idOf(31 * HOUR, 'MonitoringUpdate')).toBe(id);
  expect(idOf(30 * HOUR, 'RebootedIntoUpdate')).not.toBe(id);
});

test('a node that holds its slot past a deadline is stuck, once, also if it did not return', () => {
  const node = overdue(31 * HOUR, 'RebootedIntoUpdate');
  const stuck = shown(found({ nodes: [node] })).filter((one) => one.startsWith('Stuck'));
  expect(stuck).toEqual(['Stuck Node a']);
  const lost = { lost: [{ name: 'a', message: 'It did not return' }] } as unknown as Partial<WholePlan>;
  expect(shown(found({ nodes: [node], changes: lost })).filter((one) => one.startsWith('Stuck'))).toEqual(stuck);
});

describe('what an agent says is sent to no receiver', () => {
  const SAID = 'look at evil.example.com';
  const messagesOf = (node: ManagedNode, spec: object = {}): string =>
    found({ nodes: [node], spec })
      .filter(({ event }) => event === 'Stuck')
      .map(({ message }) => message)
      .join();

  it('of its step', () => {
    const node = overdue(31 * HOUR, 'RebootedIntoUpdate', SAID);
    expect(planOf({ nodes: [node] }).conditions.flat()[0]?.progressing.message).toContain(SAID);
    const message = messagesOf(node);
    expect(message).toContain('had no result within');
    expect(message).not.toContain(SAID);
  });

  it('of the settings that it refuses', () => {
    const [key, value, owner] = ['settings.motd', '"x"', 'BottlerocketNodeGroup/db'];
    const settings = { leaves: [{ key, value, owner }], allow: 'None' } as const;
    const status = { settings: { pending: [{ key, class: 'Refused', reason: SAID }] } } as const;
    const nodes = [inGroup(aManagedNode('a', { ready: false }, { spec: { settings }, status }))];
    const object = aGroup('db', { rollout: { progressDeadline: '2h' }, settings: { motd: 'x' } });
    const groups = [{ ...object, status: { progress: late } as unknown as NonNullable<typeof object.status> }];
    const [rollout] = planOf({ nodes, groups }).groups;
    expect(rollout && GROUP_CONDITIONS.Degraded(rollout).message).toContain(SAID);
    const notices = found({ nodes, groups });
    expect(shown(notices)).toEqual(['Stuck BottlerocketNodeGroup db']);
    expect(notices[0]?.message).not.toContain(SAID);
  });

  it('of the host, for which its node does not go back to its previous version', () => {
    const rollback = { failed: NEW, previous: OLD, since: ago(30 * HOUR), isDone: false };
    const status = { current_version: NEW, settings: { message: SAID } };
    const settings = { leaves: settingsOfVersions({ pin: OLD, ignoreWaves: true }), allow: 'None' } as const;
    const node = aManagedNode('a', {}, { record: { startedAt: ago(40 * HOUR), rollback }, status, spec: { settings } });
    const spec = { rollout: { rollback: 'Automatic' } };
    expect(planOf({ nodes: [node], spec }).conditions.flat()[0]?.progressing.message).toContain(SAID);
    const message = messagesOf(node, spec);
    expect(message).toContain('holds its update slot');
    expect(message).not.toContain(SAID);
  });
});

describe('of nodes past a deadline', () => {
  const since = 30 * HOUR;
  const record = { startedAt: ago(since), from: OLD };
  const goesOn = (operation: 'Stage' | 'Drain') => ({
    lastOperation: failure(undefined, { operation, state: 'Processing' }),
  });
  const staging: ManagedNode = aManagedNode(
    'a',
    {},
    {
      spec: underWay('StagedAndPerformedUpdate', since),
      record,
      status: { current_state: 'Idle', observedGeneration: 2, ...goesOn('Stage') },
    },
  );
  const draining: ManagedNode = aManagedNode(
    'a',
    {},
    {
      spec: underWay('RebootedIntoUpdate', since),
      record,
      status: { current_state: 'StagedAndPerformedUpdate', ...goesOn('Drain') },
    },
  );
  const unhealthy: ManagedNode = aManagedNode(
    'a',
    { conditions: ['Broken'] },
    { spec: underWay('MonitoringUpdate', since), record, status: { current_version: NEW } },
  );
  const health = { conditions: ['Broken'] };
  const stuck = (node: ManagedNode, spec: object = { health }): string[] =>
    shown(found({ nodes: [node], spec })).filter((one) => one.startsWith('Stuck'));

  it.each([
    ['whose staging is cancelled then', staging, {}],
    ['whose drain is cancelled then', draining, {}],
    ['that goes back to its previous version then', unhealthy, { health, rollout: { rollback: 'Automatic' } }],
  ])('one %s is not stuck', (_, node, spec) => {
    expect(planOf({ nodes: [node], spec }).stuckNodes).toEqual(['a']);
    expect(stuck(node, spec)).toEqual([]);
  });

  it('one that holds its slot is stuck', () => {
    expect(stuck(unhealthy)).toEqual(['Stuck Node a']);
  });

  it.each([{ writeRejection: 'denied' }, { writeFailure: 'failed calling webhook' }])(
    'one whose next spec cannot be written is stuck: %j',
    (failing) => {
      expect(stuck({ ...staging, ...failing })).toEqual(['Stuck Node a']);
    },
  );
});

test('a rollout that is finished says what the nodes run', () => {
  const notices = found({ nodes: [upToDate('a'), upToDate('b')], finishedAt: NOW });
  expect(shown(notices)).toEqual(['Finished BrupopConfig cluster']);
  expect(notices[0]?.message).toBe(`2 of 2 nodes are up to date. They run ${NEW} (2)`);
});

test('a rollout lasts while a node needs an update, and it is certain when none is updating or failed', () => {
  const waiting = planOf({ nodes: [aManagedNode('a'), upToDate('b')] });
  const done = planOf({ nodes: [upToDate('a')] });
  expect([isRolling(waiting), isRolling(done)]).toEqual([true, false]);
  expect(isCertain(done)).toBe(true);
  expect(isCertain({ ...done, stale: ['nodes'] })).toBe(false);
  expect(isCertain({ ...done, counts: { ...done.counts, managed: 0 } })).toBe(false);
  expect(isCertain({ ...done, policy: { ...done.policy, problem: 'a mistake' } })).toBe(false);
});

describe('it is not certain that a rollout has ended while', () => {
  const isOver = (world: World): unknown => {
    const plan = planOf(world);
    return { isRolling: isRolling(plan), isCertain: isCertain(plan) };
  };
  const shows = (reason: string): Pick<NonNullable<Parameters<typeof aManagedNode>[2]>, 'progressing'> => ({
    progressing: { type: 'Progressing', status: 'False', reason, message: '', lastTransitionTime: ago(HOUR) },
  });
  /** Its agent has had a second to confirm its spec, or `ms`. */
  const unconfirmed = (reason: string, ms = 1_000, record = {}): ManagedNode =>
    aManagedNode(
      'b',
      {},
      {
        ...shows(reason),
        record,
        generation: 4,
        spec: { state_transition_timestamp: ago(ms) },
        status: { observedGeneration: 3 },
      },
    );
  const failedLate = { startedAt: ago(5 * HOUR), rebootRequestedAt: ago(4 * HOUR) };
  const version = '1.22.0';
  const young = (name: string): ManagedNode => aManagedNode(name, {}, { status: { target_version: version } });
  const versions = [{ version, running: 0, offered: 2, firstOfferedTime: ago(HOUR) }];
  const worlds: Record<string, World> = {
    'the hosts get other settings': {
      nodes: [upToDate('a'), aManagedNode('b')],
      spec: { paused: true, versions: { pin: NEW } },
    },
    'a node that waits has not confirmed these': {
      nodes: [upToDate('a'), unconfirmed('Paused')],
      spec: { paused: true },
    },
    'the last node has failed after its deadline, and has not confirmed the end': {
      nodes: [upToDate('a'), unconfirmed('DeadlineExceeded', 1_000, failedLate)],
    },
    'nodes wait for the age of the next version': {
      nodes: [upToDate('a'), young('b'), young('c')],
      spec: { versions: { minimumAge: '168h' } },
      status: { versions },
    },
  };
  it.each(Object.entries(worlds))('%s', (_, world) => {
    expect(isOver(world)).toEqual({ isRolling: false, isCertain: false });
  });

  it('but not while an agent is silent for longer', () => {
    const nodes = [upToDate('a'), unconfirmed('Paused', 2 * HOUR)];
    expect(isOver({ nodes, spec: { paused: true } })).toEqual({ isRolling: false, isCertain: true });
  });
});

test('fifty events at once are the most, and those that stop most nodes come first', () => {
  const nodes = Array.from({ length: 130 }, (_, index) => failed(`n${index}`));
  const status = { frozenVersions: [{ version: NEW, since: ago(MINUTE) }] };
  const { notices, others } = allFound({ nodes, spec: { rollout: { failureBudget: 1 } }, status });
  expect(notices).toHaveLength(MAX_NOTICES);
  expect(notices[0]?.event).toBe('Frozen');
  expect(new Set([...notices, ...others].map(({ id }) => id)).size).toBe(131);
});

test('failures with two versions are two events', () => {
  const ids = found({ nodes: [failed('a'), failed('b', OLD)], spec: { rollout: { failureBudget: 5 } } }).map(
    ({ id }) => id,
  );
  expect(new Set(ids).size).toBe(ids.length);
});
