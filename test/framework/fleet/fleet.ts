/**
 * A fleet: nodes with stand-in hosts, the stand-in kubelet that runs the chart's pods, a proxy for
 * the operator's Service, and an observer of the invariants.
 *
 *     const fleet = await Fleet.start({ cluster, nodes: fleetNodes(6), version: '1.26.0', repository: ['1.26.0', '1.27.0'] });
 *     await fleet.operator.install({});
 *     await fleet.untilAllRun('1.27.0');
 *     expect(fleet.problems()).toEqual([]);
 *     await fleet.stop();
 */
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { APISERVER, RETRY_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { shadowPath } from '../apiserver/shadow.ts';
import type { Connection } from '../control-plane/connection.ts';
import { configure, HEALTHY_AT_ONCE } from '../controller/configuration.ts';
import { eventually } from '../eventually.ts';
import type { Call, HostDurations } from '../host/host.ts';
import { operatorImage } from '../image.ts';
import { StandInKubelet } from '../kubelet/kubelet.ts';
import { NodeLinks } from '../kubelet/node-links.ts';
import type { Address, ServicePort } from '../kubelet/service-environment.ts';
import { ServiceProxy } from '../kubelet/service-proxy.ts';
import { letThrough } from '../kubelet/users.ts';
import { recordingLogger } from '../recording-logger.ts';
import { startWatchdog, type Watchdog } from '../watchdog.ts';
import { AgentCalls } from './agent-calls.ts';
import { FleetNode, type NodeSpec } from './fleet-node.ts';
import { Observer } from './observer.ts';
import { Operator } from './operator.ts';

export interface FleetOptions {
  readonly cluster: Connection;
  readonly nodes: readonly NodeSpec[];
  /** Version that the hosts run at first, and what their update repository publishes. */
  readonly version: string;
  readonly repository: readonly string[];
  /** How long things take on the hosts; default no time. */
  readonly durations?: Partial<HostDurations>;
  /** How many managed nodes may be unavailable at once; default 1. */
  readonly maxUnavailable?: number;
  /** Images of the operator with other tags, each with the folder of its programs. */
  readonly otherImages?: Readonly<Record<string, string>>;
  /** Whether `callWatcher` receives the calls of agents to the API server. */
  readonly watchCalls?: boolean;
}

const ROOT = join(import.meta.dirname, '..', '..', '..');
const NAMESPACE = 'brupop-bottlerocket-aws';
/** For the first pods of the operator on a busy machine, and a report of each agent. */
const STARTED_LIMIT_MS = 60_000;
/**
 * An eviction that was cut off inside the API server blocks its disruption budget for two minutes.
 */
const ROLLOUT_LIMIT_MS = 240_000;

/** `count` nodes named `PREFIX-1`… in three zones. */
export function fleetNodes(count: number, prefix = 'node'): NodeSpec[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `${prefix}-${index + 1}`,
    zone: `zone-${'abc'[index % 3]}`,
  }));
}

/** See the top of this file. */
export class Fleet {
  readonly operator: Operator;
  readonly kubelet: StandInKubelet;
  readonly proxy: ServiceProxy;
  readonly observer: Observer;
  readonly nodes = new Map<string, FleetNode>();
  /** Connections from each node to kube-apiserver. */
  readonly kubernetes: NodeLinks;
  /** Receives the calls of each node's agent to the API server if `watchCalls` is set. */
  callWatcher: ((node: string, call: Call) => Promise<'drop' | 'pass'>) | undefined;
  readonly #calls = new Map<string, Promise<AgentCalls>>();
  /** How many managed nodes may be unavailable at once. */
  maxUnavailable: number;
  readonly #options: FleetOptions;
  #published: readonly string[];
  readonly #client: KubeClient;
  readonly #folder: string;
  readonly #watchdog: Watchdog;

  /** Starts everything but the operator. */
  static async start(options: FleetOptions): Promise<Fleet> {
    const { cluster, otherImages = {} } = options;
    for (const program of ['agent', 'apiserver', 'controller']) requireBundle(program);
    const { log } = recordingLogger();
    const access = cluster.accessAs('stand-in-kubelet');
    const common = { clock: systemClock, log };
    const client = await createKubeClient({ userAgent: 'stand-in-fleet', access, ...common });
    const proxy = await ServiceProxy.start({ client, ...common, namespace: NAMESPACE, service: APISERVER });
    const parts: { fleet?: Fleet } = {};
    const kubelet = await StandInKubelet.start({
      client,
      ...common,
      image: (reference) => operatorImage(otherImages[tagOf(reference)]),
      serviceAddress: async (node, port) => await parts.fleet?.serviceAddress(node, port),
      backOffScale: 0.02,
    });
    const fleet = new Fleet(options, client, proxy, kubelet);
    parts.fleet = fleet;
    await Promise.all(options.nodes.map(async (node) => await fleet.addNode(node)));
    return fleet;
  }

  private constructor(options: FleetOptions, client: KubeClient, proxy: ServiceProxy, kubelet: StandInKubelet) {
    this.#options = options;
    this.#published = options.repository;
    this.#client = client;
    this.#folder = mkdtempSync(join(tmpdir(), 'brupop-fleet-'));
    letThrough(this.#folder);
    this.#watchdog = startWatchdog(this.#folder);
    this.proxy = proxy;
    this.kubelet = kubelet;
    this.maxUnavailable = options.maxUnavailable ?? 1;
    const { hostname: host, port } = new URL(options.cluster.url);
    this.kubernetes = new NodeLinks(() => ({ host, port: Number(port) }));
    this.operator = new Operator(options.cluster, NAMESPACE);
    const maxUnavailable = (): number => this.maxUnavailable;
    this.observer = new Observer({ client, operatorNamespace: NAMESPACE, maxUnavailable });
  }

  async addNode(spec: NodeSpec): Promise<FleetNode> {
    const { cluster, version, durations = {} } = this.#options;
    const { kubelet, observer } = this;
    const repository = this.#published;
    const surroundings = { cluster, kubelet, observer, folder: this.#folder, version, repository, durations };
    const node = await FleetNode.join(spec, surroundings);
    this.nodes.set(spec.name, node);
    return node;
  }

  /** Where pods of a node reach a Service; undefined when the Service is not the operator's. */
  async serviceAddress(node: string, { namespace, service, port }: ServicePort): Promise<Address | undefined> {
    if (service === 'kubernetes') return await this.kubernetes.address(node);
    if (namespace !== NAMESPACE || service !== APISERVER) return undefined;
    const address = await this.proxy.links.address(node, port);
    return this.#options.watchCalls === true ? (await this.#watched(node, address)).address : address;
  }

  async #watched(node: string, address: Address): Promise<AgentCalls> {
    const told = async (call: Call): Promise<'drop' | 'pass'> => (await this.callWatcher?.(node, call)) ?? 'pass';
    const calls = this.#calls.get(node) ?? AgentCalls.start(this.operator, address, told);
    this.#calls.set(node, calls);
    return await calls;
  }

  /** Deletes a node. */
  async removeNode(name: string): Promise<void> {
    await this.node(name).leave();
    this.nodes.delete(name);
  }

  /** Replaces a node by another host and another Node of the same name. */
  async replaceNode(name: string): Promise<void> {
    const { spec } = this.node(name);
    await this.removeNode(name);
    await this.addNode(spec);
  }

  /** Lets a host come back unchanged as a Node of another name. */
  async renameNode(name: string, next: string): Promise<void> {
    const node = this.node(name);
    this.nodes.delete(name);
    await node.rename(next);
    this.nodes.set(next, node);
  }

  node(name: string): FleetNode {
    const node = this.nodes.get(name);
    if (node === undefined) throw new Error(`the fleet has no node ${name}`);
    return node;
  }

  shadow(node: string): BottlerocketShadow | undefined {
    return this.observer.shadows.get(`brs-${node}`, NAMESPACE);
  }

  /** Path of a node's shadow in the Kubernetes API. */
  shadowPath(node: string): string {
    return shadowPath(NAMESPACE, node);
  }

  /** Requests a retry of a version on a node, as a user does. */
  async askForRetry(node: string, version: string): Promise<void> {
    const metadata = { annotations: { [RETRY_ANNOTATION]: version } };
    await this.#options.cluster.api.patch(this.shadowPath(node), { metadata });
  }

  /** Creates or changes the BrupopConfig. Without `monitoring`, updates succeed as soon as their node is healthy. */
  async configure(spec: BrupopConfigSpec): Promise<void> {
    await configure(this.#options.cluster, { ...HEALTHY_AT_ONCE, ...spec });
  }

  /** Publishes versions to all hosts, or to some. */
  publish(repository: readonly string[], nodes: Iterable<string> = this.nodes.keys()): void {
    this.#published = repository;
    for (const name of nodes) this.node(name).host.setRepository(repository);
  }

  /** Publishes the next version to all hosts, or to some, and returns it: 1.27.0, 1.28.0… */
  publishNext(nodes?: Iterable<string>): string {
    const [major, minor] = this.#published.at(-1)?.split('.').map(Number) ?? [];
    const next = `${major}.${(minor ?? 0) + 1}.0`;
    this.publish([...this.#published, next], nodes);
    return next;
  }

  /** Publishes the next version while updates are paused, configures the fleet once each host is offered it, and returns it. */
  async startUpdate(spec: BrupopConfigSpec): Promise<string> {
    await this.configure({ paused: true });
    const version = this.publishNext();
    await this.untilAllAreOffered(version);
    await this.configure(spec);
    return version;
  }

  /** Publishes the latest version to all hosts. */
  publishToAll(): void {
    this.publish(this.#published);
  }

  /**
   * Waits until the agent of every node has reported that its host is offered `version`. A node that has not is no candidate,
   * and no other one waits for it.
   */
  async untilAllAreOffered(version: string): Promise<void> {
    await eventually(
      () => {
        for (const name of this.nodes.keys()) {
          const offered = this.shadow(name)?.status?.target_version;
          if (offered !== version) throw new Error(`${name}: expected an offer of ${version}, found ${offered}`);
        }
      },
      { limitMs: STARTED_LIMIT_MS },
    );
  }

  /** Waits until every node of the fleet runs `version` and its shadow is idle. */
  async untilAllRun(version: string, limitMs = ROLLOUT_LIMIT_MS): Promise<void> {
    await eventually(
      () => {
        for (const name of this.nodes.keys()) this.assertRuns(name, version);
      },
      { limitMs },
    );
  }

  /** Throws unless the node runs `version` and its shadow is idle. */
  assertRuns(name: string, version: string): void {
    const expected = `${version} (host ${version}), Idle/Idle`;
    const found = this.describe(name);
    if (!found.startsWith(expected)) throw new Error(`${name}: expected ${expected}, found ${found}`);
  }

  /** Text with the version, the state and the latest operation of a node. */
  describe(name: string): string {
    const { spec, status } = this.shadow(name) ?? {};
    const state = `${spec?.state}/${status?.current_state}`;
    return `${status?.current_version} (host ${this.node(name).host.version}), ${state} ${JSON.stringify(status?.lastOperation)}`;
  }

  /** Violations so far, and what the operator left behind on nodes. */
  problems(): string[] {
    return [...this.observer.violations, ...this.observer.leftovers(), ...this.kubelet.errors];
  }

  /** Stops everything that was started, also after a failure. */
  async stop(): Promise<void> {
    await this.kubelet.stop();
    await this.observer.stop();
    await Promise.all([...this.#calls.values()].map(async (calls) => await (await calls).stop()));
    await this.proxy.stop();
    await this.kubernetes.stop();
    await Promise.all([...this.nodes.values()].map(async ({ host }) => await host.stop().catch(() => undefined)));
    await this.#client.close();
    await this.#watchdog.release();
  }
}

function requireBundle(program: string): void {
  const path = join(ROOT, 'dist', `${program}.mjs`);
  if (!existsSync(path)) throw new Error(`expected the bundle dist/${program}.mjs, found none; run make build`);
}

function tagOf(reference: string): string {
  return reference.slice(reference.lastIndexOf(':') + 1);
}
