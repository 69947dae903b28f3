/**
 * How the planner of this commit is asked: a snapshot from objects, what its plan says, and what it wants to be written.
 * What it asks to be looked up, such as the pods of a node, is in the next snapshot. A restructuring of the planner changes this
 * file and no other one of the comparison.
 */
import { type BrupopConfig, readBrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { isClockWrong } from '../../../packages/shared/src/api/deadlines.ts';
import { type BottlerocketNodeGroup, readNodeGroup } from '../../../packages/shared/src/api/node-group.ts';
import { indexedBudgets } from '../../../packages/shared/src/drain/budget-index.ts';
import { slimBudget } from '../../../packages/shared/src/drain/budgets.ts';
import { slimPod } from '../../../packages/shared/src/drain/pods.ts';
import type { Instant } from '../../../packages/shared/src/runtime/clock.ts';
import { type AllPods, NO_PODS_LISTED, placedPod } from '../../../packages/controller/src/cluster/all-pods.ts';
import type { ChecksView, Evaluation, JobView } from '../../../packages/controller/src/cluster/checks.ts';
import { CONNECTED } from '../../../packages/controller/src/cluster/connectivity.ts';
import { observedPods } from '../../../packages/controller/src/cluster/pods.ts';
import { type MemberPods, membersKey } from '../../../packages/controller/src/cluster/member-pods.ts';
import { bearsOwnership, isManaged, type NodeView, readNode } from '../../../packages/controller/src/cluster/node.ts';
import { NodeMemory } from '../../../packages/controller/src/cluster/node-memory.ts';
import { rulesFor } from '../../../packages/controller/src/cluster/policies.ts';
import { SuspendedPolicies } from '../../../packages/controller/src/cluster/suspended-policies.ts';
import { keyOf, type Probe } from '../../../packages/controller/src/cluster/probes.ts';
import { readShadow, type ShadowView } from '../../../packages/controller/src/cluster/shadow.ts';
import type {
  ManagedNode,
  ObservedPods,
  PodsOfNode,
  Snapshot,
} from '../../../packages/controller/src/cluster/snapshot.ts';
import { fleetStateOf } from '../../../packages/controller/src/plan/fleet/fleet-state.ts';
import { UnchangedNodes } from '../../../packages/controller/src/cluster/managed-nodes.ts';
import { KeptFacts, type WholePlan as Plan, wholePlan as plan } from '../../../packages/controller/src/whole-plan.ts';
import { type NodeGroup, readNodeGroups } from '../../../packages/controller/src/policy/node-groups.ts';
import { readPolicy, type UpdatePolicy } from '../../../packages/controller/src/policy/policy.ts';
import type { Objects } from './fleet.ts';
import { NAMESPACE, START } from './objects.ts';
import { statusesOf, type Told, toldOf, type Write, writesOf } from './told.ts';

/** One process of the controller. */
export class Planner {
  readonly #memory = new NodeMemory();
  readonly #suspended = new SuspendedPolicies();
  readonly #unchanged = new UnchangedNodes();
  readonly #kept = new KeptFacts();
  /** By the object that it was read from, as a watch cache has it. */
  readonly #views = new WeakMap<object, NodeView | ShadowView>();
  #policy: { readonly of: string; readonly policy: UpdatePolicy } | undefined;
  #groups: { readonly of: string; readonly fleet: UpdatePolicy; readonly groups: readonly NodeGroup[] } | undefined;
  #pods: ReadonlyMap<string, PodsOfNode> = new Map();
  #observed: ReadonlyMap<string, ObservedPods> = new Map();
  #allPods: AllPods = NO_PODS_LISTED;
  #members: ReadonlyMap<string, MemberPods> = new Map();
  #evaluations: ReadonlyMap<string, Evaluation> = new Map();
  #jobs: ReadonlyMap<string, JobView> = new Map();
  #seen: Objects | undefined;

  plan(objects: Objects): { readonly told: Told; readonly writes: readonly Write[] } {
    this.#remember(objects);
    const snapshot = this.#snapshot(objects);
    const made = plan(snapshot, objects.now, this.#kept);
    const slots = [...fleetStateOf(snapshot, objects.now, this.#kept.facts).slots.keys()]
      .map(({ name }) => name)
      .toSorted();
    const statuses = statusesOf(snapshot, made, objects.now);
    this.#look(made, objects);
    return { told: { ...toldOf(made), slots, statuses }, writes: [...writesOf(made, objects.now), ...statuses] };
  }

  /** What the watches of the cluster tell its memory. */
  #remember(objects: Objects): void {
    const before = this.#seen;
    for (const name of new Set([...objects.nodes.keys(), ...(before?.nodes.keys() ?? [])])) {
      this.#rememberNode(name, before, objects);
      if (before !== undefined) this.#rememberShadow(name, before, objects);
    }
    this.#seen = objects;
  }

  #rememberNode(name: string, before: Objects | undefined, objects: Objects): void {
    const [node, shadow] = [this.#node(objects, name), this.#shadow(objects, name)];
    const now = instantOf(objects);
    if (before?.nodes.get(name) !== objects.nodes.get(name)) this.#memory.node(name, node, shadow, now);
    if (shadow !== undefined) this.#memory.settings(name, shadow, now);
    const isGone = (one: 'nodes' | 'shadows'): boolean => before?.[one].has(name) === true && !objects[one].has(name);
    if (isGone('nodes') || isGone('shadows')) this.#memory.missing(name, true, now);
    else if (node !== undefined && shadow !== undefined) this.#memory.missing(name, false, now);
  }

  #rememberShadow(name: string, before: Objects, objects: Objects): void {
    const [was, is] = [before.shadows.get(name), objects.shadows.get(name)];
    if (was?.metadata.uid === is?.metadata.uid) return;
    const now = instantOf(objects);
    if (was !== undefined) this.#memory.shadowDeleted(name, readShadow(was), now);
    if (is !== undefined) this.#memory.shadowAdded(name, this.#node(objects, name), now);
  }

  #node({ nodes }: Objects, name: string): NodeView | undefined {
    const raw = nodes.get(name);
    return raw && this.#view(raw, readNode);
  }

  #shadow({ shadows }: Objects, name: string): ShadowView | undefined {
    const raw = shadows.get(name);
    return raw && this.#view(raw, readShadow);
  }

  #view<T extends NodeView | ShadowView>(raw: object, read: (found: unknown) => T): T {
    const known = this.#views.get(raw) as T | undefined;
    if (known !== undefined) return known;
    const view = read(raw);
    this.#views.set(raw, view);
    return view;
  }

  /** Read anew when the specification or what is in force changes, as the watch cache does. */
  #policyOf(config: BrupopConfig | undefined): UpdatePolicy {
    const of = JSON.stringify([config?.metadata.generation, config?.spec, config?.status?.inForce]);
    if (this.#policy?.of === of) return this.#policy.policy;
    const policy = readPolicy(config, config === undefined ? this.#policy?.policy : undefined);
    this.#policy = { of, policy };
    return policy;
  }

  #groupsOf(objects: readonly BottlerocketNodeGroup[], fleet: UpdatePolicy): readonly NodeGroup[] {
    const of = JSON.stringify(
      objects.map(({ metadata, spec, status }) => [
        metadata.generation,
        spec,
        status?.rendered,
        status?.confirmedGeneration,
      ]),
    );
    if (this.#groups?.of === of && this.#groups.fleet === fleet) return this.#groups.groups;
    const groups = readNodeGroups(objects, fleet);
    this.#groups = { of, fleet, groups };
    return groups;
  }

  #snapshot(objects: Objects): Snapshot {
    const { now, isLost, skewMs } = objects;
    const config = objects.config && readBrupopConfig(objects.config);
    const fleet = this.#policyOf(config);
    const groupObjects = [...objects.groups.values()].map(readNodeGroup);
    const groups = this.#groupsOf(groupObjects, fleet);
    const isSuspended = isLost || isClockWrong(skewMs);
    const loss = isSuspended ? { ...CONNECTED, lost: true, lostUntil: now } : CONNECTED;
    const nodes = [...objects.nodes.keys()].flatMap((name) => this.#node(objects, name) ?? []);
    const suspended = this.#suspended.of(this.#managedNodes(objects, { fleet, groups }), fleet, loss);
    return {
      managedNodes: this.#unchanged.recognised(suspended.managedNodes),
      nodes,
      config,
      policy: suspended.policy,
      groups,
      groupObjects,
      metadataNotes: new Map(),
      pods: this.#pods,
      observed: this.#observed,
      allPods: this.#allPods,
      memberPods: this.#members,
      budgets: indexedBudgets(objects.budget === undefined ? [] : [slimBudget(objects.budget)]),
      watchLags: [{ resource: 'nodes', ms: objects.lagMs }],
      connectivity: isLost ? { ...CONNECTED, lost: true, lostUntil: now } : CONNECTED,
      clockSkewMs: skewMs,
      checks: this.#checks(),
      ownNamespace: NAMESPACE,
      mayForce: true,
      ownNode: 'node-3',
    };
  }

  #managedNodes(objects: Objects, rules: Parameters<typeof rulesFor>[1]): ManagedNode[] {
    const now = instantOf(objects);
    const names = [...new Set([...objects.nodes.keys(), ...objects.shadows.keys()])];
    return names.flatMap((name) => {
      const [found, shadow] = [this.#node(objects, name), this.#shadow(objects, name)];
      const node = found && this.#memory.asObserved(found);
      if (shadow === undefined && (node === undefined || (!isManaged(node) && !bearsOwnership(node)))) return [];
      const writeRejection = objects.rejections.get(name);
      const memory = this.#memory.of(name, now);
      const own = rulesFor({ node, shadow }, rules);
      const rejected = writeRejection === undefined ? {} : { writeRejection };
      return [
        {
          name,
          node,
          shadow,
          ...own,
          evictedSince: this.#memory.evictedSince({ node, ...own }, now),
          leaseExpired: node?.isUnreachable,
          ...memory,
          ...rejected,
        },
      ];
    });
  }

  #checks(): ChecksView {
    return { namespace: 'brupop-checks', evaluations: this.#evaluations, jobs: this.#jobs };
  }

  /** Does what the leader does after a plan. */
  #look(made: Plan, objects: Objects): void {
    const { now, pods } = objects;
    const kept = [...this.#pods].filter(([name]) => made.needsPodsOf.has(name));
    const listed = made.lookUps.map((node) => [node.metadata.name, podsOn(node, pods, now)] as const);
    this.#pods = new Map([...kept, ...listed]);
    const observed = listed.map(([name, of]) => [name, observedPods(of, this.#observed.get(name))] as const);
    this.#observed = new Map([...[...this.#observed].filter(([name]) => made.observes.has(name)), ...observed]);
    if (made.allPods === 'forget') this.#allPods = { ...NO_PODS_LISTED, nextAt: this.#allPods.nextAt };
    const placed = made.allPods === 'list' ? pods.flatMap((pod) => placedPod(pod) ?? []) : [];
    if (made.allPods === 'list')
      this.#allPods = { pods: placed, seenAt: now, asOf: now, problem: undefined, nextAt: now + 5_000 };
    const members = pods.map((pod) => slimPod(pod)).filter(({ metadata }) => metadata.labels?.['app'] === 'db');
    const fresh = made.members.list.map(
      (one) => [membersKey(one), { pods: members, asOf: now, problem: undefined, nextAt: now + 5_000 }] as const,
    );
    this.#members = new Map([...[...this.#members].filter(([key]) => made.members.keep.has(key)), ...fresh]);
    this.#evaluations = new Map([
      ...this.#evaluations,
      ...made.checks.evaluate.map((probe) => [keyOf(probe), this.#answer(probe, objects)] as const),
    ]);
    const read = made.checks.read.map((ref) => {
      const job = objects.jobs.get(ref.jobName);
      const state = (job?.state ?? 'Gone') as JobView['state'];
      return [
        ref.jobName,
        { state, jobOf: ref.jobOf, since: this.#jobs.get(ref.jobName)?.since ?? now, seenAt: now },
      ] as const;
    });
    this.#jobs = new Map([...this.#jobs, ...read]);
  }

  #answer(probe: Probe, { now, checksPass }: Objects): Evaluation {
    const passed = checksPass || probe.kind === 'cronJob';
    const before = this.#evaluations.get(keyOf(probe));
    return {
      passed,
      found: passed ? 'all is well' : 'too many errors',
      at: now,
      since: before?.passed === passed ? before.since : now,
    };
  }
}

function podsOn({ metadata: { name, uid } }: NodeView, all: readonly object[], now: number): PodsOfNode {
  const pods = all.map((pod) => slimPod(pod)).filter(({ node }) => node === name);
  const namespaces = new Set(pods.map(({ metadata }) => metadata.namespace ?? ''));
  return { nodeUID: uid, pods, namespaces, seenAt: now, problem: undefined, retryAt: 0 };
}

function instantOf({ now }: Objects): Instant {
  return { wall: now, monotonic: now - START };
}
