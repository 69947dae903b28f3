/**
 * What a drain pass sees of the cluster, by watches that last as long as the pass: the pods on the
 * node and the Node; attachments of volumes and pods on other nodes only once they matter.
 */
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { daemonSetsInQuestion, type DrainPod, podKey, slimPod } from '@brupop/shared/drain/pods';
import { APISERVER, COMPONENT_LABEL } from '@brupop/shared/api/names';
import type { KubeClient, KubeRequest } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { corePath, groupPath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { ApiError } from '../errors.ts';
import { type Node, slimNode } from '../nodes/policy.ts';
import { type Attachment, type Attachments, Volumes } from './volumes.ts';

/** Wakes a pass when what it sees has changed. */
export class Changes {
  readonly #clock: Clock;
  #changed = false;
  #interrupt: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  notify(): void {
    this.#changed = true;
    this.#interrupt?.();
  }

  /** Forgets the changes so far. */
  reset(): void {
    this.#changed = false;
  }

  /** Resolves after a change since `reset`, after `limitMs`, or when the signal aborts. */
  async wait(limitMs: number, signal: AbortSignal): Promise<void> {
    if (this.#changed || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#clock.after(limitMs, resolve);
    this.#interrupt = resolve;
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    cancel();
    this.#interrupt = undefined;
  }
}

export interface DrainViewOptions {
  readonly client: KubeClient;
  readonly node: string;
  readonly attachments: Attachments;
  readonly clock: Clock;
  readonly log: Logger;
  /** Ends all watches. */
  readonly signal: AbortSignal;
}

/** The limit of a first list within a pass. */
const SYNC_LIMIT_MS = 5_000;

export class DrainView {
  readonly changes: Changes;
  readonly volumes: Volumes;
  readonly #options: DrainViewOptions;
  readonly #pods: Reflector<DrainPod>;
  readonly #nodes: Reflector<Node>;
  readonly #running: Promise<void>[] = [];
  #attachments: Reflector<Attachment> | undefined;
  /** By `namespace/name`. */
  readonly #namedPods = new Map<string, Reflector<DrainPod>>();
  /** Whether each DaemonSet exists, by `namespace/name`. */
  readonly #daemonSets = new Map<string, boolean>();

  constructor(options: DrainViewOptions) {
    const { client, node, clock } = options;
    this.#options = options;
    this.changes = new Changes(clock);
    this.volumes = new Volumes(client);
    this.#pods = this.#watch('pods', corePath('pods'), `spec.nodeName=${node}`, slimPod);
    this.#nodes = this.#watch('node', corePath('nodes'), `metadata.name=${node}`, slimNode);
  }

  /** Resolves when pods and Node are listed. Throws ApiError `Unavailable` at the limit, and the reason of the signal. */
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

  /** Lists the pods on the node past the cache. Throws KubeError. */
  async listPods(signal: AbortSignal): Promise<readonly DrainPod[]> {
    const query = { fieldSelector: `spec.nodeName=${this.#options.node}` };
    return this.#list({ path: corePath('pods'), query, signal });
  }

  /** Lists the pods of the API server in the operator's namespace. Throws KubeError. */
  async listReplicas(namespace: string, signal: AbortSignal): Promise<readonly DrainPod[]> {
    const query = { labelSelector: `${COMPONENT_LABEL}=${APISERVER}` };
    return this.#list({ path: corePath('pods', { namespace }), query, signal });
  }

  /** Looks up the DaemonSets of these pods. Throws KubeError on any answer but that they exist or not. */
  async learnDaemonSets(pods: readonly DrainPod[], signal: AbortSignal): Promise<void> {
    const unknown = [...daemonSetsInQuestion(pods)].filter((key) => !this.#daemonSets.has(key));
    await Promise.all(unknown.map(async (key) => this.#daemonSets.set(key, await this.#daemonSetExists(key, signal))));
  }

  /** The DaemonSets (`namespace/name`) that were looked up and do not exist. */
  missingDaemonSets(): ReadonlySet<string> {
    return new Set([...this.#daemonSets].filter(([, exists]) => !exists).map(([key]) => key));
  }

  async #list(request: Pick<KubeRequest, 'path' | 'query' | 'signal'>): Promise<readonly DrainPod[]> {
    const { items } = await this.#options.client.request<{ items: unknown[] }>({ ...request, method: 'GET' });
    return items.map((raw) => slimPod(raw));
  }

  async #daemonSetExists(key: string, signal: AbortSignal): Promise<boolean> {
    const [namespace = '', name = ''] = key.split('/');
    const path = groupPath('apps/v1', 'daemonsets', { namespace, name });
    try {
      await this.#options.client.request({ method: 'GET', path, signal });
      return true;
    } catch (error) {
      if (hasStatus(error, 404)) return false;
      throw error;
    }
  }

  /** Makes `isHeld` know these volumes, and those of the pods on the node. Throws as `synced`, and KubeError. */
  async needVolumes(volumes: readonly string[], signal: AbortSignal): Promise<void> {
    if (volumes.length === 0) return;
    await Promise.all([this.volumes.learn(volumes, signal), ...this.pods().map((pod) => this.volumes.of(pod, signal))]);
    const attachments = this.#options.attachments.watch();
    if (attachments !== this.#attachments) this.#follow(attachments);
    await this.#inTime(attachments, signal);
  }

  /** True while a volume is attached to the node and no pod on it uses it. */
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
    const { node, signal } = this.#options;
    this.#attachments = attachments;
    const end = attachments.subscribe(({ object }) => {
      if (object.node === node) this.changes.notify();
    });
    signal.addEventListener('abort', end, { once: true });
  }

  /** Makes `pod` know this one. Throws as `synced`. */
  async needPod(key: string, signal: AbortSignal): Promise<void> {
    const [namespace = '', name = ''] = key.split('/');
    const known = this.#namedPods.get(key);
    const path = corePath('pods', { namespace });
    const reflector = known ?? this.#watch('replacement pod', path, `metadata.name=${name}`, slimPod);
    this.#namedPods.set(key, reflector);
    await this.#inTime(reflector, signal);
  }

  /** The pod of that name (`namespace/name`), on any node. */
  pod(key: string): DrainPod | undefined {
    const pods = this.#namedPods.get(key)?.list() ?? [];
    return pods.find((pod) => podKey(pod) === key);
  }

  #watch<T extends KubernetesObject>(
    name: string,
    path: string,
    fieldSelector: string,
    slim: (raw: unknown) => T,
  ): Reflector<T> {
    const { client, clock, log, node, signal } = this.#options;
    const query = { fieldSelector };
    const reflector = new Reflector({ client, path, query, slim, clock, log: log.with({ node }), name });
    reflector.subscribe(() => this.changes.notify());
    this.#running.push(reflector.run(signal));
    return reflector;
  }

  async #inTime(reflector: Pick<Reflector<KubernetesObject>, 'waitSynced'>, signal: AbortSignal): Promise<void> {
    const limit = new AbortController();
    const message = `the Kubernetes API has not listed what a drain needs within ${SYNC_LIMIT_MS} ms`;
    const late = (): void => limit.abort(new ApiError('Unavailable', message));
    const cancel = this.#options.clock.after(SYNC_LIMIT_MS, late);
    await reflector.waitSynced(AbortSignal.any([signal, limit.signal])).finally(cancel);
  }
}
