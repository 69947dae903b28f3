import { messageOf } from '@brupop/shared/runtime/errors';
import { AGENT, COMPONENT_LABEL } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { type KubernetesObject, type ObjectMeta, slimMetadata } from '@brupop/shared/api/meta';
import { isAgentPod } from '@brupop/shared/node/operator-pods';
import { corePath } from '@brupop/shared/kube/paths';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { ApiError } from '../errors.ts';

export interface AgentPod extends KubernetesObject {
  readonly nodeName?: string;
  /** Controlled by the DaemonSet of the agents, in the namespace of this apiserver. */
  readonly isAgent: boolean;
}

export const agentPodSelector = `${COMPONENT_LABEL}=${AGENT}`;

export function slimAgentPod(raw: unknown, namespace: string): AgentPod {
  const { metadata, spec } = raw as { metadata: ObjectMeta; spec?: { nodeName?: string } };
  return {
    metadata: slimMetadata(metadata),
    isAgent: isAgentPod(metadata, namespace),
    ...(spec?.nodeName === undefined ? {} : { nodeName: spec.nodeName }),
  };
}

export class AgentPods {
  readonly #reflector: Reflector<AgentPod>;
  readonly #client: KubeClient;
  readonly #namespace: string;

  constructor(options: { reflector: Reflector<AgentPod>; client: KubeClient; namespace: string }) {
    this.#reflector = options.reflector;
    this.#client = options.client;
    this.#namespace = options.namespace;
  }

  /** Returns the agent's pod from the watch cache, or undefined when it has none with this name and UID. */
  known(name: string, uid: string): AgentPod | undefined {
    const pod = this.#reflector.get(name, this.#namespace);
    return pod?.isAgent === true && pod.metadata.uid === uid ? pod : undefined;
  }

  /**
   * Returns the pod from the watch cache or the API server. Throws ApiError `Unauthenticated` when
   * it does not exist (TokenReview accepts its tokens for some seconds more), `Forbidden` when
   * another workload controls it, `Unavailable` without an answer.
   */
  async find(name: string, uid: string): Promise<AgentPod> {
    const pod = this.known(name, uid) ?? (await this.#get(name));
    if (pod?.metadata.uid === uid) return this.#requireAgent(pod);
    const found = pod === undefined ? 'none' : `one with UID ${pod.metadata.uid}`;
    throw new ApiError('Unauthenticated', `pod ${this.#namespace}/${name}: expected UID ${uid}, found ${found}`);
  }

  #requireAgent(pod: AgentPod): AgentPod {
    if (pod.isAgent) return pod;
    const expected = `expected label ${agentPodSelector} and DaemonSet ${AGENT} as controller`;
    throw new ApiError('Forbidden', `pod ${this.#namespace}/${pod.metadata.name}: ${expected}, found another pod`);
  }

  async #get(name: string): Promise<AgentPod | undefined> {
    const path = corePath('pods', { namespace: this.#namespace, name });
    try {
      const found = await this.#client.find<object>(path);
      return found && slimAgentPod(found, this.#namespace);
    } catch (error) {
      throw new ApiError('Unavailable', `cannot read pod ${name}: ${messageOf(error)}`, { cause: error });
    }
  }
}
