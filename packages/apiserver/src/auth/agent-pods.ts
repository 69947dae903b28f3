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
  /** At most one of each family; none of a terminated pod, whose address may be in use by another one. */
  readonly addresses: readonly string[];
}

interface RawPod {
  readonly metadata: ObjectMeta;
  readonly spec?: { readonly nodeName?: string };
  readonly status?: { readonly phase?: string; readonly podIPs?: readonly { readonly ip?: string }[] };
}

const MAX_ADDRESSES = 2;

export const agentPodSelector = `${COMPONENT_LABEL}=${AGENT}`;

export function slimAgentPod(raw: unknown, namespace: string): AgentPod {
  const { metadata, spec, status } = raw as RawPod;
  return {
    metadata: slimMetadata(metadata),
    isAgent: isAgentPod(metadata, namespace),
    addresses: addressesOf(status),
    ...(spec?.nodeName === undefined ? {} : { nodeName: spec.nodeName }),
  };
}

/** The addresses of a pod in the host network are those of the host. */
function addressesOf({ phase, podIPs = [] }: NonNullable<RawPod['status']> = {}): readonly string[] {
  if (phase === 'Succeeded' || phase === 'Failed') return [];
  return podIPs.flatMap(({ ip }) => ip ?? []).slice(0, MAX_ADDRESSES);
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
    const known = this.known(name, uid);
    if (known !== undefined) return known;
    const raw = await this.#get(name);
    if (raw?.metadata.uid === uid) return this.#requireAgent(raw);
    const found = raw === undefined ? 'none' : `one with UID ${raw.metadata.uid}`;
    throw new ApiError('Unauthenticated', `pod ${this.#namespace}/${name}: expected UID ${uid}, found ${found}`);
  }

  #requireAgent(raw: RawPod): AgentPod {
    const pod = slimAgentPod(raw, this.#namespace);
    if (pod.isAgent) return pod;
    const { name, labels, ownerReferences } = raw.metadata;
    const controller = ownerReferences?.find((owner) => owner.controller === true);
    const expected = `expected label ${agentPodSelector} and controller DaemonSet/${AGENT}`;
    const label = labels?.[COMPONENT_LABEL] ?? 'none';
    const found = `found label ${label} and controller ${controller ? `${controller.kind}/${controller.name}` : 'none'}`;
    throw new ApiError('Forbidden', `pod ${this.#namespace}/${name}: ${expected}, ${found}`);
  }

  async #get(name: string): Promise<RawPod | undefined> {
    const path = corePath('pods', { namespace: this.#namespace, name });
    try {
      return await this.#client.find<RawPod>(path);
    } catch (error) {
      throw new ApiError('Unavailable', `cannot read pod ${name}: ${messageOf(error)}`, { cause: error });
    }
  }
}
