/** What keeps a node from starting, and an updated node from having succeeded. */
import { parseTime } from '@brupop/shared/runtime/clock';
import type { NodeRecord } from '@brupop/shared/api/record';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { aPod } from '@brupop/shared/testing/pods';
import { readNode } from '../cluster/node.ts';
import type { ManagedNode, PodsOfNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  podsOf,
  underWay,
} from '../testing/objects.ts';
import { statusOf } from '../report/config-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const SECOND = 1_000;

const daemonPod = (name: string, changes: Partial<DrainPod> = {}): DrainPod =>
  aPod(name, { daemonSet: `kube-system/${name}`, controller: `DaemonSet kube-system/${name}`, ...changes });
const broken = (name: string, changes: Partial<DrainPod> = {}): DrainPod =>
  daemonPod(name, { ready: false, ...changes });

interface World {
  readonly spec?: object;
  readonly pods?: readonly DrainPod[];
  /** How old the list of the pods is, milliseconds; null: there is none. */
  readonly listedMsAgo?: number | null;
  readonly listProblem?: string;
}

function planOf(managedNode: ManagedNode, { spec = {}, pods = [], listedMsAgo = 0, listProblem }: World = {}): Plan {
  const snapshot = aSnapshot([managedNode], spec);
  const { node } = managedNode;
  if (node === undefined) throw new Error('there is a Node');
  const listed: PodsOfNode = { ...podsOf(node, pods, NOW - (listedMsAgo ?? 0)), problem: listProblem };
  const unlisted = { ...listed, seenAt: undefined };
  return plan({ ...snapshot, pods: new Map([['a', listedMsAgo === null ? unlisted : listed]]) }, NOW);
}

const outcomes = ({ specs }: Plan): string[] => specs.map(({ outcome }) => outcome);
const message = ({ conditions }: Plan): string | undefined => conditions.flat()[0]?.progressing.message;
const lookUps = (made: Plan): string[] => made.lookUps.map(({ metadata }) => metadata.name);

/** It runs the new version, and has been monitored for some time. */
const updated = (sinceMs = MINUTE, node: NodeParts = {}, record: NodeRecord = {}): ManagedNode =>
  aManagedNode(
    'a',
    { readySince: ago(sinceMs), ...node },
    { spec: underWay('MonitoringUpdate', sinceMs), status: { current_version: NEW }, record },
  );

describe('a node with the condition DiskPressure', () => {
  const pressed = { conditions: ['DiskPressure', 'EtcdIsVoter'] };

  it('starts no update, and says why', () => {
    const made = planOf(aManagedNode('a', pressed));
    expect(outcomes(made)).toEqual([]);
    expect(made.conditions.flat()[0]?.progressing).toMatchObject({
      reason: 'NodeUnhealthy',
      message: 'No update starts while the Node has the condition DiskPressure',
    });
  });

  it('is not drained', () => {
    const staged = { spec: underWay('StagedAndPerformedUpdate') };
    expect(outcomes(planOf(aManagedNode('a', {}, staged)))).toEqual(['Advanced']);
    expect(outcomes(planOf(aManagedNode('a', pressed, staged)))).toEqual(['Deferred']);
  });

  it('is not healthy after its update', () => {
    const made = planOf(updated(MINUTE, pressed));
    expect(outcomes(made)).toEqual([]);
    expect(message(made)).toBe('Runs 1.21.0, and is not healthy yet: the Node has the condition DiskPressure');
  });

  it('is updated where such nodes do not wait, and then does not count', () => {
    const spec = { health: { unhealthyNodes: 'Last' } };
    expect(outcomes(planOf(aManagedNode('a', pressed), { spec }))).toEqual(['Started']);
    const staged = aManagedNode('a', pressed, { spec: underWay('StagedAndPerformedUpdate') });
    const drained = planOf(staged, { spec });
    expect(drained.specs[0]?.record.unreadyBefore).toEqual(['condition DiskPressure']);
    const before = { unreadyBefore: ['condition DiskPressure'] };
    expect(outcomes(planOf(updated(MINUTE, pressed, before), { spec }))).toEqual(['Succeeded']);
    expect(outcomes(planOf(updated(MINUTE, pressed), { spec }))).toEqual([]);
  });

  it('is updated if the configuration does not name it', () => {
    const spec = { health: { conditions: ['MemoryPressure'] } };
    expect(outcomes(planOf(aManagedNode('a', pressed), { spec }))).toEqual(['Started']);
    expect(outcomes(planOf(updated(MINUTE, pressed), { spec }))).toEqual(['Succeeded']);
  });
});

describe('a condition that is bad when False', () => {
  const spec = { health: { conditions: ['KernelReady=False', 'StorageReady=Unknown', 'Overheated=True'] } };

  it.each<readonly [string, string, string[]]>([
    ['is False', 'KernelReady=False', []],
    ['is True', 'KernelReady', ['Started']],
    ['is Unknown, which is not named', 'KernelReady=Unknown', ['Started']],
    ['is Unknown, which is named', 'StorageReady=Unknown', []],
    ['is True, which is named', 'Overheated', []],
  ])('holds up a node on which it %s: %s', (_, condition, expected) => {
    expect(outcomes(planOf(aManagedNode('a', { conditions: [condition] }), { spec }))).toEqual(expected);
    expect(outcomes(planOf(updated(MINUTE, { conditions: [condition] }), { spec }))).toEqual(
      expected.length === 0 ? [] : ['Succeeded'],
    );
  });

  it('that all nodes have is said to be named with the wrong status', () => {
    const nodes = ['a', 'b', 'c'].map((name) => aManagedNode(name, { conditions: ['NetworkingReady'] }));
    const snapshot = aSnapshot(nodes, { health: { conditions: ['NetworkingReady'] } });
    const config = snapshot.config as BrupopConfig;
    const made = plan(snapshot, NOW);
    const { conditions = [] } = statusOf({ config, plan: made, before: undefined, isWritten: true, now: NOW });
    expect(conditions.find(({ type }) => type === 'Degraded')).toMatchObject({
      status: 'True',
      message: expect.stringContaining('all 3 nodes that wait are unhealthy (NodeUnhealthy)') as string,
    });
  });

  it('counts from when it became good again', () => {
    const waits = { ...spec, monitoring: { healthyFor: '30s' } };
    const node = (ms: number): NodeParts => ({ conditions: ['KernelReady'], clearedAt: { KernelReady: ago(ms) } });
    expect(outcomes(planOf(updated(MINUTE, node(10 * SECOND)), { spec: waits }))).toEqual([]);
    expect(outcomes(planOf(updated(MINUTE, node(30 * SECOND)), { spec: waits }))).toEqual(['Succeeded']);
  });

  it('is read from what the Node says', () => {
    const conditions = [
      { type: 'Ready', status: 'True', lastTransitionTime: ago(0) },
      { type: 'KernelReady', status: 'False', lastTransitionTime: ago(1) },
      { type: 'DiskPressure', status: 'True' },
      { type: 'Odd', status: 'Unknown' },
    ];
    const metadata = { name: 'a', uid: '1', resourceVersion: '1' };
    expect(readNode({ metadata, status: { conditions } })).toMatchObject({
      conditions: ['DiskPressure', 'KernelReady=False', 'Odd=Unknown'],
      clearedAt: { KernelReady: parseTime(ago(1)) },
    });
  });
});

describe('a node with podsBefore: Required', () => {
  const health = { podsBefore: 'Required', podGracePeriod: '10m', ignoredNamespaces: ['sandbox'] };
  const waiting = (pods: readonly DrainPod[], more: Omit<World, 'pods'> = {}): Plan =>
    planOf(aManagedNode('a'), { spec: { health }, pods, ...more });
  const unready = (ms: number, changes: Partial<DrainPod> = {}): DrainPod =>
    aPod('web', { ready: false, readyChanged: NOW - ms, ...changes });

  it('starts no update while a pod on it cannot start, and says why', () => {
    const made = waiting([aPod('web', { failing: true })]);
    expect(outcomes(made)).toEqual([]);
    expect(made.conditions.flat()[0]?.progressing).toMatchObject({
      reason: 'NodeUnhealthy',
      message: 'No update starts while pods of these controllers on the node cannot start: ReplicaSet apps/web',
    });
    expect(made.wakeAt).toBeLessThanOrEqual(NOW + 2 * MINUTE);
  });

  it('starts none when a pod has not been Ready for the grace period, also one of a DaemonSet', () => {
    expect(outcomes(waiting([unready(9 * MINUTE)]))).toEqual(['Started']);
    const made = waiting([unready(10 * MINUTE), broken('cni', { readyChanged: NOW - 11 * MINUTE })]);
    expect(outcomes(made)).toEqual([]);
    expect(message(made)).toContain('have not been Ready for 10m: DaemonSet kube-system/cni, ReplicaSet apps/web');
  });

  it.each<readonly [string, Partial<DrainPod>]>([
    ['has ended', { finished: true }],
    ['has no controller', { controller: '' }],
    ['is to be ignored', { healthIgnored: true }],
    ['is in a namespace that is ignored', { metadata: { ...aPod('web').metadata, namespace: 'sandbox' } }],
  ])('starts its update when the pod %s', (_, changes) => {
    expect(outcomes(waiting([unready(20 * MINUTE, changes)]))).toEqual(['Started']);
  });

  it('has its pods listed again after a minute, and no sooner', () => {
    const pods = [aPod('web', { failing: true })];
    expect(lookUps(waiting(pods, { listedMsAgo: 59 * SECOND }))).toEqual([]);
    expect(lookUps(waiting(pods, { listedMsAgo: 61 * SECOND }))).toEqual(['a']);
  });

  it('starts its update all the same where unhealthy nodes go first', () => {
    const spec = { health: { ...health, unhealthyNodes: 'First' } };
    expect(outcomes(waiting([aPod('web', { failing: true })], { spec }))).toEqual(['Started']);
  });
});

describe('a node with podsBefore: Prefer, the default', () => {
  const failing = aPod('web', { failing: true });
  const waiting = (record: NodeRecord = {}, trusted: readonly string[] = []): Plan =>
    planOf(aManagedNode('a', {}, { record }), { spec: { health: { trustedNamespaces: trusted } }, pods: [failing] });

  it('waits for half an hour while a pod on it cannot start, and that is recorded', () => {
    const made = waiting();
    expect(outcomes(made)).toEqual([]);
    expect(message(made)).toContain('it starts at 20');
    expect(made.records.map(({ record }) => record.podsWaitSince)).toEqual([ago(0)]);
    expect(outcomes(waiting({ podsWaitSince: ago(29 * MINUTE) }))).toEqual([]);
  });

  it('starts then, and its Event says that pods on it are not healthy', () => {
    const made = waiting({ podsWaitSince: ago(30 * MINUTE) });
    expect(outcomes(made)).toEqual(['Started']);
    expect(made.specs[0]?.event?.message).toContain('cannot start: ReplicaSet apps/web');
    expect(made.specs[0]?.record.podsWaitSince).toBeUndefined();
  });

  it('waits for an hour when the pod is in a trusted namespace', () => {
    expect(outcomes(waiting({ podsWaitSince: ago(59 * MINUTE) }, ['apps']))).toEqual([]);
    expect(outcomes(waiting({ podsWaitSince: ago(60 * MINUTE) }, ['apps']))).toEqual(['Started']);
  });

  it('does not wait again in the next of its monthly windows', () => {
    expect(outcomes(waiting({ podsWaitSince: ago(35 * 24 * 60 * MINUTE) }))).toEqual(['Started']);
  });

  it.each([
    ['by a clock that was a year ahead', ago(-365 * 24 * 60 * MINUTE)],
    ['long ago', ago(37 * 24 * 60 * MINUTE)],
  ])('waits anew when it is recorded to have waited %s', (_, podsWaitSince) => {
    const made = waiting({ podsWaitSince });
    expect(outcomes(made)).toEqual([]);
    expect(made.records.map(({ record }) => record.podsWaitSince)).toEqual([ago(0)]);
  });

  it('lets other nodes go first', () => {
    const nodes = [aManagedNode('a'), aManagedNode('b')];
    const snapshot = aSnapshot(nodes, {});
    const [node] = nodes;
    if (node?.node === undefined) throw new Error('there is a Node');
    const pods = new Map([...snapshot.pods, ['a', podsOf(node.node, [failing])]]);
    expect(plan({ ...snapshot, pods }, NOW).specs.map((one) => one.node.metadata.name)).toEqual(['b']);
  });
});

it('a node that is healthy from the start costs its healthyFor, and two lists of its pods', () => {
  const spec = { monitoring: { healthyFor: '30s' } };
  const started = NOW - 10 * SECOND;
  let [now, listedAt, lists]: [number, number | undefined, number] = [NOW, undefined, 0];
  for (;;) {
    const managedNode = updated(10 * SECOND);
    const { node } = managedNode;
    if (node === undefined) throw new Error('there is a Node');
    const listed = { ...podsOf(node, [daemonPod('cni')], listedAt), seenAt: listedAt };
    const made = plan({ ...aSnapshot([managedNode], spec, now), pods: new Map([['a', listed]]) }, now);
    if (outcomes(made).includes('Succeeded')) break;
    if (made.lookUps.length > 0) {
      listedAt = now;
      lists += 1;
    } else now = made.wakeAt ?? Number.POSITIVE_INFINITY;
    if (lists > 2 || now > NOW + MINUTE) break;
  }
  expect([now - started, lists]).toEqual([30 * SECOND, 2]);
});

describe('the update of a node', () => {
  it.each<readonly [string, readonly DrainPod[]]>([
    ['are Ready', [daemonPod('cni'), daemonPod('logs')]],
    ['are on their way out', [broken('cni', { metadata: { ...aPod('cni', { goneBy: ago(0) }).metadata } })]],
    ['are to be ignored', [broken('cni', { healthIgnored: true })]],
    ['are not of DaemonSets, and only not Ready yet', [aPod('web', { ready: false })]],
    ['cannot start and have no controller', [aPod('web', { failing: true, controller: '' })]],
  ])('has succeeded when pods on it %s', (_, pods) => {
    expect(outcomes(planOf(updated(), { pods }))).toEqual(['Succeeded']);
  });

  it('has not succeeded while pods of DaemonSets are not Ready, and names them', () => {
    const made = planOf(updated(), { pods: [broken('cni'), daemonPod('logs'), broken('csi')] });
    expect(outcomes(made)).toEqual([]);
    expect(message(made)).toBe(
      'Runs 1.21.0, and is not healthy yet: on it, the pods of these DaemonSets are not Ready: kube-system/cni, kube-system/csi',
    );
    expect(made.wakeAt).toBe(NOW + 5 * SECOND);
  });

  it('has not succeeded while another pod on it cannot start, and names its controller', () => {
    const spec = { health: { pods: 'Required' } };
    const made = planOf(updated(), { spec, pods: [aPod('web', { failing: true }), broken('cni')] });
    expect(outcomes(made)).toEqual([]);
    expect(message(made)).toBe(
      'Runs 1.21.0, and is not healthy yet: on it, the pods of these DaemonSets are not Ready: kube-system/cni; ' +
        'pods of these controllers cannot start: ReplicaSet apps/web',
    );
    expect(outcomes(planOf(updated(), { pods: [aPod('web', { failing: true })] }))).toEqual(['Succeeded']);
  });

  it('has succeeded although they are not Ready, if the configuration ignores them', () => {
    const ignored = { health: { ignoredNamespaces: ['apps'] } };
    expect(outcomes(planOf(updated(), { spec: ignored, pods: [broken('cni')] }))).toEqual(['Succeeded']);
    const spec = { health: { daemonSets: 'Ignored' } };
    expect(outcomes(planOf(updated(), { spec, pods: [broken('cni')] }))).toEqual(['Succeeded']);
  });

  it('has succeeded although the DaemonSet of a namespace that is not trusted has no Ready pod', () => {
    const inNamespace = (namespace: string): DrainPod =>
      broken('cni', { daemonSet: `${namespace}/cni`, metadata: { ...aPod('cni').metadata, namespace } });
    expect(outcomes(planOf(updated(), { pods: [inNamespace('tenant')] }))).toEqual(['Succeeded']);
    expect(outcomes(planOf(updated(), { pods: [inNamespace('brupop')] }))).toEqual([]);
    const spec = { health: { trustedNamespaces: ['tenant'] } };
    expect(outcomes(planOf(updated(), { spec, pods: [inNamespace('tenant')] }))).toEqual([]);
    expect(outcomes(planOf(updated(), { spec, pods: [inNamespace('kube-system')] }))).toEqual(['Succeeded']);
  });

  it('has failed with NotHealthy when they are not Ready in time', () => {
    const made = planOf(updated(30 * MINUTE), { pods: [broken('cni')] });
    expect(made.failed).toMatchObject([{ name: 'a', version: NEW, code: 'NotHealthy' }]);
    expect(message(made)).toContain('is not healthy after its update to 1.21.0: on it, the pods of these DaemonSets');
    expect(lookUps(planOf(updated(30 * MINUTE), { pods: [broken('cni')], listedMsAgo: 59 * SECOND }))).toEqual([]);
    expect(lookUps(planOf(updated(30 * MINUTE), { pods: [broken('cni')], listedMsAgo: 61 * SECOND }))).toEqual(['a']);
  });

  it.each<[string, readonly DrainPod[], number | null]>([
    ['were never listed', [], null],
    ['were last listed when all were Ready', [daemonPod('cni')], 20 * MINUTE],
    ['were last listed when one was not Ready', [broken('cni')], 20 * MINUTE],
  ])('has not failed while its pods cannot be listed, and %s', (_, pods, listedMsAgo) => {
    const made = planOf(updated(30 * MINUTE), { pods, listedMsAgo, listProblem: 'timed out' });
    expect([made.failed, outcomes(made), lookUps(made)]).toEqual([[], [], ['a']]);
    expect(made.conditions.flat()[0]?.progressing).toMatchObject({
      reason: 'DeadlineExceeded',
      message:
        'It is not known whether the node is healthy after its update to 1.21.0: the pods on the node cannot be listed: ' +
        'timed out. It holds its update slot until that is known',
    });
  });

  it('has failed in time although its pods cannot be listed, if something else is wrong with it', () => {
    const notReady = updated(30 * MINUTE, { ready: false });
    const made = planOf(notReady, { listedMsAgo: null, listProblem: 'timed out' });
    expect(made.failed).toMatchObject([{ code: 'NotHealthy' }]);
  });

  it('waits until they have been Ready for the monitoring time', () => {
    const spec = { monitoring: { healthyFor: '30s' } };
    const pods = [daemonPod('cni', { readyChanged: NOW - 10 * SECOND })];
    const made = planOf(updated(), { spec, pods });
    expect(outcomes(made)).toEqual([]);
    expect(made.wakeAt).toBe(NOW + 20 * SECOND);
    expect(outcomes(planOf(updated(), { spec, pods: [daemonPod('cni')] }))).toEqual(['Succeeded']);
  });

  it.each([
    ['before the update', 2 * MINUTE],
    ['some time ago', 5 * SECOND],
    ['never', null],
  ])('needs another list of the pods when they were listed %s', (_, listedMsAgo) => {
    const made = planOf(updated(), { pods: [daemonPod('cni')], listedMsAgo });
    expect(outcomes(made)).toEqual([]);
    expect(lookUps(made)).toEqual(['a']);
  });

  it('says that the pods cannot be listed', () => {
    const made = planOf(updated(), { listedMsAgo: null, listProblem: 'timed out' });
    expect(message(made)).toBe('Runs 1.21.0, and is not healthy yet: the pods on the node cannot be listed: timed out');
  });
});

it('what was Ready before the drain is recorded of trusted namespaces first, then of each namespace in turn', () => {
  const crowd = Array.from({ length: 60 }, (_, i) => aPod(`crowd-${i}`, { controller: `ReplicaSet aaa/crowd-${i}` }));
  const others = ['DaemonSet kube-system/cni', 'ReplicaSet shop/web'].map((controller) => aPod('x', { controller }));
  const staged = aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate') });
  const made = planOf(staged, { pods: [...crowd, ...others], spec: { health: { watchFor: '5m' } } });
  const names = Object.keys(made.specs[0]?.record.readyBefore?.workloads ?? {});
  expect(names).toHaveLength(50);
  expect(names.slice(0, 3)).toEqual(['DaemonSet kube-system/cni', 'ReplicaSet aaa/crowd-0', 'ReplicaSet shop/web']);
});

describe('what was not Ready before the drain', () => {
  const staged = (record: NodeRecord = {}): ManagedNode =>
    aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate'), record });
  const recorded = (made: Plan): unknown => made.specs[0]?.record.unreadyBefore;

  it('is recorded when the drain starts', () => {
    const pods = [broken('logs'), daemonPod('cni'), broken('csi')];
    expect(recorded(planOf(staged(), { pods }))).toEqual(['kube-system/csi', 'kube-system/logs']);
    expect(recorded(planOf(staged({ unreadyBefore: ['kube-system/cni'] }), { pods: [] }))).toBeUndefined();
    expect(recorded(planOf(staged()))).toBeUndefined();
    expect(recorded(planOf(staged(), { pods: [aPod('web', { failing: true })] }))).toEqual(['ReplicaSet apps/web']);
  });

  it('does not count against the update, and is forgotten when that has succeeded', () => {
    const before = { unreadyBefore: ['kube-system/csi', 'kube-system/logs'] };
    const made = planOf(updated(MINUTE, {}, before), { pods: [broken('logs')] });
    expect(outcomes(made)).toEqual(['Succeeded']);
    expect(recorded(made)).toBeUndefined();
    expect(outcomes(planOf(updated(MINUTE, {}, before), { pods: [broken('cni')] }))).toEqual([]);
    const failing = { unreadyBefore: ['ReplicaSet apps/web'] };
    const pods = [aPod('web', { failing: true })];
    const spec = { health: { pods: 'Required' } };
    expect(outcomes(planOf(updated(MINUTE, {}, failing), { spec, pods }))).toEqual(['Succeeded']);
  });
});

describe('a health that comes and goes', () => {
  const spec = { monitoring: { healthyFor: '30s' }, health: { pods: 'Required' } };
  const restarted = (msAgo: number): DrainPod => aPod('web', { restartedAt: NOW - msAgo });

  it('of a pod that runs between two crashes is not healthy for long enough', () => {
    const made = planOf(updated(), { spec, pods: [restarted(10 * SECOND)] });
    expect(outcomes(made)).toEqual([]);
    expect(message(made)).toContain('on it, pods of these controllers were restarted just now: ReplicaSet apps/web');
    expect(outcomes(planOf(updated(), { spec, pods: [restarted(31 * SECOND)] }))).toEqual(['Succeeded']);
    expect(outcomes(planOf(updated(), { spec: { monitoring: spec.monitoring }, pods: [restarted(0)] }))).toEqual([
      'Succeeded',
    ]);
    const before = { unreadyBefore: ['ReplicaSet apps/web'] };
    expect(outcomes(planOf(updated(MINUTE, {}, before), { spec, pods: [restarted(0)] }))).toEqual(['Succeeded']);
  });

  it('of a condition starts the time again', () => {
    const cleared = (msAgo: number, type = 'DiskPressure'): ManagedNode =>
      updated(MINUTE, { clearedAt: { [type]: ago(msAgo) } });
    expect(outcomes(planOf(cleared(10 * SECOND), { spec }))).toEqual([]);
    expect(outcomes(planOf(cleared(31 * SECOND), { spec }))).toEqual(['Succeeded']);
    expect(outcomes(planOf(cleared(0, 'EtcdIsVoter'), { spec }))).toEqual(['Succeeded']);
  });
});

describe('the startup taint', () => {
  const spec = { drain: { startupTaint: true } };
  const startup = (managedNode: ManagedNode, world: World = {}): (readonly [boolean, boolean])[] =>
    planOf(managedNode, { spec, ...world }).taints.map((taint) => [taint.waiting, taint.startup] as const);
  const draining = (node: NodeParts): ManagedNode =>
    aManagedNode('a', node, {
      spec: underWay('RebootedIntoUpdate'),
      status: { current_state: 'StagedAndPerformedUpdate' },
    });
  const starting = { hasStartupTaint: true };

  it('is set on a node that is drained, once it is cordoned', () => {
    expect(startup(draining({}))).toEqual([]);
    expect(startup(draining({ unschedulable: true }))).toEqual([[false, true]]);
    expect(startup(draining({ unschedulable: true }), { spec: {} })).toEqual([]);
  });

  it('stays until the node is back and the pods of its DaemonSets are Ready', () => {
    expect(startup(draining(starting))).toEqual([]);
    expect(startup(updated(MINUTE, { ...starting, ready: false }))).toEqual([]);
    expect(startup(updated(MINUTE, starting), { listedMsAgo: null })).toEqual([]);
    expect(startup(updated(MINUTE, starting), { listedMsAgo: 2 * MINUTE })).toEqual([]);
    expect(startup(updated(MINUTE, starting), { pods: [broken('cni')] })).toEqual([]);
    expect(startup(updated(MINUTE, starting), { pods: [daemonPod('cni')] })).toEqual([[false, false]]);
    const before = { unreadyBefore: ['kube-system/cni'] };
    expect(startup(updated(MINUTE, starting, before), { pods: [broken('cni')] })).toEqual([[false, false]]);
  });

  it('does not wait for DaemonSets that are ignored', () => {
    const ignoring = { ...spec, health: { daemonSets: 'Ignored' } };
    expect(startup(updated(MINUTE, starting), { spec: ignoring, listedMsAgo: null })).toEqual([[false, false]]);
  });

  it('is not set after the reboot, and is removed from a node that is not updating or not managed', () => {
    expect(startup(updated(MINUTE, { unschedulable: true }), { pods: [broken('cni')] })).toEqual([]);
    expect(startup(aManagedNode('a', starting))).toEqual([[false, false]]);
    expect(startup(aManagedNode('a', { ...starting, managed: false }))).toEqual([[false, false]]);
    expect(startup(draining({ ...starting, unschedulable: true }), { spec: {} })).toEqual([[false, false]]);
  });
});

it('a pod that became Ready long after its creation is recorded with five minutes', () => {
  const staged = aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate') });
  const old = daemonPod('cni', { readyChanged: NOW });
  const made = planOf(staged, { spec: { health: { watchFor: '5m' } }, pods: [old] });
  expect(made.specs[0]?.record.readyBefore?.workloads).toEqual({ 'DaemonSet kube-system/cni': 300 });
});

describe('a pod that is Ready between two crashes', () => {
  const spec = { health: { watchFor: '5m', pods: 'Required' } };
  const staged = aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate') });
  const recorded = (msAgo: number, mostRestarts: number): NodeRecord => {
    const pod = aPod('web', { mostRestarts, restartedAt: NOW - msAgo });
    return planOf(staged, { spec, pods: [pod] }).specs[0]?.record ?? {};
  };

  it('was not Ready before the drain', () => {
    const crashing = recorded(10 * MINUTE - SECOND, 2);
    expect([crashing.readyBefore, crashing.unreadyBefore]).toEqual([undefined, ['ReplicaSet apps/web']]);
  });

  it.each([
    ['once', SECOND, 1],
    ['long ago', 10 * MINUTE, 9],
  ])('was Ready if it was restarted %s', (_, msAgo, mostRestarts) => {
    const { readyBefore, unreadyBefore } = recorded(msAgo, mostRestarts);
    expect([Object.keys(readyBefore?.workloads ?? {}), unreadyBefore]).toEqual([['ReplicaSet apps/web'], undefined]);
  });
});
