import { messageOf } from '@brupop/shared/runtime/errors';
import { AGENT, COMPONENT_LABEL } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { type KubernetesObject, type ObjectMeta, slimMetadata } from '@brupop/shared/api/meta';
import { corePath } from '@brupop/shared/kube/paths';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { ApiError } from '../errors.ts';

export interface AgentPod extends KubernetesObject {
  readonly nodeName?: string;
}

export const agentPodSelector = `${COMPONENT_LABEL}=${AGENT}`;

export function slimAgentPod(raw: unknown): AgentPod {
  const { metadata, spec } = raw as { metadata: ObjectMeta; spec?: { nodeName?: string } };
  return {
    metadata: slimMetadata(metadata),
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

  /** Returns the pod from the watch cache, or undefined when it has none with this name and UID. */
  known(name: string, uid: string): AgentPod | undefined {
    const pod = this.#reflector.get(name, this.#namespace);
    return pod?.metadata.uid === uid ? pod : undefined;
  }

  /**
   * Returns the pod from the watch cache or the API server. Throws ApiError `Unauthenticated` when
   * it does not exist (TokenReview accepts its tokens for some seconds more), `Unavailable` without
   * an answer.
   */
  async find(name: string, uid: string): Promise<AgentPod> {
    const pod = this.known(name, uid) ?? (await this.#get(name));
    if (pod?.metadata.uid === uid) return pod;
    const found = pod === undefined ? 'none' : `one with UID ${pod.metadata.uid}`;
    throw new ApiError('Unauthenticated', `pod ${this.#namespace}/${name}: expected UID ${uid}, found ${found}`);
  }

  async #get(name: string): Promise<AgentPod | undefined> {
    const path = corePath('pods', { namespace: this.#namespace, name });
    try {
      const found = await this.#client.find<object>(path);
      return found && slimAgentPod(found);
    } catch (error) {
      throw new ApiError('Unavailable', `cannot read pod ${name}: ${messageOf(error)}`, { cause: error });
    }
  }
}
