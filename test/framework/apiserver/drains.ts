import { setTimeout as sleep } from 'node:timers/promises';
import type { DrainResult, SpecReference } from '../../../packages/shared/src/api/agent-protocol.ts';
import type { BottlerocketShadow, DrainStatus } from '../../../packages/shared/src/api/shadow.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import type { Connection } from '../control-plane/connection.ts';
import { createNamespace } from '../control-plane/namespaces.ts';
import { type Agent, createAgent } from './cluster.ts';
import { createPod, type PodOptions } from './pods.ts';
import type { RunningApiserver } from './server.ts';
import { shadowPath, wantReboot } from './shadow.ts';
import type { Suite } from './suite.ts';

/** A replica whose clock has moved forward counts as frozen for two seconds. */
const THAW_MS = 5_000;

/** A clock whose wall time a test moves forward. Timers are real. */
export function shiftedClock(): { readonly clock: Clock; shiftMs: number } {
  const shifted = { shiftMs: 0, clock: { ...systemClock, now: () => systemClock.now() + shifted.shiftMs } };
  return shifted;
}

/** A node that is to be drained, with a namespace for its pods. */
export class NodeToDrain {
  readonly agent: Agent;
  readonly namespace: string;
  readonly #suite: Suite;
  readonly #reference: SpecReference;

  static async create(suite: Suite): Promise<NodeToDrain> {
    const agent = await createAgent(suite.cluster, suite.namespace);
    const reference = await wantReboot(suite.cluster, suite.namespace, suite.apiserver.client, agent);
    return new NodeToDrain(suite, agent, reference, await createNamespace(suite.cluster, 'apps'));
  }

  private constructor(suite: Suite, agent: Agent, reference: SpecReference, namespace: string) {
    this.#suite = suite;
    this.agent = agent;
    this.namespace = namespace;
    this.#reference = reference;
  }

  get #cluster(): Connection {
    return this.#suite.cluster;
  }

  /** One pass. Throws when it is rejected. */
  async drain(apiserver: RunningApiserver = this.#suite.apiserver): Promise<DrainResult> {
    const deadline = performance.now() + THAW_MS;
    for (;;) {
      const { status, body } = await apiserver.client.act<DrainResult>(this.agent, 'drain', this.#reference);
      if (status === 200) return body;
      const answer = `drain: ${status} ${JSON.stringify(body)}`;
      const isThawing = status === 503 && answer.includes('it was frozen for');
      if (!isThawing || performance.now() > deadline) throw new Error(answer);
      await sleep(200);
    }
  }

  /** Passes until the node is empty, at most 30. */
  async drainWhole(apiserver?: RunningApiserver): Promise<void> {
    for (let pass = 0; pass < 30; pass += 1) if ((await this.drain(apiserver)).done) return;
    throw new Error(`the drain does not end: ${JSON.stringify(await this.status())}`);
  }

  /** `status.drain` of the shadow. */
  async status(): Promise<DrainStatus | undefined> {
    const path = shadowPath(this.#suite.namespace, this.agent.node);
    return (await this.#cluster.api.get<BottlerocketShadow>(path)).status?.drain;
  }

  async pod(options: Partial<PodOptions> = {}): Promise<string> {
    return await createPod(this.#cluster, { namespace: this.namespace, node: this.agent.node, ...options });
  }

  async isCordoned(): Promise<boolean> {
    const path = `/api/v1/nodes/${this.agent.node}`;
    return (await this.#cluster.api.get<{ spec: { unschedulable?: boolean } }>(path)).spec.unschedulable ?? false;
  }

  async uncordon(): Promise<void> {
    await this.#cluster.api.patch(`/api/v1/nodes/${this.agent.node}`, { spec: { unschedulable: null } });
  }

  /** Names of pods in the order in which their eviction, or deletion, was accepted. */
  accepted({ lines }: RunningApiserver = this.#suite.apiserver): string[] {
    return lines
      .filter((line) => line.includes('requested a') && line.includes(`"${this.namespace}/`))
      .map((line) => JSON.parse(line) as { pod: string; result: string })
      .filter(({ result }) => result === 'accepted')
      .map(({ pod }) => pod.slice(pod.indexOf('/') + 1));
  }

  /** Messages of the Events about the shadow that have this reason. */
  async events(reason: string): Promise<string[]> {
    const { namespace } = this.#suite;
    const selector = encodeURIComponent(`involvedObject.name=brs-${this.agent.node},reason=${reason}`);
    const path = `/api/v1/namespaces/${namespace}/events?fieldSelector=${selector}`;
    const { items } = await this.#cluster.api.get<{ items: { message: string }[] }>(path);
    return items.map(({ message }) => message);
  }
}
