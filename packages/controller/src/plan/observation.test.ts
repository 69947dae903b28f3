/** What follows when workloads fail on nodes after their updates. */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aPod } from '@brupop/shared/testing/pods';
import { healthConditions } from '../apply/conditions.ts';
import { type AllPods, NO_PODS_LISTED, type PlacedPod } from '../cluster/all-pods.ts';
import { observedPods } from '../cluster/pods.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { statusOf } from '../report/config-status.ts';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, type NodeParts, NOW, OLD } from '../testing/objects.ts';
import { wholePlan, type WholePlan } from '../whole-plan.ts';

const SECOND = 1_000;
const DAY = 24 * 60 * MINUTE;
const WEB = 'ReplicaSet apps/web';

interface Updated {
  /** When its drain started and its update succeeded. */
  readonly drainedMsAgo?: number;
  readonly msAgo: number;
  readonly ready?: Readonly<Record<string, number>>;
  readonly suspects?: NodeRecord['suspects'];
  /** What its workloads found on it before. */
  readonly needs?: Readonly<Record<string, readonly string[]>>;
  /** As it is now. */
  readonly node?: NodeParts;
}

/** A node that runs the new version. */
function updated(
  name: string,
  { msAgo, drainedMsAgo = msAgo + MINUTE, ready = { [WEB]: 5 }, suspects, needs, node = {} }: Updated,
): ManagedNode {
  const record: NodeRecord = {
    startedAt: ago(drainedMsAgo + MINUTE),
    from: OLD,
    succeeded: { version: NEW, at: ago(msAgo) },
    readyBefore: { at: ago(drainedMsAgo), workloads: ready, ...(needs !== undefined && { needs }) },
    ...(suspects !== undefined && { suspects }),
  };
  return aManagedNode(name, node, { record, status: { current_version: NEW } });
}

interface World {
  readonly nodes: readonly ManagedNode[];
  /** The pods that were just listed, by node; a node that is absent was not listed since its update. */
  readonly listed?: Readonly<Record<string, readonly DrainPod[]>>;
  /** When the pods of a node were listed before that since its update. */
  readonly before?: Readonly<Record<string, readonly string[]>>;
  /** All pods of the cluster, as they were just listed; undefined: they were not. */
  readonly all?: readonly Partial<PlacedPod>[];
  readonly spec?: { readonly health?: object; readonly rollout?: object };
  readonly held?: readonly { readonly version: string; readonly since: string }[];
}

function planOf({ nodes, listed = {}, before = {}, all, spec = {}, held }: World, now = NOW): WholePlan {
  const whole = { concurrency: { maxUpdating: 1 }, ...spec, health: { watchFor: '5m', ...spec.health } };
  const snapshot = aSnapshot(nodes, whole, now);
  const observed = Object.entries(listed).map(([name, pods]) => {
    const nodeUID = `uid-${name}`;
    const listedAt = (before[name] ?? []).map((time) => Date.parse(time));
    return [name, observedPods({ nodeUID, pods, seenAt: NOW }, { nodeUID, pods: [], listedAt })] as const;
  });
  const pods = (all ?? []).map((pod) => ({ ...PLACED, ...pod }));
  const allPods: AllPods =
    all === undefined ? NO_PODS_LISTED : { pods, seenAt: now, asOf: now, problem: undefined, nextAt: now };
  const config = snapshot.config && { ...snapshot.config, status: held === undefined ? {} : { heldVersions: held } };
  return wholePlan({ ...snapshot, config, observed: new Map(observed), allPods }, now);
}

const PLACED: PlacedPod = {
  namespace: 'apps',
  node: 'c',
  ready: true,
  mirror: false,
  healthIgnored: false,
  drainPolicy: undefined,
  controller: WEB,
  isTerminating: false,
};

/** A pod of `web` that was created `msAgo`. */
function web(msAgo: number, changes: Partial<DrainPod> = {}): DrainPod {
  const pod = aPod('web', { ready: false, readyChanged: NOW - msAgo, ...changes });
  return { ...pod, metadata: { ...pod.metadata, creationTimestamp: ago(msAgo) } };
}

const withRevision = (pod: DrainPod, revision: string): DrainPod => ({
  ...pod,
  controller: 'StatefulSet apps/db',
  metadata: { ...pod.metadata, labels: { 'controller-revision-hash': revision } },
});
const crashing = (msAgo: number): DrainPod => web(msAgo, { failing: true, mostRestarts: 3 });
const lookUps = (made: WholePlan): string[] => made.lookUps.map(({ metadata }) => metadata.name);
const started = (made: WholePlan): string[] =>
  made.specs.flatMap(({ outcome, node }) => (outcome === 'Started' ? [node.metadata.name] : []));
const suspectsIn = (made: WholePlan) =>
  made.records.map(({ node, record: { suspects } }) => ({ node: node.metadata.name, suspects }));
const conditionOf = (made: WholePlan, type: string) => {
  const { config } = aSnapshot([], {});
  if (config === undefined) throw new Error('there is a configuration');
  const status = statusOf({ config, plan: made, before: undefined, isWritten: true, now: NOW });
  return status.conditions?.find((one) => one.type === type);
};

/** The next to update. */
const next = aManagedNode('c');

describe('the pods on an updated node', () => {
  it('are listed once, at the end of watchFor', () => {
    const nodes = [updated('a', { msAgo: 5 * MINUTE - SECOND })];
    expect(lookUps(planOf({ nodes }))).toEqual([]);
    expect(planOf({ nodes }).wakeAt).toBe(NOW + SECOND);
    expect(lookUps(planOf({ nodes: [updated('a', { msAgo: 5 * MINUTE })] }))).toEqual(['a']);
    const made = planOf({ nodes: [updated('a', { msAgo: 5 * MINUTE })], listed: { a: [] } });
    expect([lookUps(made), made.records, made.allPods]).toEqual([[], [], 'forget']);
  });

  it('are listed before a third node starts, and only then', () => {
    const nodes = [updated('a', { msAgo: MINUTE }), updated('b', { msAgo: SECOND })];
    expect(lookUps(planOf({ nodes }))).toEqual([]);
    const made = planOf({ nodes: [...nodes, next] });
    expect([lookUps(made), started(made)]).toEqual([['a'], []]);
    expect(started(planOf({ nodes: [...nodes, next], listed: { a: [] } }))).toEqual(['c']);
  });

  it('delay a node while one of them is not Ready that would count within a minute', () => {
    const nodes = Array.from({ length: 4 }, (_, i) => updated(`a${i}`, { msAgo: (4 - i) * SECOND }));
    const [, ...others] = nodes;
    const listed = { a0: [web(30 * SECOND)], a1: [], a2: [] };
    expect(started(planOf({ nodes: [...nodes, next], listed }))).toEqual([]);
    const slow = updated('a0', { msAgo: 4 * SECOND, ready: { [WEB]: 90 } });
    expect(started(planOf({ nodes: [slow, ...others, next], listed }))).toEqual(['c']);
  });

  it('delay the fourth node until a slow one of them is Ready or counts', () => {
    const slow = { ready: { [WEB]: 300 } };
    const nodes = [updated('a', { msAgo: MINUTE, ...slow }), updated('b', { msAgo: SECOND, ...slow }), next];
    expect(started(planOf({ nodes, listed: { a: [web(30 * SECOND)] } }))).toEqual([]);
    expect(started(planOf({ nodes, listed: { a: [] } }))).toEqual(['c']);
  });

  it('delay no node when they cannot be listed five minutes after the success, however long they are compared', () => {
    const spec = { health: { watchFor: '24h' } };
    const nodes = (msAgo: number) => [updated('a', { msAgo }), updated('b', { msAgo: SECOND }), next];
    expect(started(planOf({ nodes: nodes(6 * MINUTE - SECOND), spec }))).toEqual([]);
    expect(started(planOf({ nodes: nodes(6 * MINUTE), spec }))).toEqual(['c']);
  });

  it('do not delay a node once ten nodes run the version', () => {
    const nodes = Array.from({ length: 11 }, (_, i) => updated(`a${i}`, { msAgo: (i + 1) * SECOND }));
    expect(started(planOf({ nodes: [...nodes, next] }))).toEqual(['c']);
  });

  it('are listed again when one that is not Ready would count', () => {
    const nodes = [updated('a', { msAgo: MINUTE, ready: { [WEB]: 45 } })];
    const made = planOf({ nodes, listed: { a: [web(30 * SECOND)] } });
    expect([made.records, made.wakeAt]).toEqual([[], NOW + 60 * SECOND]);
  });

  it('are listed again after watchFor when a slow one would count only then', () => {
    const slow = (msAgo: number) => updated('a', { msAgo, ready: { [WEB]: 240 } });
    const listed = { a: [web(5 * MINUTE)] };
    const made = planOf({ nodes: [slow(5 * MINUTE)], listed });
    expect([made.records, made.wakeAt]).toEqual([[], NOW + 3 * MINUTE]);
    const later = planOf({ nodes: [slow(8 * MINUTE)], listed: { a: [web(8 * MINUTE)] }, all: [] });
    expect(suspectsIn(later)[0]?.suspects).toMatchObject([{ problem: 'does not become Ready' }]);
  });

  it('are listed at the end as well when they were listed twice before, since one was not Ready', () => {
    const made = planOf({
      nodes: [updated('a', { msAgo: 2 * MINUTE })],
      listed: { a: [] },
      before: { a: [ago(MINUTE)] },
    });
    expect([lookUps(made), made.wakeAt]).toEqual([[], NOW + 3 * MINUTE]);
  });

  it('are listed again after the end when one was not Ready then, however often they were listed before', () => {
    const nodes = [updated('a', { msAgo: 5 * MINUTE })];
    const listed = { a: [web(6 * MINUTE, { readyChanged: NOW - 30 * SECOND })] };
    for (const times of [[4 * MINUTE], [4 * MINUTE, 3 * MINUTE]]) {
      const made = planOf({ nodes, listed, before: { a: times.map((ms) => ago(ms)) } });
      expect([lookUps(made), made.wakeAt]).toEqual([[], NOW + 30 * SECOND]);
    }
    const last = planOf({ nodes: [updated('a', { msAgo: 6 * MINUTE })], listed, before: { a: [ago(MINUTE)] } });
    expect(lookUps(last)).toEqual([]);
    expect(last.wakeAt).not.toBe(NOW + 30 * SECOND);
  });

  it.each([
    ['nothing is compared', { pods: 'Ignored' }],
    ['watchFor is 0s', { watchFor: '0s' }],
  ])('are not listed when %s', (_, health) => {
    expect(lookUps(planOf({ nodes: [updated('a', { msAgo: 5 * MINUTE })], spec: { health } }))).toEqual([]);
  });
});

describe('a workload that fails on an updated node', () => {
  const nodes = [updated('a', { msAgo: MINUTE }), next];
  const suspect = { workload: WEB, problem: 'cannot start', at: rfc3339(NOW) };

  it('is recorded once the pods of the cluster do not show it to fail on other nodes', () => {
    const listed = { a: [crashing(2 * MINUTE)] };
    const before = planOf({ nodes, listed });
    expect([before.records, before.allPods, started(before)]).toEqual([[], 'list', []]);
    const made = planOf({ nodes, listed, all: [{ node: 'a', ready: false }, {}] });
    expect(suspectsIn(made)).toEqual([{ node: 'a', suspects: [suspect] }]);
    expect(made.records[0]?.event).toMatchObject({
      reason: 'Suspect',
      warning: true,
      message: `Since its update to ${NEW}, these workloads fail on the node: ${WEB} cannot start`,
    });
  });

  it('does not count when it fails on nodes of the former version as well', () => {
    const listed = { a: [crashing(2 * MINUTE)] };
    const made = planOf({ nodes, listed, all: [{ node: 'a', ready: false }, { ready: false }] });
    expect([made.records, started(made)]).toEqual([[], ['c']]);
  });

  it.each<readonly [string, readonly DrainPod[], Updated]>([
    ['was broken before', [crashing(2 * MINUTE)], { msAgo: MINUTE, ready: {} }],
    ['was Ready more than an hour ago', [crashing(2 * MINUTE)], { msAgo: MINUTE, drainedMsAgo: 61 * MINUTE }],
    ['has the annotation health=ignore', [web(2 * MINUTE, { failing: true, healthIgnored: true })], { msAgo: MINUTE }],
    [
      'has two containers that were restarted once',
      [web(2 * MINUTE, { ready: true, restarts: 2, mostRestarts: 1, restartedAt: NOW })],
      { msAgo: MINUTE },
    ],
    ['was restarted once', [web(2 * MINUTE, { ready: true, mostRestarts: 1, restartedAt: NOW })], { msAgo: MINUTE }],
    [
      'is restarted by the boot only',
      [web(DAY, { ready: true, mostRestarts: 9, restartedAt: NOW - 40 * SECOND, controller: 'DaemonSet apps/log' })],
      { msAgo: 31 * SECOND, ready: { 'DaemonSet apps/log': 3 } },
    ],
    [
      'has got another revision since',
      [withRevision(crashing(2 * MINUTE), 'db-2')],
      { msAgo: MINUTE, ready: { 'StatefulSet apps/db db-1': 5 } },
    ],
    [
      'is a Job',
      [web(2 * MINUTE, { failing: true, controller: 'Job apps/job' })],
      { msAgo: MINUTE, ready: { 'Job apps/job': 1 } },
    ],
  ])('does not count when it %s', (_, pods, how) => {
    const made = planOf({ nodes: [updated('a', how), next], listed: { a: pods }, all: [] });
    expect([made.records, started(made)]).toEqual([[], ['c']]);
  });

  it('does not count before it has taken twice as long as before', () => {
    const made = (msAgo: number): WholePlan =>
      planOf({ nodes: [updated('a', { msAgo, ready: { [WEB]: 90 } })], listed: { a: [web(msAgo)] }, all: [] });
    expect(made(179 * SECOND).records).toEqual([]);
    expect(suspectsIn(made(180 * SECOND))[0]?.suspects).toMatchObject([{ problem: 'does not become Ready' }]);
  });

  it.each<readonly [string, DrainPod, string]>([
    ['does not become Ready', web(90 * SECOND), 'does not become Ready'],
    [
      'is restarted again and again',
      web(2 * MINUTE, { ready: true, mostRestarts: 2, restartedAt: NOW }),
      'is restarted again and again',
    ],
    ['is a DaemonSet', web(2 * MINUTE, { failing: true, controller: 'DaemonSet apps/log' }), 'cannot start'],
  ])('counts when it %s', (_, pod, problem) => {
    const ready = { [WEB]: 45, 'DaemonSet apps/log': 3 };
    const made = planOf({ nodes: [updated('a', { msAgo: MINUTE, ready }), next], listed: { a: [pod] }, all: [] });
    expect(suspectsIn(made)[0]?.suspects).toMatchObject([{ workload: pod.controller, problem }]);
  });

  it('names the node whose drain has moved its pod', () => {
    const both = [updated('a', { msAgo: 2 * MINUTE }), updated('b', { msAgo: SECOND, drainedMsAgo: MINUTE }), next];
    const made = planOf({ nodes: both, listed: { a: [crashing(50 * SECOND)] }, all: [] });
    expect(suspectsIn(made)[0]?.suspects).toEqual([{ ...suspect, from: 'b' }]);
  });

  it('is forgotten when its pods are Ready again', () => {
    const made = planOf({ nodes: [updated('a', { msAgo: MINUTE, suspects: [suspect] }), next], listed: { a: [] } });
    expect(suspectsIn(made)).toEqual([{ node: 'a', suspects: undefined }]);
    expect(made.records[0]?.event).toMatchObject({ reason: 'SuspectEnded', warning: false });
  });

  it('has the pods of its node listed every minute, and later every hour, for as long as it fails', () => {
    const since = (ms: number) => updated('a', { msAgo: ms, suspects: [{ ...suspect, at: ago(ms) }] });
    const listed = { a: [crashing(2 * MINUTE)] };
    const early = planOf({ nodes: [since(3 * MINUTE)], listed });
    const late = planOf({ nodes: [since(90 * MINUTE)], listed });
    const latest = planOf({ nodes: [since(DAY)], listed });
    expect([early, late, latest].map(({ wakeAt = 0 }) => wakeAt - NOW)).toEqual([MINUTE, 15 * MINUTE, 60 * MINUTE]);
    expect(late.records).toEqual([]);
    expect(suspectsIn(planOf({ nodes: [since(90 * MINUTE)], listed: { a: [] } }))).toEqual([
      { node: 'a', suspects: undefined },
    ]);
  });

  it('delays no node for ever when its pods cannot be listed', () => {
    const late = updated('a', { msAgo: 6 * MINUTE, suspects: [suspect] });
    expect(started(planOf({ nodes: [late, updated('b', { msAgo: SECOND }), next] }))).toEqual(['c']);
  });

  it('is not looked at again once a user has accepted it', () => {
    const accepted = updated('a', { msAgo: 60 * MINUTE, suspects: [{ ...suspect, at: ago(50 * MINUTE) }] });
    expect(lookUps(planOf({ nodes: [accepted] }))).toEqual(['a']);
    expect(lookUps(planOf({ nodes: [accepted], spec: { rollout: { resume: ago(MINUTE) } } }))).toEqual([]);
  });

  it('is recorded before ten of another namespace when its own is trusted, or when it was recorded before', () => {
    const crowd = Array.from({ length: 12 }, (_, i) => `DaemonSet aaa/crash-${i}`);
    const names = [...crowd, 'DaemonSet kube-system/dns', WEB];
    const ready = Object.fromEntries(names.map((name) => [name, 5]));
    const listed = { a: names.map((controller) => ({ ...crashing(2 * MINUTE), controller })) };
    const spec = { health: { trustedNamespaces: ['kube-system'] } };
    const first = planOf({ nodes: [updated('a', { msAgo: MINUTE, ready })], listed, all: [], spec });
    const found = suspectsIn(first)[0]?.suspects ?? [];
    expect(found).toHaveLength(10);
    expect(found.slice(0, 3).map(({ workload }) => workload)).toEqual([
      'DaemonSet kube-system/dns',
      'DaemonSet aaa/crash-0',
      WEB,
    ]);
    const node = updated('a', { msAgo: MINUTE, ready, suspects: [{ ...suspect, workload: crowd[11] ?? '' }] });
    const again = suspectsIn(planOf({ nodes: [node], listed, all: [], spec }))[0]?.suspects ?? [];
    expect(again.slice(0, 2).map(({ workload }) => workload)).toEqual(['DaemonSet kube-system/dns', crowd[11]]);
  });

  it('is looked at, and shown, until the fleet accepts it: its group accepts it for its own budget only', () => {
    const late = updated('a', { msAgo: 60 * MINUTE, suspects: [{ ...suspect, at: ago(50 * MINUTE) }] });
    const policy = { ...late.policy, resumes: [NOW - MINUTE] };
    const made = planOf({ nodes: [{ ...late, policy }] });
    expect(lookUps(made)).toEqual(['a']);
    expect(made.conditions.flat()[0]?.suspects).toContain(WEB);
  });

  it('makes its node Suspect, and holds no version alone', () => {
    const made = planOf({
      nodes: [updated('a', { msAgo: MINUTE, suspects: [suspect] }), next],
      listed: { a: [crashing(2 * MINUTE)] },
    });
    expect(started(made)).toEqual(['c']);
    const [condition] = made.conditions.flat();
    expect(condition && healthConditions(condition, NOW)).toMatchObject([
      { type: 'Ready' },
      { type: 'Suspect', status: 'True', message: `these workloads fail on the node: ${WEB} cannot start` },
    ]);
  });
});

describe('a node that has lost what a workload needs', () => {
  const GPU = 'nvidia.com/gpu';
  const needs = { [WEB]: [GPU] };
  const withGpu = aManagedNode('c', { devices: [GPU] });
  const a = (how: Partial<Updated> = {}): ManagedNode => updated('a', { msAgo: 2 * MINUTE, needs, ...how });
  const all = [{}];
  const suspect = { workload: WEB, problem: `no longer finds ${GPU}`, at: rfc3339(NOW) };

  it('is suspect, wherever the pods of the workload are', () => {
    const made = planOf({ nodes: [a(), withGpu], listed: { a: [] }, all });
    expect(suspectsIn(made)).toEqual([{ node: 'a', suspects: [suspect] }]);
    expect(made.records[0]?.event?.message).toContain(`${WEB} no longer finds ${GPU}`);
    const pending = planOf({ nodes: [a(), withGpu], listed: { a: [] }, all: [{ node: '', ready: false }] });
    expect(suspectsIn(pending)).toEqual([{ node: 'a', suspects: [suspect] }]);
  });

  it('is so when a label is gone, or has another value', () => {
    const label = { [WEB]: ['label pool=gpu'] };
    const other = aManagedNode('c', { labels: { pool: 'gpu' } });
    const nodes = [a({ needs: label, node: { labels: { pool: 'web' } } }), other];
    const problem = 'no longer finds label pool=gpu';
    expect(suspectsIn(planOf({ nodes, listed: { a: [] }, all }))[0]?.suspects).toMatchObject([{ problem }]);
  });

  it.each<readonly [string, World]>([
    ['has it again', { nodes: [a({ node: { devices: [GPU] } }), withGpu], all }],
    ['is one of those that all lost it', { nodes: [a(), aManagedNode('c')], all }],
    [
      'ran a workload that has no pod any more',
      { nodes: [a(), withGpu], all: [{ controller: 'ReplicaSet apps/new' }] },
    ],
    ['ran it more than an hour ago', { nodes: [a({ drainedMsAgo: 61 * MINUTE }), withGpu], all }],
    [
      'is of a namespace that is ignored',
      { nodes: [a(), withGpu], all, spec: { health: { ignoredNamespaces: ['apps'] } } },
    ],
    ['ran one that is broken elsewhere', { nodes: [a(), withGpu], all: [{ ready: false }] }],
  ])('is not suspect when it %s', (_, world) => {
    const made = planOf({ ...world, listed: { a: [] } });
    expect([made.records, made.holds]).toEqual([[], []]);
  });

  it('has as much time as a pod has to become Ready', () => {
    const early = planOf({ nodes: [a({ msAgo: 30 * SECOND }), withGpu], listed: { a: [] }, all });
    expect([early.records, early.wakeAt]).toEqual([[], NOW + 30 * SECOND]);
  });

  it('holds the version when another one has lost it too', () => {
    const nodes = [
      a({ suspects: [suspect] }),
      updated('b', { msAgo: 2 * MINUTE, needs, suspects: [suspect] }),
      withGpu,
    ];
    const made = planOf({ nodes, listed: { a: [], b: [] } });
    expect(started(made)).toEqual([]);
    expect(conditionOf(made, 'Held')?.message).toContain(
      `${WEB} (no longer finds ${GPU} on a, no longer finds ${GPU} on b)`,
    );
  });

  it('is not suspect any more when it has it again', () => {
    const nodes = [a({ suspects: [suspect], node: { devices: [GPU] } }), withGpu];
    expect(suspectsIn(planOf({ nodes, listed: { a: [] } }))).toEqual([{ node: 'a', suspects: undefined }]);
  });
});

describe('a version with which a workload fails on two nodes', () => {
  const suspect = { workload: WEB, problem: 'cannot start', at: ago(100 * SECOND) };
  const [a, b] = ['a', 'b'].map((name) => updated(name, { msAgo: 2 * MINUTE, suspects: [suspect] })) as [
    ManagedNode,
    ManagedNode,
  ];
  const listed = { a: [crashing(3 * MINUTE)], b: [crashing(3 * MINUTE)] };
  const heldSince = (ms: number) => [{ version: NEW, since: ago(ms) }];

  it('is held: no node starts, and the condition Held names workloads, nodes and the ways out', () => {
    const made = planOf({ nodes: [a, b, next], listed });
    expect(started(made)).toEqual([]);
    expect(made.conditions.flat().find(({ node }) => node.metadata.name === 'c')?.progressing.reason).toBe('Held');
    const condition = conditionOf(made, 'Held');
    expect(condition).toMatchObject({ status: 'True', reason: 'WorkloadsFail' });
    for (const part of [
      NEW,
      `${WEB} (cannot start on a, cannot start on b)`,
      'kubectl get pods -n NAMESPACE',
      'spec.rollout.resume',
      rfc3339(NOW + 60 * MINUTE),
    ])
      expect(condition?.message).toContain(part);
  });

  it('is held as well when it fails on one, to which the drain of another has moved it', () => {
    const moved = updated('a', { msAgo: 2 * MINUTE, suspects: [{ ...suspect, from: 'b' }] });
    expect(started(planOf({ nodes: [moved, next], listed }))).toEqual([]);
  });

  it('is not held when different workloads fail', () => {
    const other = updated('b', { msAgo: 2 * MINUTE, suspects: [{ ...suspect, workload: 'ReplicaSet apps/other' }] });
    expect(started(planOf({ nodes: [a, other, next], listed: { a: listed.a, b: [] } }))).toEqual(['c']);
  });

  it('is not drained for on a node that has staged it', () => {
    const staged = aManagedNode(
      'c',
      {},
      { spec: { state: 'StagedAndPerformedUpdate', version: NEW, state_transition_timestamp: ago(MINUTE) } },
    );
    const made = planOf({ nodes: [a, b, staged], listed });
    expect(made.specs.map(({ outcome }) => outcome)).toEqual(['Deferred']);
  });

  it('is held for an hour after the first time in all, whatever fails later', () => {
    expect(started(planOf({ nodes: [a, b, next], listed, held: heldSince(59 * MINUTE) }))).toEqual([]);
    const made = planOf({ nodes: [a, b, next], listed, held: heldSince(60 * MINUTE) });
    expect([started(made), conditionOf(made, 'Held')?.status]).toEqual([['c'], 'False']);
  });

  it('starts again when a user accepts it, or when the workloads are Ready', () => {
    const rollout = { resume: rfc3339(NOW) };
    expect(started(planOf({ nodes: [a, b, next], listed, spec: { rollout }, held: heldSince(MINUTE) }))).toEqual(['c']);
    const later = ['a', 'b'].map((name) =>
      updated(name, { msAgo: 2 * MINUTE, suspects: [{ ...suspect, at: ago(SECOND) }] }),
    );
    const resumed = { rollout: { resume: ago(MINUTE) } };
    expect(started(planOf({ nodes: [...later, next], listed, spec: resumed, held: heldSince(2 * MINUTE) }))).toEqual([
      'c',
    ]);
    const recovered = [updated('a', { msAgo: 2 * MINUTE }), updated('b', { msAgo: 2 * MINUTE }), next];
    expect(started(planOf({ nodes: recovered, listed: { a: [], b: [] }, held: heldSince(MINUTE) }))).toEqual(['c']);
  });

  it('does not delay further nodes when its hour is over', () => {
    const moved = updated('d', { msAgo: MINUTE, ready: { 'ReplicaSet apps/other': 5 } });
    const other = web(2 * MINUTE, { failing: true, controller: 'ReplicaSet apps/other' });
    const world = { nodes: [a, b, moved, next], listed: { ...listed, d: [other] } };
    expect(started(planOf({ ...world, held: heldSince(59 * MINUTE) }))).toEqual([]);
    expect(started(planOf({ ...world, held: heldSince(60 * MINUTE) }))).toEqual(['c']);
  });

  it('is frozen, for longer than an hour, when the workload is in a trusted namespace', () => {
    const health = { trustedNamespaces: ['apps'] };
    const made = planOf({ nodes: [a, b, next], listed, spec: { health }, held: heldSince(60 * MINUTE) });
    expect(made.failed).toMatchObject([
      { name: 'a', version: NEW, code: 'WorkloadsFailed' },
      { name: 'b', version: NEW, code: 'WorkloadsFailed' },
    ]);
    expect([started(made), made.frozen.map(({ version }) => version)]).toEqual([[], [NEW]]);
    expect(planOf({ nodes: [a, b, next], listed }).failed).toEqual([]);
  });
});
