/**
 * One fleet with a planner: its objects, what events and agents make of them, and what the planner says after each event.
 * The planner of another commit is another copy of this file with all that it imports (`planner.cjs`), and both are told
 * the same events. So nothing but JSON goes in and out, and only `planned.ts` knows how the planner is called.
 */
import { act, type Host, uncordoned, withCondition, withReady } from './agents.ts';
import type { Event, GroupEvent } from './events.ts';
import {
  newBudget,
  newNode,
  newObject,
  newPod,
  newShadow,
  type RawNode,
  type RawObject,
  type RawShadow,
  START,
  timeOf,
} from './objects.ts';
import { Planner } from './planned.ts';
import type { Told, Write } from './told.ts';

/** Everything that a planner is told about. */
export interface Objects {
  readonly now: number;
  readonly nodes: ReadonlyMap<string, RawNode>;
  /** By the name of the node. */
  readonly shadows: ReadonlyMap<string, RawShadow>;
  readonly config: RawObject | undefined;
  readonly groups: ReadonlyMap<string, RawObject>;
  readonly pods: readonly object[];
  readonly budget: object | undefined;
  readonly isLost: boolean;
  readonly lagMs: number;
  readonly skewMs: number;
  readonly checksPass: boolean;
  /** By name, as created for a planner. */
  readonly jobs: ReadonlyMap<string, { readonly state: string; readonly jobOf: string; readonly since: number }>;
  /** By the name of the node. */
  readonly rejections: ReadonlyMap<string, string>;
}

const NODES = 6;
const RETRY = 'brupop.bottlerocket.aws/retry';

/** No pods, Jobs nor problems. */
export const NOTHING_ELSE = {
  pods: [],
  budget: undefined,
  isLost: false,
  lagMs: 0,
  skewMs: 0,
  checksPass: true,
  jobs: new Map(),
  rejections: new Map(),
} as const;

export class Fleet {
  #objects: Objects;
  #hosts: ReadonlyMap<string, Host>;
  #uids = 0;
  #planner = new Planner();

  constructor() {
    const nodes = Array.from({ length: NODES }, (_, i) => newNode(i, `uid-node-${i}`));
    const shadows = nodes.map(
      (node) => [node.metadata.name, newShadow(node, `uid-${node.metadata.name}-0`, START)] as const,
    );
    this.#hosts = new Map(
      nodes.map(({ metadata }) => [metadata.name, { running: '1.20.0', offered: '1.21.0', boots: 0, settings: {} }]),
    );
    const byName = new Map(nodes.map((node) => [node.metadata.name, node]));
    const own = { config: newObject('cluster', 'config', {}, 1), groups: new Map<string, RawObject>() };
    this.#objects = { now: START, nodes: byName, shadows: new Map(shadows), ...own, ...NOTHING_ELSE };
    for (const name of byName.keys()) this.#agent(name, 'acts');
  }

  /** Lets one event happen, and the planner plan. Returns what it says, as JSON. */
  step(event: Event): Told {
    this.#happen(event);
    const { told, writes } = this.#planner.plan(this.#objects);
    for (const write of writes) this.#write(write);
    return told;
  }

  #set(changes: Partial<Objects>): void {
    this.#objects = { ...this.#objects, ...changes };
  }

  #happen(event: Event): void {
    switch (event.kind) {
      case 'lead':
        this.#planner = new Planner();
        return undefined;
      case 'config':
        return this.#configure(event.spec);
      case 'groups':
        return this.#setGroups(event.groups);
      case 'jobs':
        return this.#end(event.result);
      case 'members': {
        const since = timeOf(this.#objects.now);
        return this.#replacePods(
          'member',
          event.ready.map((ready, i) => newPod('member', `node-${i}`, since, ready)),
        );
      }
      default:
        return isOfNodes(event) ? this.#happenToNodes(event) : this.#set(around(event, this.#objects.now));
    }
  }

  #happenToNodes(event: OfNodes): void {
    if (event.kind === 'offer') {
      for (const index of event.nodes) this.#host(`node-${index}`, { offered: event.version });
      return;
    }
    const name = `node-${event.node}`;
    const { now } = this.#objects;
    if (event.kind === 'agent') this.#agent(name, event.act);
    else if (event.kind === 'lose') this.#lose(name, event.what);
    else if (event.kind === 'pods')
      this.#replacePods(
        name,
        event.pods.map((kind) => newPod(kind, name, timeOf(now))),
      );
    else if (event.kind === 'reject') this.#reject(name, event.message);
    else if (event.kind === 'retry') this.#annotateShadow(name, { [RETRY]: event.version });
    else this.#node(name, (node) => changed(node, event, now));
  }

  #configure(spec: RawObject['spec'] | undefined): void {
    const { generation = 0 } = this.#objects.config?.metadata ?? {};
    const { status } = this.#objects.config ?? {};
    const next = spec && { ...newObject('cluster', 'config', spec, generation + 1), ...(status && { status }) };
    this.#set({ config: next });
  }

  #setGroups(groups: readonly GroupEvent[]): void {
    const named = groups.map(({ name, spec }): [string, RawObject] => {
      const before = this.#objects.groups.get(name);
      const whole = { nodeSelector: { matchLabels: { pool: name } }, ...spec };
      const next = newObject(name, `group-${name}`, whole, (before?.metadata.generation ?? 0) + 1);
      return [name, { ...next, ...(before?.status && { status: before.status }) }];
    });
    this.#set({ groups: new Map(named) });
  }

  #agent(name: string, what: Parameters<typeof act>[1]): void {
    const [node, shadow, host] = [
      this.#objects.nodes.get(name),
      this.#objects.shadows.get(name),
      this.#hosts.get(name),
    ];
    if (node === undefined || shadow === undefined || host === undefined) return;
    const next = act({ node, shadow, host }, what, this.#objects.now);
    this.#hosts = new Map(this.#hosts).set(name, next.host);
    this.#node(name, () => next.node);
    this.#shadow(name, () => next.shadow);
  }

  #host(name: string, changes: Partial<Host>): void {
    const host = this.#hosts.get(name);
    if (host !== undefined) this.#hosts = new Map(this.#hosts).set(name, { ...host, ...changes });
  }

  #lose(name: string, what: 'shadow' | 'node'): void {
    const { nodes, shadows } = this.#objects;
    const others = <T>(all: ReadonlyMap<string, T>): Map<string, T> =>
      new Map([...all].filter(([key]) => key !== name));
    if (what === 'shadow') return this.#set({ shadows: others(shadows) });
    // It registers anew at the next loss.
    this.#uids += 1;
    const index = Number(name.slice('node-'.length));
    return this.#set({
      nodes: nodes.has(name) ? others(nodes) : new Map(nodes).set(name, newNode(index, `uid-${name}-${this.#uids}`)),
    });
  }

  /** Those whose names contain `of`. */
  #replacePods(of: string, pods: readonly object[]): void {
    const kept = this.#objects.pods.filter((pod) => !(pod as RawObject).metadata.name.includes(of));
    this.#set({ pods: [...kept, ...pods] });
  }

  #reject(name: string, message: string | null): void {
    const rejections = new Map([...this.#objects.rejections].filter(([key]) => key !== name));
    if (message !== null) rejections.set(name, message);
    this.#set({ rejections });
  }

  #end(state: string): void {
    const [name] = [...this.#objects.jobs].find(([, job]) => job.state === 'Running') ?? [];
    if (name === undefined) return;
    const jobs = [...this.#objects.jobs].map(([key, job]) => [key, key === name ? { ...job, state } : job] as const);
    this.#set({ jobs: new Map(jobs) });
  }

  #node(name: string, change: (node: RawNode) => RawNode): void {
    const node = this.#objects.nodes.get(name);
    if (node !== undefined) this.#set({ nodes: new Map(this.#objects.nodes).set(name, change(node)) });
  }

  #shadow(name: string, change: (shadow: RawShadow) => RawShadow): void {
    const shadow = this.#objects.shadows.get(name);
    if (shadow !== undefined) this.#set({ shadows: new Map(this.#objects.shadows).set(name, change(shadow)) });
  }

  #annotateShadow(name: string, patch: Readonly<Record<string, string | null>>): void {
    this.#shadow(name, (shadow) => ({ ...shadow, metadata: merged(shadow.metadata, patch) }));
  }

  #write(write: Write): void {
    switch (write.kind) {
      case 'spec':
        return this.#shadow(write.name, (shadow) => {
          const { metadata } = shadow;
          const next = {
            ...merged(metadata, write.annotations),
            generation: metadata.generation + 1,
            resourceVersion: `${metadata.resourceVersion}+`,
          };
          return { ...shadow, spec: write.spec, metadata: next };
        });
      case 'condition':
        return this.#shadow(write.name, (shadow) => ({ ...shadow, status: { ...shadow.status, ...write.status } }));
      case 'annotations':
        return this.#annotateShadow(write.name, write.annotations);
      case 'node annotations':
        return this.#node(write.name, (node) => ({ ...node, metadata: merged(node.metadata, write.annotations) }));
      case 'create':
        return this.#create(write.name);
      case 'delete':
        return this.#lose(write.name, 'shadow');
      case 'restore':
        return this.#node(write.name, uncordoned);
      case 'taint':
        return this.#node(write.name, (node) => tainted(node, write.key, write.effect, write.on));
      case 'status':
        return this.#setStatus(write.name, write.status);
      default:
        return this.#set({
          jobs: new Map(this.#objects.jobs).set(write.jobName, {
            state: 'Running',
            jobOf: write.jobOf,
            since: this.#objects.now,
          }),
        });
    }
  }

  #create(name: string): void {
    const node = this.#objects.nodes.get(name);
    if (node === undefined || this.#objects.shadows.has(name)) return;
    this.#uids += 1;
    const shadow = newShadow(node, `uid-${name}-shadow-${this.#uids}`, this.#objects.now);
    this.#set({ shadows: new Map(this.#objects.shadows).set(name, shadow) });
  }

  /** @param name - of a group; empty: the configuration */
  #setStatus(name: string, status: object): void {
    const { config, groups } = this.#objects;
    const next = { status: status as Readonly<Record<string, unknown>> };
    if (name === '') return this.#set({ config: config && { ...config, ...next } });
    const group = groups.get(name);
    return group === undefined ? undefined : this.#set({ groups: new Map(groups).set(name, { ...group, ...next }) });
  }
}

type OfNodes = Extract<Event, { node: number } | { nodes: readonly number[] }>;

function isOfNodes(event: Event): event is OfNodes {
  return 'node' in event || 'nodes' in event;
}

type Around = Extract<Event, { kind: 'time' | 'budget' | 'connectivity' | 'watch' | 'clock' | 'checks' }>;

/** What changes around the nodes. */
function around(event: Around, now: number): Partial<Objects> {
  switch (event.kind) {
    case 'time':
      return { now: now + event.seconds * 1_000 };
    case 'budget':
      return { budget: newBudget(event.allows, event.spec) };
    case 'connectivity':
      return { isLost: event.lost };
    case 'watch':
      return { lagMs: event.lagMs };
    case 'clock':
      return { skewMs: event.skewMs };
    default:
      return { checksPass: event.passed };
  }
}

type OfNode = Extract<Event, { kind: 'ready' | 'condition' | 'cordon' | 'label' | 'annotate' | 'taint' }>;

function changed(node: RawNode, event: OfNode, now: number): RawNode {
  switch (event.kind) {
    case 'ready':
      return withReady(node, event.ready ? 'True' : 'Unknown', now);
    case 'condition':
      return withCondition(node, event.type, event.status, now);
    case 'cordon':
      return { ...node, spec: { ...node.spec, unschedulable: event.on } };
    case 'label':
      return {
        ...node,
        metadata: { ...node.metadata, labels: patched(node.metadata.labels, { [event.label]: event.value }) },
      };
    case 'annotate':
      return { ...node, metadata: merged(node.metadata, { [event.annotation]: event.value }) };
    default:
      return tainted(node, event.key, 'NoSchedule', event.on);
  }
}

function tainted(node: RawNode, key: string, effect: string, on: boolean): RawNode {
  const others = node.spec.taints.filter((taint) => taint.key !== key);
  return { ...node, spec: { ...node.spec, taints: on ? [...others, { key, effect }] : others } };
}

type Patch = Readonly<Record<string, string | null>>;

function patched(values: Readonly<Record<string, string>>, patch: Patch): Record<string, string> {
  const entries = Object.entries({ ...values, ...patch });
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => entry[1] !== null));
}

function merged<M extends RawNode['metadata']>(metadata: M, patch: Patch): M {
  return { ...metadata, annotations: patched(metadata.annotations, patch) };
}
