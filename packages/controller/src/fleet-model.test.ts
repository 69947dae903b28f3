/** Leaders that come and go, with caches that lag behind, over a fleet that is edited by hand: the real plan and the real assumptions. */
import type { NodeRecord } from '@brupop/shared/api/record';
import fc from 'fast-check';
import { CORDONED_ANNOTATION, RETRY_ANNOTATION } from '@brupop/shared/api/names';
import { SHADOW_STATES, type ShadowSpec, type ShadowState, type ShadowStatus } from '@brupop/shared/api/shadow';
import { cordonedByUs } from '@brupop/shared/node/ownership';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { AssumeCache } from './cluster/assume-cache.ts';
import type { NodeView } from './cluster/node.ts';
import { type ShadowView, shadowView } from './cluster/shadow.ts';
import { isUnderWay } from './cluster/state.ts';
import type { ManagedNode } from './cluster/snapshot.ts';
import { type WholePlan as Plan, wholePlan as plan } from './whole-plan.ts';
import { nodesAtOnce } from './policy/policy.ts';
import { aManagedNode, aSnapshot, failure, MINUTE, NEW, NOW, OLD } from './testing/objects.ts';

// oxlint-disable-next-line node/no-process-env -- a run is repeated with its seed
const { BRUPOP_FUZZ_SEED = '20261121', BRUPOP_FUZZ_RUNS = '300' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);
const numRuns = Number(BRUPOP_FUZZ_RUNS);
const NODES = 5;

type How =
  | 'drains'
  | 'reaches'
  | 'fails'
  /** Does what is next: a node is drained before it reboots. */
  | 'goes on';
type Step =
  | { readonly do: 'lead' | 'reconcile' | 'sync' }
  | { readonly do: 'agent'; readonly node: number; readonly how: How }
  | { readonly do: 'edit spec'; readonly node: number; readonly state: ShadowState; readonly since: string }
  | { readonly do: 'edit status'; readonly node: number; readonly status: Partial<ShadowStatus> }
  | { readonly do: 'lose' | 'label'; readonly node: number }
  | { readonly do: 'configure'; readonly spec: unknown }
  | { readonly do: 'time'; readonly ms: number };

const node = fc.nat(NODES - 1);
const time = fc.constantFrom(rfc3339(NOW), '0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z');
const anyStatus: fc.Arbitrary<Partial<ShadowStatus>> = fc.record(
  {
    current_state: fc.constantFrom(...SHADOW_STATES),
    current_version: fc.constantFrom(OLD, NEW, '0.0.0'),
    target_version: fc.constantFrom(OLD, NEW, '99999999999.0.0'),
    crash_count: fc.constantFrom(0, 1, 2 ** 31),
    observedGeneration: fc.constantFrom(0, 1, 3, 4, 5, 9e18),
    bootID: fc.constantFrom('boot-1', '', 'another'),
    state_transition_failure_timestamp: time,
    lastOperation: fc.constantFrom(failure('RolledBack'), failure('PrepareFailed', { state: 'Processing' })),
  },
  { requiredKeys: [] },
);
const config = fc.constantFrom<unknown>(
  undefined,
  { concurrency: { maxUpdating: 2 } },
  { concurrency: { maxUpdating: '60%' } },
  { concurrency: { maxUpdating: 'all' } },
  { paused: true },
  { paused: true, pauseMode: 'Interrupt' },
  { drain: { timeout: '1m', taintWaitingNodes: true } },
  { paused: 'no' },
);
const agent = fc.record({
  do: fc.constant('agent' as const),
  node,
  how: fc.constantFrom('drains' as const, 'reaches' as const, 'reaches' as const, 'reaches' as const, 'fails' as const),
});
const common: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('reconcile' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('sync' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('lead' as const) }) },
  { weight: 6, arbitrary: agent },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('configure' as const), spec: config }) },
);
const edits: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('edit spec' as const), node, state: fc.constantFrom(...SHADOW_STATES), since: time }),
  fc.record({ do: fc.constant('edit status' as const), node, status: anyStatus }),
  fc.record({ do: fc.constantFrom('lose' as const, 'label' as const), node }),
  fc.record({ do: fc.constant('time' as const), ms: fc.constantFrom(MINUTE, 40 * MINUTE, 400 * MINUTE, -90 * MINUTE) }),
);
const passing: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('time' as const),
  ms: fc.constantFrom(MINUTE, 5 * MINUTE, 40 * MINUTE, 400 * MINUTE),
});
const orderly = fc.array(fc.oneof({ weight: 18, arbitrary: common }, { weight: 2, arbitrary: passing }), {
  minLength: 20,
  maxLength: 100,
});
const messy = fc.array(fc.oneof({ weight: 4, arbitrary: common }, { weight: 1, arbitrary: edits }), {
  minLength: 20,
  maxLength: 100,
});

/** Two nodes, of which one may be drained at a time. */
const late = fc.array(
  fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom<Step>({ do: 'reconcile' }, { do: 'sync' }) },
    { weight: 4, arbitrary: fc.nat(1).map((one): Step => ({ do: 'agent', node: one, how: 'goes on' })) },
    {
      weight: 1,
      arbitrary: fc.integer({ min: 1, max: 80 }).map((minutes): Step => ({ do: 'time', ms: minutes * MINUTE })),
    },
  ),
  { minLength: 40, maxLength: 150 },
);

/** What the API server holds, and one leader after the other. */
class Fleet {
  now = NOW;
  managedNodes: readonly ManagedNode[];
  config: unknown = undefined;
  readonly found: string[] = [];
  /** Names of nodes whose agents have taken a step of an update that they have not confirmed the end of. */
  readonly #disturbed = new Set<string>();
  /** Names of nodes that were requested to reboot, until their agents confirm the end. */
  readonly #rebooted = new Set<string>();
  /** Names of nodes whose specs were edited: when they ended says nothing. */
  readonly #edited = new Set<string>();
  #cached: { readonly managedNodes: readonly ManagedNode[]; readonly config: unknown };
  #assumeCache = new AssumeCache();
  #versions = 1;

  constructor(nodes: number) {
    this.managedNodes = Array.from({ length: nodes }, (_, i) => aManagedNode(`node-${i}`));
    this.#cached = { managedNodes: this.managedNodes, config: undefined };
  }

  step(step: Step): void {
    switch (step.do) {
      case 'reconcile':
        return this.reconcile();
      case 'sync':
        return this.sync();
      case 'lead':
        return this.#lead();
      case 'configure':
        this.config = step.spec;
        return this.sync();
      case 'time':
        this.now += step.ms;
        return undefined;
      case 'agent':
        return this.change(step.node, (managedNode) => this.#act(managedNode, step.how));
      default:
        this.change(step.node, (managedNode) => this.#edit(managedNode, step));
        return this.sync();
    }
  }

  /** The watch shows all there is. */
  sync(): void {
    this.#cached = { managedNodes: this.managedNodes, config: this.config };
  }

  change(index: number, edit: (managedNode: ManagedNode) => ManagedNode): void {
    this.managedNodes = this.managedNodes.map((managedNode, i) => (i === index ? edit(managedNode) : managedNode));
  }

  reconcile(): void {
    const managedNodes = this.#cached.managedNodes.map((managedNode) =>
      managedNode.shadow === undefined
        ? managedNode
        : { ...managedNode, shadow: this.#assumeCache.view(managedNode.shadow, this.now) },
    );
    const snapshot = aSnapshot(managedNodes, this.#cached.config, this.now);
    const made = plan(snapshot, this.now);
    let starts = 0;
    for (const { node: one, shadow, spec, record, outcome } of made.specs) {
      if (!this.#write(shadow, spec, record)) continue;
      if (outcome === 'Started') starts += 1;
      // Its agent has nothing left to do, whatever it repeats.
      if (outcome === 'Succeeded') this.#rebooted.delete(one.metadata.name);
    }
    if (starts > 0) this.#evaluateStart(made);
    if (made.wakeAt !== undefined && !(made.wakeAt > this.now)) this.found.push('wakes in the past');
  }

  #evaluateStart({
    policy: {
      concurrency: { maxUpdating },
      paused,
      problem,
    },
    counts,
  }: Plan): void {
    const may = nodesAtOnce(maxUpdating, counts.managed);
    if (paused || problem !== undefined) this.found.push('a start while nothing may start');
    if (this.disrupted > may) this.found.push(`${this.disrupted} disrupted, ${may} may be`);
  }

  /** Nodes that are drained, or were and are asked to reboot. */
  get drained(): number {
    return this.managedNodes.filter(
      ({ node: one, shadow }) =>
        one?.metadata.annotations?.[CORDONED_ANNOTATION] !== undefined && shadow?.spec.state === 'RebootedIntoUpdate',
    ).length;
  }

  get disrupted(): number {
    return this.managedNodes.filter((managedNode) => this.#isDisrupted(managedNode)).length;
  }

  #isDisrupted({ name, node: one, shadow }: ManagedNode): boolean {
    if (one !== undefined && cordonedByUs(one)) return true;
    if (shadow === undefined) return false;
    if (isUnderWay(shadow)) return true;
    return shadow.status?.observedGeneration !== shadow.metadata.generation && this.#mayStillReboot(name, shadow);
  }

  #mayStillReboot(name: string, shadow: ShadowView): boolean {
    if (!this.#rebooted.has(name)) return false;
    const endedAt = parseTime(shadow.spec.state_transition_timestamp) ?? this.now;
    return this.#disturbed.has(name) || (!this.#edited.has(name) && this.now < endedAt + 5 * MINUTE);
  }

  /** A new process becomes the leader: an empty cache, and everything read live. */
  #lead(): void {
    this.#assumeCache = new AssumeCache();
    for (const { shadow } of this.managedNodes) if (shadow !== undefined) this.#assumeCache.shadow(shadow);
  }

  /** Only onto what was planned from. */
  #write(planned: ShadowView, spec: ShadowSpec, record: NodeRecord): boolean {
    const index = this.managedNodes.findIndex(({ shadow }) => shadow?.metadata.uid === planned.metadata.uid);
    const current = this.managedNodes[index]?.shadow;
    if (current?.metadata.resourceVersion !== planned.metadata.resourceVersion) return false;
    const written = this.#versioned({ ...current, record, spec }, true);
    this.change(index, (managedNode) => ({ ...managedNode, shadow: written }));
    this.#assumeCache.shadow(written);
    if (spec.state === 'RebootedIntoUpdate') this.#rebooted.add(this.managedNodes[index]?.name ?? '');
    return true;
  }

  #versioned(shadow: ShadowView, isNewSpec: boolean): ShadowView {
    this.#versions += 1;
    const { metadata } = shadow;
    const generation = (metadata.generation ?? 0) + (isNewSpec ? 1 : 0);
    return shadowView({ ...shadow, metadata: { ...metadata, generation, resourceVersion: `v${this.#versions}` } });
  }

  #act(managedNode: ManagedNode, how: How): ManagedNode {
    const { node: one, shadow } = managedNode;
    if (one === undefined || shadow?.status === undefined) return managedNode;
    const reboots = shadow.spec.state === 'RebootedIntoUpdate';
    if (how === 'drains' && !reboots) return managedNode;
    const drains = how === 'drains' || (how === 'goes on' && reboots && !isDrained(shadow));
    this.#noteStep(shadow, managedNode.name, how);
    if (drains) return this.#drains(managedNode, one, shadow);
    const status = answered(shadow, shadow.status, how);
    return { ...managedNode, node: uncordoned(one), shadow: this.#versioned({ ...shadow, status }, false) };
  }

  #noteStep({ spec: { state } }: ShadowView, name: string, how: How): void {
    const isOver = state === 'Idle' || (state === 'RebootedIntoUpdate' && how === 'reaches');
    if (state === 'Idle') this.#rebooted.delete(name);
    if (isOver) this.#disturbed.delete(name);
    else this.#disturbed.add(name);
  }

  /** What it has reported of its drain, and the first pass for this spec, stay. */
  #drains(managedNode: ManagedNode, one: NodeView, shadow: ShadowView): ManagedNode {
    const { status, metadata } = shadow;
    const observedGeneration = metadata.generation ?? 0;
    if (status === undefined || isDrained(shadow)) return managedNode;
    const lastOperation = failure(undefined, { operation: 'Drain', state: 'Processing' });
    const drain = { observedGeneration, startTime: rfc3339(this.now), evicted: 0, remaining: 1 };
    const draining = { ...status, observedGeneration, lastOperation, drain };
    return {
      ...managedNode,
      node: cordoned(one, this.now),
      shadow: this.#versioned({ ...shadow, status: draining }, false),
    };
  }

  #edit(managedNode: ManagedNode, step: Step): ManagedNode {
    const { node: one, shadow } = managedNode;
    this.#disturbed.delete(managedNode.name);
    this.#rebooted.delete(managedNode.name);
    this.#edited.add(managedNode.name);
    if (step.do === 'lose')
      return shadow === undefined ? another(managedNode.name) : { ...managedNode, shadow: undefined };
    if (one === undefined || shadow?.status === undefined) return managedNode;
    if (step.do === 'label') return { ...managedNode, node: { ...one, metadata: { ...one.metadata, labels: {} } } };
    if (step.do === 'edit status') {
      return {
        ...managedNode,
        shadow: this.#versioned({ ...shadow, status: { ...shadow.status, ...step.status } }, false),
      };
    }
    if (step.do !== 'edit spec') return managedNode;
    const spec = { state: step.state, version: NEW, state_transition_timestamp: step.since };
    return { ...managedNode, shadow: this.#versioned({ ...shadow, spec }, true) };
  }
}

function isDrained({ metadata, status }: ShadowView): boolean {
  return status?.drain?.observedGeneration === metadata.generation;
}

/** What an agent reports that has done, or failed to do, what its spec says. */
function answered({ spec, metadata }: ShadowView, status: ShadowStatus, how: How): ShadowStatus {
  const version = spec.version ?? '';
  const known = { ...status, observedGeneration: metadata.generation ?? 0 };
  if (how === 'fails' && spec.state !== 'Idle') {
    const crash_count = Math.min(status.crash_count, 9) + 1;
    return { ...known, current_state: 'ErrorReset', crash_count, lastOperation: failure('PrepareFailed', { version }) };
  }
  const current_version = spec.state === 'RebootedIntoUpdate' ? version : status.current_version;
  const staged = failure(undefined, { operation: 'Stage', state: 'Succeeded', version });
  const lastOperation = spec.state === 'StagedAndPerformedUpdate' ? staged : status.lastOperation;
  return {
    ...known,
    current_state: spec.state,
    current_version,
    crash_count: 0,
    ...(lastOperation !== undefined && { lastOperation }),
  };
}

let recreated = 0;
/** With another shadow than the one that was lost. */
function another(name: string): ManagedNode {
  recreated += 1;
  return aManagedNode(name, {}, { uid: `shadow-${name}-${recreated}` });
}

function cordoned(one: NodeView, now: number): NodeView {
  const annotations = { [CORDONED_ANNOTATION]: rfc3339(now) };
  return { ...one, unschedulable: true, metadata: { ...one.metadata, annotations } };
}

function uncordoned(one: NodeView): NodeView {
  return { ...one, unschedulable: false, metadata: { ...one.metadata, annotations: {} } };
}

it(`never disrupts more nodes than allowed, with any leader and any watch lag (seed ${seed})`, () => {
  const property = fc.property(orderly, (steps) => {
    const fleet = new Fleet(NODES);
    for (const step of steps) fleet.step(step);
    expect(fleet.found).toEqual([]);
  });
  fc.assert(property, { seed, numRuns });
});

it(`never drains more nodes than allowed, however late agents start their steps (seed ${seed})`, () => {
  const property = fc.property(late, (steps) => {
    const fleet = new Fleet(2);
    const most = steps.reduce((before, step) => {
      fleet.step(step);
      return Math.max(before, fleet.drained);
    }, 0);
    expect(most).toBeLessThanOrEqual(1);
  });
  fc.assert(property, { seed, numRuns: 5 * numRuns });
});

it(`brings every node up to date in the end, whatever was edited by hand and wherever the clock jumped (seed ${seed})`, () => {
  const property = fc.property(messy, (steps) => {
    const fleet = new Fleet(NODES);
    for (const step of steps) fleet.step(step);
    settle(fleet);
    expect(fleet.found).toEqual([]);
    const states = fleet.managedNodes.map(({ shadow }) => `${shadow?.spec.state} ${shadow?.status?.current_version}`);
    expect(states).toEqual(Array.from({ length: NODES }, () => `Idle ${NEW}`));
  });
  fc.assert(property, { seed, numRuns });
});

/** Users repair labels and lost shadows, accept failures and request retries. Agents answer, and time passes. */
function settle(fleet: Fleet): void {
  fleet.config = { rollout: { failureBudget: '100%' } };
  for (let round = 0; round < 150; round += 1) {
    for (let i = 0; i < NODES; i += 1) {
      fleet.change(i, repaired);
      fleet.step({ do: 'agent', node: i, how: 'reaches' });
    }
    fleet.sync();
    fleet.reconcile();
    fleet.now += MINUTE;
  }
}

function repaired(managedNode: ManagedNode): ManagedNode {
  const whole = managedNode.shadow === undefined ? another(managedNode.name) : managedNode;
  const { node: one, shadow } = whole;
  if (one === undefined || shadow?.status === undefined) return whole;
  const status = { ...shadow.status, target_version: NEW, bootID: 'boot-1' };
  const fresh = aManagedNode(managedNode.name).node?.metadata.labels ?? {};
  const retry = { ...shadow.metadata, annotations: { ...shadow.metadata.annotations, [RETRY_ANNOTATION]: NEW } };
  return {
    ...whole,
    node: { ...one, metadata: { ...one.metadata, labels: fresh } },
    shadow: shadowView({ ...shadow, metadata: retry, status }),
  };
}
