import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { MANAGED_LABEL, MANAGED_LABEL_VALUE } from '../../../packages/shared/src/api/names.ts';
import { ApiError } from '../control-plane/api.ts';
import type { Connection } from '../control-plane/connection.ts';
import {
  createNode,
  osImageOf,
  setNodeBooted,
  setNodeBootedNotReady,
  setNodeRebooting,
} from '../control-plane/nodes.ts';
import { eventually } from '../eventually.ts';
import { BottlerocketHost, type HostDurations, type RebootEvent } from '../host/host.ts';
import type { StandInKubelet } from '../kubelet/kubelet.ts';
import type { Observer } from './observer.ts';

export interface NodeSpec {
  readonly name: string;
  readonly zone: string;
}

/** What a node of the fleet is connected to. */
export interface NodeSurroundings {
  readonly cluster: Connection;
  readonly kubelet: StandInKubelet;
  readonly observer: Observer;
  readonly folder: string;
  readonly version: string;
  readonly repository: readonly string[];
  readonly durations: Partial<HostDurations>;
}

/** A Node of the cluster with its stand-in host and what the stand-in kubelet runs on it. */
export class FleetNode {
  readonly host: BottlerocketHost;
  /** Whether the Node shows that the host is down. */
  isDown = false;
  /** The version with which the kubelet runs pods, but its Node never becomes Ready. */
  neverReadyOn: string | undefined;
  #spec: NodeSpec;
  readonly #surroundings: NodeSurroundings;
  /** What the agent sees as the host's `/run`. */
  readonly #run: string;

  /** Creates Node and host, and has the kubelet act for it. */
  static async join(spec: NodeSpec, surroundings: NodeSurroundings): Promise<FleetNode> {
    const { folder, version, repository, durations } = surroundings;
    const run = join(folder, spec.name, 'run');
    await mkdir(run, { recursive: true });
    // The host starts before its Node exists, and reboots only later.
    let node: FleetNode | undefined;
    const onReboot = async (event: RebootEvent): Promise<void> => await node?.reboots(event);
    const host = await BottlerocketHost.start({
      socketPath: join(run, 'api.sock'),
      version,
      repository,
      durations,
      onReboot,
    });
    node = new FleetNode(spec, host, surroundings, run);
    await node.#register();
    return node;
  }

  private constructor(spec: NodeSpec, host: BottlerocketHost, surroundings: NodeSurroundings, run: string) {
    this.#spec = spec;
    this.host = host;
    this.#surroundings = surroundings;
    this.#run = run;
  }

  get name(): string {
    return this.#spec.name;
  }

  get spec(): NodeSpec {
    return this.#spec;
  }

  /** Deletes the Node and ends what runs on it. */
  async leave(): Promise<void> {
    // First, because a reboot in progress acts on the others.
    await this.host.stop();
    await this.#unregister();
  }

  /** Lets the host come back unchanged as a Node of another name. */
  async rename(name: string): Promise<void> {
    await this.#unregister();
    this.#spec = { ...this.#spec, name };
    await this.#register();
  }

  /** Replaces the Node by another one, while the host, the kubelet and its pods go on. */
  async registerAnew(): Promise<void> {
    const { cluster } = this.#surroundings;
    await cluster.api.delete(`/api/v1/nodes/${this.name}`);
    await this.#createNode();
  }

  /** Sets or removes the managed label. */
  async setManaged(managed: boolean): Promise<void> {
    const labels = { [MANAGED_LABEL]: managed ? MANAGED_LABEL_VALUE : null };
    await this.#surroundings.cluster.api.patch(`/api/v1/nodes/${this.name}`, { metadata: { labels } });
  }

  async #createNode(): Promise<void> {
    const { cluster } = this.#surroundings;
    const { name, zone } = this.#spec;
    const { bootID, version } = this.host;
    const labels = { [MANAGED_LABEL]: MANAGED_LABEL_VALUE };
    const node = { name, zone, version, labels, bootID };
    await patiently(async () => await createNode(cluster, node).catch(ignoreExisting));
  }

  async #register(): Promise<void> {
    const { kubelet } = this.#surroundings;
    const { name } = this.#spec;
    await this.#createNode();
    const hostPaths = new Map(['/run', '/proc/sys/kernel/random'].map((path) => [path, this.#run]));
    kubelet.addNode({ name, hostPaths });
  }

  async #unregister(): Promise<void> {
    const { cluster, kubelet } = this.#surroundings;
    await kubelet.removeNode(this.name);
    await patiently(async () => await cluster.api.delete(`/api/v1/nodes/${this.name}`));
  }

  private async reboots({ phase, cause, bootID, version }: RebootEvent): Promise<void> {
    const { cluster, kubelet, observer } = this.#surroundings;
    if (phase === 'down') {
      // A power cut is not a violation by the operator.
      if (cause === 'reboot')
        await observer.hostGoesDown(this.name, { bootID, next: this.host.model.partitions.nextVersion });
      await kubelet.nodeDown(this.name, { markNotReady: true });
      await patiently(async () => await setNodeRebooting(cluster, this.name));
      this.isDown = true;
    } else {
      this.isDown = false;
      const show = version === this.neverReadyOn ? setNodeBootedNotReady : setNodeBooted;
      await patiently(async () => await show(cluster, this.name, bootID, osImageOf(version)));
      await kubelet.nodeUp(this.name);
    }
  }
}

/** Repeats a call until it succeeds: Kubernetes may be one of the victims of a test. */
async function patiently(call: () => Promise<unknown>): Promise<void> {
  await eventually(call, { limitMs: 60_000, pauseMs: 200 });
}

/**
 * For a creation that is repeated: what exists already was made by a call whose answer was lost.
 */
function ignoreExisting(error: unknown): void {
  if (!(error instanceof ApiError && error.status === 409)) throw error;
}
