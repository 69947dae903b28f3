import { messageOf } from '@brupop/shared/runtime/errors';
import { AGENT, COMPONENT_LABEL } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { type KubernetesObject, type ObjectMeta, slimMetadata } from '@brupop/shared/api/meta';
import { controllerUID, isAgentPod } from '@brupop/shared/node/operator-pods';
import { corePath, groupPath } from '@brupop/shared/kube/paths';
import type { Reflector } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import { ApiError } from '../errors.ts';

export interface AgentPod extends KubernetesObject {
  readonly nodeName?: string;
  /** It has the label of agents, its controller has the name of their DaemonSet, and it is in the namespace of the agents. */
  readonly isAgent: boolean;
  /** UID of its controller. */
  readonly controllerUID: string | undefined;
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
    controllerUID: controllerUID(metadata),
    addresses: addressesOf(status),
    ...(spec?.nodeName === undefined ? {} : { nodeName: spec.nodeName }),
  };
}

/** The addresses of a pod in the host network are those of the host. */
function addressesOf({ phase, podIPs = [] }: NonNullable<RawPod['status']> = {}): readonly string[] {
  if (phase === 'Succeeded' || phase === 'Failed') return [];
  return podIPs.flatMap(({ ip }) => ip ?? []).slice(0, MAX_ADDRESSES);
}

interface AgentPodsOptions {
  readonly reflector: Pick<Reflector<AgentPod>, 'get'>;
  readonly client: Pick<KubeClient, 'find'>;
  readonly namespace: string;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** A DaemonSet that was deleted and created again has another UID. It is read no more often than this. */
const READ_AGAIN_MS = 5_000;

/**
 * The pods of the agents. Anyone who may create pods may copy their labels and name any controller, so a pod is one of
 * theirs only if its controller has the UID of the DaemonSet that exists.
 */
export class AgentPods {
  readonly #options: AgentPodsOptions;
  #daemonSet: { readonly uid: string | undefined; readonly readAt: number } | undefined;

  constructor(options: AgentPodsOptions) {
    this.#options = options;
  }

  /** True when the watch cache has it. Whether the DaemonSet that exists controls it is read with its first token. */
  isWatched(name: string, uid: string): boolean {
    return this.#cached(name, uid) !== undefined;
  }

  /** Returns the agent's pod from the watch cache, or undefined when it has none with this name and UID. */
  known(name: string, uid: string): AgentPod | undefined {
    const pod = this.#cached(name, uid);
    return pod !== undefined && this.#isOfDaemonSet(pod) ? pod : undefined;
  }

  /**
   * Returns the pod from the watch cache or the API server. Throws ApiError `Unauthenticated` when
   * it does not exist (TokenReview accepts its tokens for some seconds more), `Forbidden` when
   * another workload controls it, `Unavailable` without an answer.
   */
  async find(name: string, uid: string): Promise<AgentPod> {
    const cached = this.#cached(name, uid);
    if (cached !== undefined) return this.#requireDaemonSet(cached);
    const { namespace } = this.#options;
    const raw = await this.#read<RawPod>(corePath('pods', { namespace, name }));
    if (raw?.metadata.uid === uid) return this.#requireDaemonSet(this.#requireAgent(raw));
    const found = raw === undefined ? 'none' : `one with UID ${raw.metadata.uid}`;
    throw new ApiError('Unauthenticated', `pod ${namespace}/${name}: expected UID ${uid}, found ${found}`);
  }

  #cached(name: string, uid: string): AgentPod | undefined {
    const { reflector, namespace } = this.#options;
    const pod = reflector.get(name, namespace);
    return pod?.isAgent === true && pod.metadata.uid === uid ? pod : undefined;
  }

  #requireAgent(raw: RawPod): AgentPod {
    const { namespace } = this.#options;
    const pod = slimAgentPod(raw, namespace);
    if (pod.isAgent) return pod;
    const { name, labels, ownerReferences } = raw.metadata;
    const controller = ownerReferences?.find((owner) => owner.controller === true);
    const expected = `expected label ${agentPodSelector} and controller DaemonSet/${AGENT}`;
    const label = labels?.[COMPONENT_LABEL] ?? 'none';
    const found = `found label ${label} and controller ${controller ? `${controller.kind}/${controller.name}` : 'none'}`;
    throw new ApiError('Forbidden', `pod ${namespace}/${name}: ${expected}, ${found}`);
  }

  #isOfDaemonSet({ controllerUID }: AgentPod): boolean {
    return controllerUID !== undefined && controllerUID === this.#daemonSet?.uid;
  }

  async #requireDaemonSet(pod: AgentPod): Promise<AgentPod> {
    const { namespace, clock } = this.#options;
    const isRecent = clock.monotonic() - (this.#daemonSet?.readAt ?? -Infinity) < READ_AGAIN_MS;
    if (!this.#isOfDaemonSet(pod) && !isRecent) await this.#readDaemonSet();
    if (this.#isOfDaemonSet(pod)) return pod;
    const expected = `expected the controller DaemonSet/${AGENT} with UID ${this.#daemonSet?.uid ?? 'unknown: there is none'}`;
    const message = `pod ${namespace}/${pod.metadata.name}: ${expected}, found one with UID ${pod.controllerUID}`;
    throw new ApiError('Forbidden', message);
  }

  async #readDaemonSet(): Promise<void> {
    const { namespace, clock } = this.#options;
    const found = await this.#read<KubernetesObject>(groupPath('apps/v1', 'daemonsets', { namespace, name: AGENT }));
    this.#daemonSet = { uid: found?.metadata.uid, readAt: clock.monotonic() };
  }

  async #read<T>(path: string): Promise<T | undefined> {
    try {
      return await this.#options.client.find<T>(path);
    } catch (error) {
      throw new ApiError('Unavailable', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
    }
  }
}
