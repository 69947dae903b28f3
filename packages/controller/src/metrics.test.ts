import { Registry } from 'prom-client';
import { aPod } from '@brupop/shared/testing/pods';
import type { Snapshot } from './cluster/snapshot.ts';
import { countTransition, createMetrics, type Metrics, type Planned, showLeader } from './metrics.ts';
import { wholePlan as plan } from './whole-plan.ts';
import { specChange } from './plan/specs/spec-change.ts';
import { startSpec } from './plan/specs/transition.ts';
import {
  aGroup,
  ago,
  aManagedNode,
  aNode,
  aShadow,
  aSnapshot,
  NEW,
  NOW,
  OLD,
  podsOf,
  POLICY,
  underWay,
  withGroups,
  withoutShadow,
} from './testing/objects.ts';
import { aMember, DB, withMembers } from './testing/quorums.ts';
import { Moment } from './kept/moment.ts';

function metricsOf(registry: Registry, planned: () => Planned | undefined): Metrics {
  return createMetrics(registry, { watchLags: () => [], pendingWrites: () => new Map(), planned });
}

describe('the metrics of the Rust operator', () => {
  const registry = new Registry();
  let planned: Planned | undefined;
  const metrics = metricsOf(registry, () => planned);
  const read = async (): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('brupop_hosts_'));

  it('count the reports of shadows, with its labels', async () => {
    const reported = { current_version: '1.20.0', current_state: 'Idle' } as const;
    const snapshot = aSnapshot([
      aManagedNode('a', {}, { status: reported }),
      aManagedNode('b', {}, { status: { ...reported, current_state: 'MonitoringUpdate' } }),
      withoutShadow(aManagedNode('c')),
    ]);
    planned = { snapshot, made: plan(snapshot, NOW) };
    expect(await read()).toEqual([
      'brupop_hosts_state{state="Idle"} 1',
      'brupop_hosts_state{state="MonitoringUpdate"} 1',
      'brupop_hosts_version{bottlerocket_version="1.20.0"} 2',
    ]);
  });

  it('have no values without leadership', async () => {
    planned = undefined;
    showLeader(metrics, false);
    expect(await read()).toEqual([]);
  });
});

test('a process that does not lead any more follows no generation of the configuration', async () => {
  const registry = new Registry();
  const snapshot = aSnapshot([aManagedNode('a')], {});
  const config = snapshot.config && { ...snapshot.config, metadata: { ...snapshot.config.metadata, generation: 3 } };
  let planned: Planned | undefined = { snapshot: { ...snapshot, config }, made: plan(snapshot, NOW) };
  const metrics = metricsOf(registry, () => planned);
  expect(await registry.metrics()).toContain('brupop_config_observed_generation 3');
  planned = undefined;
  showLeader(metrics, false);
  expect(await registry.metrics()).toContain('brupop_config_observed_generation 0');
});

test('deadlines are counted from the start, so that increase() sees the first one that is missed', async () => {
  const registry = new Registry();
  createMetrics(registry);
  expect(await registry.metrics()).toContain('brupop_deadline_exceeded_total{state="RebootedIntoUpdate"} 0');
});

describe('the counter of transitions', () => {
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const start = (version: string): void => {
    const shadow = aShadow({ status: { current_version: OLD } });
    countTransition(
      metrics,
      specChange({ spec: startSpec(version, POLICY, new Moment(NOW)), outcome: 'Started' }, { shadow, node: aNode() }),
    );
  };
  const read = async (): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('brupop_update_transitions_total{'));
  const line = (to: string, count: number): string =>
    `brupop_update_transitions_total{from_version="${OLD}",to_version="${to}",state="StagedAndPerformedUpdate",outcome="Started",code=""} ${count}`;

  it('has at most twenty versions, however many agents report', async () => {
    for (let minor = 21; minor < 60; minor += 1) start(`1.${minor}.0`);
    start(NEW);
    const lines = await read();
    expect(lines).toHaveLength(20);
    expect(lines[0]).toBe(line(NEW, 2));
    expect(lines.at(-1)).toBe(line('other', 20));
  });
});

describe('the metrics of failures', () => {
  it('show the budget that is left, and the versions that are frozen', async () => {
    const registry = new Registry();
    let planned: Planned | undefined;
    const metrics = metricsOf(registry, () => planned);
    const failed = (name: string, version: string): ReturnType<typeof aManagedNode> =>
      aManagedNode(name, {}, { record: { failed: { version: version, code: 'RolledBack', at: ago(0) } } });
    const snapshot = aSnapshot([failed('a', NEW), failed('b', NEW), failed('c', NEW), failed('d', '1.22.0')], {
      rollout: { failureBudget: 2 },
    });
    planned = { snapshot, made: plan(snapshot, NOW) };
    const read = async (): Promise<string[]> =>
      (await registry.metrics()).split('\n').filter((line) => /^brupop_f(?:rozen|ailure)\w+\{/u.test(line));
    expect((await read()).toSorted()).toEqual([
      `brupop_failure_budget_remaining{version="${NEW}"} 0`,
      'brupop_failure_budget_remaining{version="1.22.0"} 1',
      `brupop_frozen_versions{version="${NEW}"} 1`,
    ]);
    planned = undefined;
    showLeader(metrics, false);
    expect(await read()).toEqual([]);
  });

  it('show a version that is frozen for a group only', async () => {
    const registry = new Registry();
    const record = { failed: { version: NEW, code: 'RolledBack', at: ago(0) } };
    const node = aManagedNode('a', { labels: { pool: 'gpu' } }, { record });
    const groups = [aGroup('gpu', { rollout: { failureBudget: 0 } })];
    const snapshot = withGroups(aSnapshot([node], {}), groups);
    metricsOf(registry, () => ({ snapshot, made: plan(snapshot, NOW) }));
    expect(await registry.metrics()).toContain(`brupop_frozen_versions{version="${NEW}"} 1`);
  });
});

test('pending writes are read for each scrape, and a kind of which none waits has no value', async () => {
  const registry = new Registry();
  let pending = new Map([
    ['spec', 2],
    ['event', 0],
  ]);
  createMetrics(registry, { watchLags: () => [], pendingWrites: () => pending, planned: () => undefined });
  const read = async (): Promise<string> => await registry.getSingleMetricAsString('brupop_controller_pending_writes');
  expect(await read()).toContain('{kind="spec"} 2');
  pending = new Map([['event', 3]]);
  expect((await read()).match(/^brupop.*$/gmu)).toEqual(['brupop_controller_pending_writes{kind="event"} 3']);
});

describe('the metrics of the fleet', () => {
  const show = async (snapshot: Snapshot, names: RegExp): Promise<string[]> => {
    const registry = new Registry();
    const made = plan(snapshot, NOW);
    metricsOf(registry, () => ({ snapshot, made }));
    return (await registry.metrics()).split('\n').filter((line) => !line.startsWith('#') && names.test(line));
  };

  it('tell at most twenty versions apart, those of most nodes first', async () => {
    const nodes = Array.from({ length: 30 }, (_, index) =>
      aManagedNode(`n${index}`, {}, { status: { current_version: `1.${index}.0`, current_state: 'Idle' } }),
    );
    const twice = aManagedNode('twice', {}, { status: { current_version: '1.29.0', current_state: 'Idle' } });
    const lines = await show(aSnapshot([...nodes, twice]), /^brupop_hosts_version/u);
    expect(lines).toHaveLength(21);
    expect(lines).toContain('brupop_hosts_version{bottlerocket_version="1.29.0"} 2');
    expect(lines).toContain('brupop_hosts_version{bottlerocket_version="other"} 10');
  });

  it('name the zone of nodes, and why they wait', async () => {
    const zone = { labels: { 'topology.kubernetes.io/zone': 'a' } };
    const snapshot = aSnapshot([aManagedNode('n', zone)], { paused: true });
    expect(await show(snapshot, /^brupop_(?:nodes|waiting_nodes|paused)/u)).toEqual([
      `brupop_nodes{state="Idle",version="${OLD}",group="",zone="a"} 1`,
      'brupop_waiting_nodes{reason="Paused",group="",zone="a"} 1',
      'brupop_paused 1',
    ]);
  });

  it('count each node of the rollout in one phase', async () => {
    const updated = aManagedNode('new', {}, { status: { current_version: NEW, target_version: NEW } });
    expect(await show(aSnapshot([updated, aManagedNode('old')], { paused: true }), /^brupop_rollout_nodes/u)).toEqual([
      'brupop_rollout_nodes{phase="UpToDate",group=""} 1',
      'brupop_rollout_nodes{phase="Updating",group=""} 0',
      'brupop_rollout_nodes{phase="Waiting",group=""} 1',
      'brupop_rollout_nodes{phase="Failed",group=""} 0',
    ]);
  });

  it('have the members of quorums that are Ready and away, while these are known and a node asks for them', async () => {
    const pods = [aMember('db-0', 'n'), aMember('db-1', 'x', { ready: false })];
    const snapshotWith = (more: object): Snapshot =>
      withMembers(aSnapshot([aManagedNode('n')], { quorums: [DB], ...more }), pods);
    const snapshot = snapshotWith({});
    expect(await show(snapshot, /^brupop_quorum/u)).toEqual([
      'brupop_quorum_members{quorum="db",state="ready"} 1',
      'brupop_quorum_members{quorum="db",state="away"} 2',
    ]);
    const failing = [...snapshot.memberPods].map(([key, list]) => [key, { ...list, problem: '403' }] as const);
    expect(await show({ ...snapshot, memberPods: new Map(failing) }, /^brupop_quorum/u)).toEqual([]);
    expect(await show({ ...snapshot, memberPods: new Map() }, /^brupop_quorum/u)).toEqual([]);
    const paused = snapshotWith({ paused: true });
    expect(await show(paused, /^brupop_quorum/u)).toHaveLength(2);
    // Once users see the count, nobody needs the list any more.
    const quorums = plan(paused, NOW).quorums.map((one) => ({ ...one, ready: one.ready ?? 0, since: ago(0) }));
    const config = paused.config && { ...paused.config, status: { quorums } };
    expect(await show({ ...paused, config }, /^brupop_quorum/u)).toEqual([]);
  });

  it('have the times at which windows open and close, also of groups', async () => {
    const from = NOW + 3_600_000;
    const blackouts = [{ from: new Date(NOW).toISOString(), to: new Date(from).toISOString() }];
    const snapshot = aSnapshot([aManagedNode('n')], { maintenance: { blackouts } });
    expect(await show(snapshot, /^brupop_(?:window|blackout)/u)).toEqual([
      'brupop_window_open{group=""} 0',
      'brupop_blackout{group=""} 1',
      `brupop_window_next_open_timestamp_seconds{group=""} ${from / 1000}`,
    ]);
  });

  it('count the nodes whose drain is blocked by reason, and not when it has ended', async () => {
    const draining = (
      name: string,
      reason: string,
      ended: object = {},
      since?: number,
    ): ReturnType<typeof aManagedNode> =>
      aManagedNode(
        name,
        {},
        {
          spec: { state: 'RebootedIntoUpdate', version: NEW },
          generation: 3,
          status: {
            drain: {
              observedGeneration: 3,
              startTime: ago(60),
              blockedBy: [{ reason, ...(since && { since: ago(since) }) }],
              ...ended,
            } as never,
          },
        },
      );
    const nodes = [
      draining('a', 'DisruptionBudget'),
      draining('b', 'DisruptionBudget', { endTime: ago(1) }),
      draining('c', 'NotOfThisRelease'),
    ];
    expect(await show(aSnapshot(nodes), /^brupop_blocked/u)).toEqual([
      'brupop_blocked_drains{reason="DisruptionBudget"} 1',
      'brupop_blocked_drains{reason="other"} 1',
    ]);
    const waits = [60_000, 90_000].map((since, i) => draining(`w${i}`, 'Terminating', {}, since));
    expect(await show(aSnapshot(waits), /^brupop_drain_blocked_since/u)).toEqual([
      `brupop_drain_blocked_since_timestamp_seconds{reason="Terminating"} ${(NOW - 90_000) / 1000}`,
    ]);
  });

  it('count what has a mistake, also while no node waits for it', async () => {
    const resting = aManagedNode('n', {}, { status: { target_version: OLD } });
    const mistaken = aGroup('gpu', { after: ['gone'] });
    expect(await show(withGroups(aSnapshot([resting]), [mistaken]), /^brupop_invalid/u)).toEqual([
      'brupop_invalid_configurations{kind="BrupopConfig"} 0',
      'brupop_invalid_configurations{kind="BottlerocketNodeGroup"} 1',
    ]);
    expect(await show(aSnapshot([resting], { drain: { timeout: 'long' } }), /^brupop_invalid.*Config"/u)).toEqual([
      'brupop_invalid_configurations{kind="BrupopConfig"} 1',
    ]);
  });

  it('count a node that waits also while its pods are listed again, so that no alert starts over', async () => {
    const since = 30 * 60_000;
    const lastTransitionTime = ago(since);
    const reason = 'DeadlineExceeded';
    const progressing = { type: 'Progressing', status: 'False', reason, message: '', lastTransitionTime } as const;
    const spec = underWay('MonitoringUpdate', since);
    const stuck = aManagedNode('n', {}, { spec, status: { current_version: NEW }, progressing });
    const pods = [aPod('cni', { daemonSet: 'kube-system/cni', ready: false })];
    const listed = (msAgo: number): Snapshot => {
      const known = stuck.node === undefined ? [] : [['n', podsOf(stuck.node, pods, NOW - msAgo)] as const];
      return { ...aSnapshot([stuck]), pods: new Map(known) };
    };
    const line = 'brupop_waiting_nodes{reason="DeadlineExceeded",group="",zone=""} 1';
    expect(await show(listed(30_000), /^brupop_waiting/u)).toEqual([line]);
    expect(plan(listed(90_000), NOW).lookUps).toHaveLength(1);
    expect(await show(listed(90_000), /^brupop_waiting/u)).toEqual([line]);
  });

  it('count a node whose agent has never reported only when it had the time to', async () => {
    const joined = (minutes: number): ReturnType<typeof aManagedNode> => {
      const spec = { state_transition_timestamp: null };
      return aManagedNode('n', {}, { status: null, spec, creationTimestamp: ago(minutes * 60_000) });
    };
    expect(await show(aSnapshot([joined(4)]), /^brupop_waiting/u)).toEqual([]);
    expect(await show(aSnapshot([joined(6)]), /^brupop_waiting/u)).toEqual([
      'brupop_waiting_nodes{reason="AgentNotConnected",group="",zone=""} 1',
    ]);
  });
});

test('which of many groups have a name does not depend on the order of the nodes', async () => {
  const registry = new Registry();
  const names = Array.from({ length: 60 }, (_, i) => `group-${i + 10}`);
  const nodes = names.map((name) => aManagedNode(`node-of-${name}`, { labels: { pool: name } }));
  const read = async (managedNodes: typeof nodes): Promise<string[]> => {
    const snapshot = withGroups(
      aSnapshot(managedNodes),
      names.map((name) => aGroup(name)),
    );
    planned = { snapshot, made: plan(snapshot, NOW) };
    const lines = (await registry.metrics()).split('\n').filter((line) => line.startsWith('brupop_nodes{'));
    return [...new Set(lines.flatMap((line) => /group="(?<name>[^"]*)"/u.exec(line)?.groups?.['name'] ?? []))];
  };
  let planned: Planned | undefined;
  metricsOf(registry, () => planned);
  const expected = [...names.slice(0, 50), 'other'];
  expect((await read(nodes)).toSorted()).toEqual(expected);
  expect((await read(nodes.toReversed())).toSorted()).toEqual(expected);
  // Groups of other clusters in the same Git repository have no nodes here.
  expect((await read(nodes.slice(55))).toSorted()).toEqual(names.slice(55));
});
