/**
 * The cluster as the controller sees it: a watch cache for each resource, what was written and is not
 * in the watch yet, and the pods on the nodes that update next. The controller calls
 * {@link Cluster.snapshot} in each reconcile and plans from that value alone. Only a leader writes, so
 * a new one reads the shadows and the configuration live first ({@link Cluster.catchUp}).
 */
import { type BrupopConfig, readBrupopConfig } from '@brupop/shared/api/brupop-config';
import { isClockWrong, WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  NODE_GROUP_PLURAL,
  PAUSED_ANNOTATION,
  SHADOW_PLURAL,
  shadowName,
} from '@brupop/shared/api/names';
import { type BottlerocketNodeGroup, readNodeGroup } from '@brupop/shared/api/node-group';
import { type Budget, BUDGET_LIMITS, slimBudget } from '@brupop/shared/drain/budgets';
import { configPath, corePath, groupPath, leasePath, nodeGroupPath, shadowPath } from '@brupop/shared/kube/paths';
import { Reflector, type ReflectorEvent, type StoreLimits } from '@brupop/shared/kube/reflector';
import { instantOf } from '@brupop/shared/runtime/clock';
import { Listeners } from '@brupop/shared/runtime/listeners';
import type { NodeLog } from '@brupop/shared/runtime/log';
import { AllPodsLookup } from './all-pods.ts';
import { AssumeCache } from './assume-cache.ts';
import { Budgets } from './budgets.ts';
import { differs } from './change.ts';
import type { CheckLookups } from './checks.ts';
import { ClockSteps } from './clock-steps.ts';
import type { ClusterOptions } from './options.ts';
import { ConnectivityGuard, type NodeLease, type ProbeTime, readLease } from './connectivity.ts';
import { ClusterProbe, type DependentsView } from './dependents.ts';
import { MemberPodsLookup } from './member-pods.ts';
import { ManagedNodes, UnchangedNodes } from './managed-nodes.ts';
import { MetadataNotes } from './metadata-notes.ts';
import { bearsOwnership, concernsOperator, isManaged, type NodeView, readNode } from './node.ts';
import { NodeMemory } from './node-memory.ts';
import { PodLookups } from './pods.ts';
import { isGroupChange, isSpecChange, KEPT_PAUSED, Policies, rulesFor } from './policies.ts';
import { attemptIn, nodeOf, readShadow, type ShadowView } from './shadow.ts';
import { type ManagedNode, type Snapshot, staleResources, type WatchLag } from './snapshot.ts';
import { SuspendedPolicies } from './suspended-policies.ts';
import { UpkeepView } from './upkeep-view.ts';

/** Why the API server rejects the write of a node's spec, or the creation of its shadow. */
type FailureOf = (name: string, shadow: ShadowView | undefined) => Pick<ManagedNode, 'writeRejection' | 'writeFailure'>;

const NODES = 'nodes';
const BUDGETS = 'poddisruptionbudgets';
const LEASES = 'leases';
/** A kubelet renews its Lease every ten seconds. What is not renewed must not look expired because kube-apiserver lost etcd. */
const LEASES_WATCH = { idleLimitMs: 30_000, progressLimitMs: 0 };
/** Of the Leases that kubelets renew. */
const LEASE_NAMESPACE = 'kube-node-lease';
/** The period in which kubelets renew their Leases. */
const PROBE_MS = 10_000;

export class Cluster {
  readonly assumeCache = new AssumeCache();
  readonly metadataNotes = new MetadataNotes();
  readonly lookups: PodLookups;
  readonly allPods: AllPodsLookup;
  readonly members: MemberPodsLookup;
  readonly checks: CheckLookups;
  readonly upkeep: UpkeepView;
  readonly #options: ClusterOptions;
  readonly #nodes: Reflector<NodeView>;
  readonly #shadows: Reflector<ShadowView>;
  readonly #configs: Reflector<BrupopConfig>;
  readonly #groups: Reflector<BottlerocketNodeGroup>;
  readonly #budgets: Reflector<Budget>;
  readonly #indexedBudgets: Budgets;
  readonly #leases: Reflector<NodeLease>;
  readonly #guard = new ConnectivityGuard();
  readonly #cluster: ClusterProbe;
  /** Called when Leases may make a plan differ. */
  readonly #probes = new Listeners();
  readonly #memory = new NodeMemory();
  readonly #policies: Policies;
  readonly #steps = new ClockSteps();
  readonly #suspended = new SuspendedPolicies();
  readonly #unchanged = new UnchangedNodes();
  readonly #managed = new ManagedNodes();

  constructor(options: ClusterOptions) {
    const { client, clock, log, namespace, onWatchRestart = () => undefined } = options;
    const reflector = <T extends KubernetesObject>(
      name: string,
      path: string,
      slim: (raw: unknown) => T,
      more: { readonly limits?: StoreLimits<T>; readonly idleLimitMs?: number; readonly progressLimitMs?: number } = {},
    ): Reflector<T> => new Reflector({ client, clock, log, name, path, slim, ...more, onRestart: onWatchRestart });
    this.#options = options;
    this.checks = options.checks;
    this.lookups = new PodLookups({ client, clock, logOf: this.logOf });
    this.allPods = new AllPodsLookup({ client, clock, log });
    this.members = new MemberPodsLookup({ client, clock, log });
    this.#nodes = reflector(NODES, corePath(NODES), readNode);
    this.#shadows = reflector(SHADOW_PLURAL, shadowPath({ namespace }), readShadow);
    this.#configs = reflector(CONFIG_PLURAL, configPath(), readBrupopConfig);
    this.#groups = reflector(NODE_GROUP_PLURAL, nodeGroupPath(), readNodeGroup);
    this.#budgets = reflector(BUDGETS, groupPath('policy/v1', BUDGETS), slimBudget, { limits: BUDGET_LIMITS });
    this.#indexedBudgets = new Budgets(this.#budgets, log);
    this.#leases = reflector(LEASES, leasePath({ namespace: LEASE_NAMESPACE }), readLease, LEASES_WATCH);
    this.#leases.subscribe((event) => this.#guard.observe(event, instantOf(clock)));
    this.#policies = new Policies(this.#configs, this.#groups);
    const caches = { nodes: this.#nodes, shadows: this.#shadows, configs: this.#configs };
    const shadowOf = (node: string): ShadowView | undefined => this.shadowOf(node);
    const parts = { ...caches, policies: this.#policies, guard: this.#guard, shadowOf };
    this.#cluster = new ClusterProbe({ ...parts, hasTargets: options.dependents.length > 0 });
    this.upkeep = new UpkeepView({ ...parts, watches: this, client });
    this.#nodes.subscribe(({ type, object, old }) => {
      const { name } = object.metadata;
      if (object.isLarge && type !== 'Deleted' && old?.isLarge !== true)
        log.warn('a Node has too many labels, taints, conditions or keys of groups: the others are ignored', {
          node: name,
        });
      this.#noteChange(type, name);
      this.#memory.node(name, type === 'Deleted' ? undefined : object, this.shadowOf(name), instantOf(clock));
      if (type !== 'Deleted') return;
      this.#memory.forget(object);
      this.metadataNotes.forget(object.metadata.uid);
    });
    this.#shadows.subscribe(({ type, object }) => {
      this.#noteChange(type, nodeOf(object));
      this.#remember(type, object);
      if (type === 'Deleted') this.assumeCache.drop(object.metadata.uid);
    });
  }

  /** The logger of all lines about a node. */
  readonly logOf: NodeLog = (node) => {
    const shadow = this.shadowOf(node);
    return this.#options.log.with({ node, attempt: shadow && attemptIn(shadow) });
  };

  async run(signal: AbortSignal): Promise<void> {
    const running = Object.values(this.#reflectors).map((reflector) => reflector.run(signal));
    await Promise.all([...running, this.#keepProbing(signal)]);
  }

  get synced(): boolean {
    return Object.values(this.#reflectors).every((reflector) => reflector.synced);
  }

  /** Resolves when all caches are filled; rejects with the signal's reason. */
  async waitSynced(signal: AbortSignal): Promise<void> {
    await Promise.all(Object.values(this.#reflectors).map((reflector) => reflector.waitSynced(signal)));
  }

  watchLags(): readonly WatchLag[] {
    return Object.entries(this.#reflectors).map(([resource, reflector]) => ({ resource, ms: reflector.idleForMs() }));
  }

  /**
   * Calls `listener` for each change that can make a plan differ: not for heartbeats and renewed Leases, nor for what this
   * controller writes into a status, nor for budgets of pods that no plan needs. Returns a function that
   * unsubscribes.
   */
  onChange(listener: () => void): () => void {
    const on = <T extends KubernetesObject>(
      reflector: Reflector<T>,
      matters: (event: ReflectorEvent<T>) => boolean,
    ): (() => void) => reflector.subscribe((event) => matters(event) && listener());
    const ends = [
      on(this.#nodes, (event) => differs(event) && this.#isRelevant(event)),
      on(this.#shadows, differs),
      on(this.#configs, isSpecChange),
      on(this.#groups, isGroupChange),
      on(this.#budgets, (event) => this.lookups.hasPodsIn(event.object.metadata.namespace ?? '') && differs(event)),
      ...[this.lookups, this.checks, this.allPods, this.members].map(({ answers }) => answers.subscribe(listener)),
      this.#probes.subscribe(listener),
    ];
    return () => {
      for (const end of ends) end();
    };
  }

  /**
   * Reads all shadows live, so that a new leader counts what an earlier one has just started, and the
   * configuration, whose status says what is frozen. Without one, the Lease or shadows say whether it
   * paused the fleet. When no process led for long, nothing counts as late that has happened meanwhile. Throws KubeError.
   */
  async catchUp(signal: AbortSignal): Promise<BrupopConfig | undefined> {
    this.assumeCache.clear();
    const [shadows, configs] = await Promise.all([this.#shadows.readAll(signal), this.#configs.readAll(signal)]);
    for (const shadow of shadows.items) this.assumeCache.shadow(shadow);
    const config = configs.items.find(({ metadata }) => metadata.name === CONFIG_NAME);
    const isPaused = shadows.items.some(({ progressing }) => progressing?.reason === 'Paused');
    const reason = this.#options.pausedBefore?.() || (isPaused ? KEPT_PAUSED : '');
    if (config === undefined && reason !== '') this.#policies.keepPaused(reason);
    const now = this.#now();
    if (now.wall - (this.#options.ledBefore?.() ?? now.wall) >= WATCH_STALE_MS) this.#guard.unseen(now);
    return config;
  }

  /** For the Lease: what a leader that finds no configuration has to know of it. */
  get pause(): Readonly<Record<string, string>> {
    const { pausedWith } = this.#policies;
    return pausedWith === undefined ? {} : { [PAUSED_ANNOTATION]: pausedWith };
  }

  /**
   * Throws while a cache is not synced.
   * @param failureOf - undefined: no write has failed
   */
  snapshot(failureOf: FailureOf | undefined): Snapshot {
    if (!this.synced) throw new Error('the watch caches are not filled yet');
    if (this.#steps.wasSetBack(this.#now())) this.#forgetAnswers();
    const made = this.#managedNodes();
    const managedNodes =
      failureOf === undefined ? made : made.map((one) => ({ ...one, ...failureOf(one.name, one.shadow) }));
    const connectivity = this.#guard.probe(managedNodes, this.#policies.fleet, this.#now());
    const clockSkewMs = this.#options.client.clockSkewMs();
    // By a wrong clock, nodes that are updating would miss their deadlines.
    const wrong = { lost: true, lostUntil: this.#options.clock.now(), isClockWrong: true } as const;
    const loss = isClockWrong(clockSkewMs) ? { ...connectivity, ...wrong } : connectivity;
    const suspended = this.#suspended.of(managedNodes, this.#policies.fleet, loss);
    return {
      managedNodes: this.#unchanged.recognised(suspended.managedNodes),
      nodes: this.#nodes.list(),
      config: this.#configs.get(CONFIG_NAME),
      policy: suspended.policy,
      groups: this.#policies.groups,
      groupObjects: this.#groups.list(),
      metadataNotes: this.metadataNotes.view,
      pods: this.lookups.known,
      observed: this.lookups.observed,
      allPods: this.allPods.known,
      memberPods: this.members.view,
      budgets: this.#indexedBudgets.current(),
      watchLags: this.watchLags(),
      connectivity,
      clockSkewMs,
      checks: this.checks.view,
      ownNamespace: this.#options.agentNamespace,
      mayForce: this.#options.mayForce,
      ownNode: this.#options.nodeName,
    };
  }

  /** What `upkeep/dependents` decides on. */
  dependents(): DependentsView {
    return this.#cluster.view(this.watchLags(), !this.synced || isClockWrong(this.#options.client.clockSkewMs()));
  }

  get #reflectors(): Readonly<
    Record<string, Pick<Reflector<KubernetesObject>, 'run' | 'synced' | 'waitSynced' | 'idleForMs'>>
  > {
    return {
      [NODES]: this.#nodes,
      [SHADOW_PLURAL]: this.#shadows,
      [CONFIG_PLURAL]: this.#configs,
      [NODE_GROUP_PLURAL]: this.#groups,
      [BUDGETS]: this.#budgets,
      [LEASES]: this.#leases,
    };
  }

  /** Also while another replica leads, or none: the next leader must know of a loss that has just ended. */
  async #keepProbing(signal: AbortSignal): Promise<void> {
    let wasClockWrong = false;
    await this.waitSynced(signal).catch(() => undefined);
    while (!signal.aborted) {
      const isWrong = isClockWrong(this.#options.client.clockSkewMs());
      const isClockChanged = isWrong !== wasClockWrong;
      wasClockWrong = isWrong;
      if (this.#probeLeases() || isClockChanged) this.#probes.call();
      await this.#options.clock.sleep(PROBE_MS, signal).catch(() => undefined);
    }
  }

  /** True if a Lease has expired, or had at the latest probe: a new plan may differ. */
  #probeLeases(): boolean {
    if (!this.synced) return false;
    const before = this.#guard.latest;
    const now = this.#guard.probe(this.#managedNodes(), this.#policies.fleet, this.#now());
    const isChanged = this.#cluster.probe(this.#now());
    return isChanged || before.lost || before.expired.length > 0 || now.expired.length > 0;
  }

  #now(): ProbeTime {
    const { clock, client } = this.#options;
    const isUnsure = staleResources(this.watchLags()).length > 0 || isClockWrong(client.clockSkewMs());
    return { ...instantOf(clock), silentMs: this.#leases.idleForMs(), isUnsure };
  }

  #managedNodes(): readonly ManagedNode[] {
    const now = this.#now();
    for (const name of this.assumeCache.changed(now.wall)) this.#managed.change(name);
    const { fleet, groups } = this.#policies;
    this.#managed.makeWith({ fleet, groups, wallAtStart: now.wall - now.monotonic });
    return this.#managed.list(
      (name) => this.#managedNode(name, now),
      (name) => this.#guard.hasExpired(name, fleet, now),
    );
  }

  /** Without its Lease. Undefined for a node that is not managed, and has neither a shadow nor what the operator owns. */
  #managedNode(name: string, now: ProbeTime): ManagedNode | undefined {
    const found = this.#nodes.get(name);
    const node = found && this.#memory.asObserved(found);
    const shadow = this.shadowOf(name) ?? (node === undefined ? this.#strayShadow(name) : undefined);
    if (shadow === undefined && (node === undefined || !(isManaged(node) || bearsOwnership(node)))) return undefined;
    const rules = rulesFor({ node, shadow }, this.#policies);
    return {
      name,
      node,
      shadow,
      ...rules,
      evictedSince: this.#memory.evictedSince({ node, ...rules }, now),
      ...this.#memory.of(name, now),
    };
  }

  /** One with a name that the operator does not give: it belongs to no Node. */
  #strayShadow(name: string): ShadowView | undefined {
    const found = this.#shadows.get(name, this.#options.namespace);
    // That of another Node may have this name.
    return found !== undefined && nodeOf(found) === name ? found : undefined;
  }

  /** With what was written, while the watch has not shown it. */
  shadowOf(node: string): ShadowView | undefined {
    const cached = this.#shadows.get(shadowName(node), this.#options.namespace);
    return cached && this.assumeCache.view(cached, this.#options.clock.now());
  }

  #remember(type: ReflectorEvent<ShadowView>['type'], shadow: ShadowView): void {
    const [name, now] = [nodeOf(shadow), this.#now()];
    if (type !== 'Deleted') this.#memory.settings(name, shadow, now);
    if (type === 'Deleted') this.#memory.shadowDeleted(name, shadow, now);
    else if (type === 'Added' && this.synced) this.#memory.shadowAdded(name, this.#nodes.get(name), now);
  }

  /** Those of before a step of the clock are dated later than now, and would count, or be waited for, until then. */
  #forgetAnswers(): void {
    this.#options.log.warn('the clock was set back: pods, checks and Nodes are looked up again');
    this.lookups.retain(new Set(), new Set());
    for (const answers of [this.allPods, this.members, this.checks, this.metadataNotes]) answers.clear();
  }

  #noteChange(type: ReflectorEvent<KubernetesObject>['type'], name: string): void {
    this.#managed.change(name);
    const hasOther = (this.#nodes.get(name) ?? this.shadowOf(name)) !== undefined;
    if (type !== 'Modified') this.#memory.missing(name, type === 'Deleted' && hasOther, this.#now());
  }

  #isRelevant({ object, old }: ReflectorEvent<NodeView>): boolean {
    const nodes = [object, old ?? object];
    return nodes.some((node) => concernsOperator(node) || this.shadowOf(node.metadata.name) !== undefined);
  }
}
