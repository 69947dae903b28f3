import { type DrainPod, podKey, slimPod } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { ApiError } from '../errors.ts';
import { type Node, slimNode } from '../nodes/policy.ts';
import type { Attachment, Attachments } from './attachments.ts';
import { Volumes } from './volumes.ts';

export interface DrainViewOptions {
  readonly client: KubeClient;
  readonly node: string;
  readonly attachments: Attachments;
  readonly clock: Clock;
  readonly log: Logger;
  /** Something has changed. */
  readonly changed: () => void;
  /** Ends all watches. */
  readonly signal: AbortSignal;
}

/** A first list gets at most this share of a pass. */
const SYNC_LIMIT_MS = 5_000;

/** What one pass sees of the cluster: the pods on the node, the Node, and, when volumes matter, what is attached to it. */
export class DrainView {
  readonly volumes: Volumes;
  readonly #options: DrainViewOptions;
  readonly #pods: Reflector<DrainPod>;
  readonly #nodes: Reflector<Node>;
  readonly #running: Promise<void>[] = [];
  #attachments: Reflector<Attachment> | undefined;
  readonly #successors = new Map<string, Reflector<DrainPod>>();

  constructor(options: DrainViewOptions) {
    const { client, node } = options;
    this.#options = options;
    this.volumes = new Volumes(client);
    const fieldSelector = `spec.nodeName=${node}`;
    this.#pods = this.#watch({ path: corePath('pods'), fieldSelector, slim: slimPod, name: 'pods' });
    const ofNode = `metadata.name=${node}`;
    this.#nodes = this.#watch({ path: corePath('nodes'), fieldSelector: ofNode, slim: slimNode, name: 'node' });
  }

  /** Resolves when pods and Node are there. Throws Failure `Unavailable` when they are not in time, and the reason of `signal`. */
  async synced(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#pods, this.#nodes].map((reflector) => this.#inTime(reflector, signal)));
  }

  /** Resolves when all watches have ended, after the signal has aborted. */
  async ended(): Promise<void> {
    await Promise.all(this.#running);
  }

  pods(): readonly DrainPod[] {
    return this.#pods.list();
  }

  node(): Node | undefined {
    return this.#nodes.get(this.#options.node);
  }

  /** Makes `isHeld` know these volumes, and those of the pods on the node. Throws as `synced` does, and KubeError. */
  async needVolumes(volumes: readonly string[], signal: AbortSignal): Promise<void> {
    if (volumes.length === 0) return;
    await Promise.all([this.volumes.learn(volumes, signal), ...this.pods().map((pod) => this.volumes.of(pod, signal))]);
    const attachments = this.#options.attachments.need();
    if (attachments !== this.#attachments) this.#follow(attachments);
    await this.#inTime(attachments, signal);
  }

  /** True while a volume is attached to the node and no pod on it has it in use. */
  isHeld(volume: string): boolean {
    return this.#isAttached(volume) && !this.pods().some((pod) => this.volumes.known(pod).includes(volume));
  }

  /** True while a VolumeAttachment binds the volume to the node, or the Node's status names it. */
  #isAttached(volume: string): boolean {
    const { node } = this.#options;
    const bound = this.#attachments?.list().some((one) => one.node === node && one.volume === volume) ?? false;
    const nameOnNode = this.volumes.nameOnNode(volume);
    return bound || (nameOnNode !== undefined && (this.node()?.volumesAttached.includes(nameOnNode) ?? false));
  }

  #follow(attachments: Reflector<Attachment>): void {
    const { node, changed, signal } = this.#options;
    this.#attachments = attachments;
    const end = attachments.subscribe(({ object }) => {
      if (object.node === node) changed();
    });
    signal.addEventListener('abort', end, { once: true });
  }

  /** Makes `successor` know this pod. Throws as `synced` does. */
  async needSuccessor(key: string, signal: AbortSignal): Promise<void> {
    const [namespace = '', name = ''] = key.split('/');
    const known = this.#successors.get(key);
    const fieldSelector = `metadata.name=${name}`;
    const path = corePath('pods', { namespace });
    const reflector =
      known ?? this.#watch({ path, fieldSelector, slim: slimPod, name: 'the pod that takes the place' });
    this.#successors.set(key, reflector);
    await this.#inTime(reflector, signal);
  }

  /** The pod of that name (`namespace/name`), wherever it is. */
  successor(key: string): DrainPod | undefined {
    return this.#successors
      .get(key)
      ?.list()
      .find((pod) => podKey(pod) === key);
  }

  #watch<T extends KubernetesObject>(what: {
    readonly path: string;
    readonly fieldSelector?: string;
    readonly slim: (raw: unknown) => T;
    readonly name: string;
  }): Reflector<T> {
    const { client, clock, log, node, signal, changed } = this.#options;
    const { path, fieldSelector, slim, name } = what;
    const query = fieldSelector === undefined ? {} : { fieldSelector };
    const reflector = new Reflector({ client, path, query, slim, clock, log: log.with({ node }), name });
    reflector.subscribe(changed);
    this.#running.push(reflector.run(signal));
    return reflector;
  }

  async #inTime(reflector: Pick<Reflector<KubernetesObject>, 'waitSynced'>, signal: AbortSignal): Promise<void> {
    const limit = new AbortController();
    const late = new ApiError(
      'Unavailable',
      `the Kubernetes API has not listed what a drain needs within ${SYNC_LIMIT_MS} ms`,
    );
    const cancel = this.#options.clock.after(SYNC_LIMIT_MS, () => limit.abort(late));
    await reflector.waitSynced(AbortSignal.any([signal, limit.signal])).finally(cancel);
  }
}
