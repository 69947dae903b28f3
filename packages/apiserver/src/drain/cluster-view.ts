/**
 * What a drain pass knows of the cluster. It reads the pods on the node and the Node past every
 * cache, and watches them from there if there is anything to evict, until the pass ends. It asks for
 * DaemonSets, replicas, attachments of volumes and pods on other nodes only once they matter.
 */
import type { KubernetesObject } from '@brupop/shared/api/meta';
import {
  daemonSetsInQuestion,
  type DrainFilter,
  type DrainPod,
  isTerminating,
  MAX_CHARS_OF_DRAIN,
  MAX_PODS_OF_NODE,
  podKey,
  referenceIn,
  slimPod,
} from '@brupop/shared/drain/pods';
import { DRAIN_PASS_LIMIT_MS } from '@brupop/shared/api/deadlines';
import { APISERVER, COMPONENT_LABEL } from '@brupop/shared/api/names';
import { canBeName, corePath, groupPath } from '@brupop/shared/kube/paths';
import { charsOf, type List, readList } from '@brupop/shared/kube/list';
import { Reflector, type StoreLimits } from '@brupop/shared/kube/reflector';
import { Changes } from '@brupop/shared/runtime/changes';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import { ApiError } from '../errors.ts';
import { type Node, slimNode } from '../nodes/policy.ts';
import type { PassContext } from './context.ts';
import { type Attachment, type Attachments, Volumes } from './volumes.ts';

/** Most of a pass: up to Kubernetes 1.30 a list of the pods on a node reads those of all nodes. */
const LIST_LIMIT_MS = DRAIN_PASS_LIMIT_MS - 2_000;
const HOSTNAME_LABEL = 'kubernetes.io/hostname';
/** For what a pass needs later. */
const SYNC_LIMIT_MS = 5_000;

/** What is bound to the node meanwhile and does not fit is left out: the last read of a drain fails with it. */
const POD_LIMITS = { maxPerNamespace: MAX_CHARS_OF_DRAIN, maxTotal: MAX_CHARS_OF_DRAIN, weightOf: charsOf };

export class DrainView {
  readonly changes: Changes;
  readonly volumes: Volumes;
  readonly #context: PassContext;
  readonly #pods: Reflector<DrainPod>;
  readonly #nodes: Reflector<Node>;
  readonly #running: Promise<void>[] = [];
  readonly #attachments: Attachments;
  #attached: Reflector<Attachment> | undefined;
  /** By `namespace/name`. */
  readonly #namedPods = new Map<string, Reflector<DrainPod>>();
  /** Whether each DaemonSet exists, by `namespace/name`. */
  readonly #daemonSets = new Map<string, boolean>();
  /** UIDs of the replicas that stay. */
  #replicas: readonly string[] | undefined;

  constructor(context: PassContext, attachments: Attachments) {
    const { client, identity, namespace, clock } = context;
    const { node } = identity;
    this.#context = context;
    this.#attachments = attachments;
    this.changes = new Changes(clock);
    this.volumes = new Volumes(client);
    this.#pods = this.#reflector(
      'pods',
      corePath('pods'),
      `spec.nodeName=${node}`,
      (raw) => slimPod(raw, namespace),
      POD_LIMITS,
    );
    this.#nodes = this.#reflector('node', corePath('nodes'), `metadata.name=${node}`, slimNode);
  }

  /** Reads `pods` and `node`. Throws KubeError, and ApiError `Unavailable` when a pod is unreadable. */
  async load(): Promise<void> {
    const [pods, nodes] = await this.#readAll();
    this.#pods.replace(pods);
    this.#nodes.replace(nodes);
  }

  /** Keeps `pods` and `node` up to date from what `load` has read. */
  watch(): void {
    const { signal } = this.#context;
    this.#running.push(this.#pods.run(signal), this.#nodes.run(signal));
  }

  /** Reads pods and Node again from etcd, not from a watch. Throws as `load` does. */
  async read(): Promise<{ readonly pods: readonly DrainPod[]; readonly node: Node | undefined }> {
    const [pods, nodes] = await this.#readAll();
    return { pods: pods.items, node: nodes.items[0] };
  }

  async #readAll(): Promise<[List<DrainPod>, List<Node>]> {
    const { signal, identity } = this.#context;
    // The Node first: no pod is bound to it after its cordon.
    const nodes = await this.#nodes.readAll(signal);
    const pods = await this.#pods.readAll(signal);
    const { omitted } = pods;
    if (omitted > 0)
      throw new ApiError('Unavailable', `${omitted} pod(s) on node ${identity.node} cannot be read; see the log`);
    return [pods, nodes];
  }

  /** Resolves when all watches have ended, after the signal has aborted. */
  async ended(): Promise<void> {
    await Promise.all(this.#running);
  }

  pods(): readonly DrainPod[] {
    return this.#pods.list();
  }

  node(): Node | undefined {
    return this.#nodes.get(this.#context.identity.node);
  }

  /** What is known of the pods that stay on the node. */
  filter(): DrainFilter {
    const orphaned = [...this.#daemonSets].filter(([, exists]) => !exists).map(([key]) => key);
    const needed = [this.#context.identity.podUID, ...(this.#replicas ?? [])];
    return { orphaned: new Set(orphaned), needed: new Set(needed) };
  }

  /** Looks up which DaemonSets of these pods exist. Throws KubeError on any answer but that they do or not. */
  async learnDaemonSets(pods: readonly DrainPod[]): Promise<void> {
    const { needed } = this.filter();
    const inQuestion = daemonSetsInQuestion(pods.filter(({ metadata }) => needed?.has(metadata.uid) !== true));
    const unknown = [...inQuestion].filter((key) => !this.#daemonSets.has(key));
    const { client, signal } = this.#context;
    const learn = async (key: string): Promise<void> => {
      const { namespace, name } = referenceIn(key);
      const path = groupPath('apps/v1', 'daemonsets', { namespace, name });
      this.#daemonSets.set(key, canBeName(name) && (await client.find(path, signal)) !== undefined);
    };
    await forEachOf(unknown, learn);
  }

  /**
   * Looks up which replicas stay: all on the node, if this one is among them and none runs on another
   * node. Without a replica nothing would uncordon the node, and on a cordoned node none can start.
   * One that runs on another node is enough for the whole pass. Throws KubeError.
   */
  async learnReplicas(pods: readonly DrainPod[]): Promise<void> {
    if (this.#replicas?.length !== 0) this.#replicas = await this.#stayingReplicas(pods);
  }

  async #stayingReplicas(pods: readonly DrainPod[]): Promise<readonly string[]> {
    const { client, identity, namespace, podName, log, signal } = this.#context;
    const { node } = identity;
    const self = `${namespace}/${podName}`;
    if (!pods.some((pod) => podKey(pod) === self)) return [];
    const query = { labelSelector: `${COMPONENT_LABEL}=${APISERVER}` };
    const path = corePath('pods', { namespace });
    const { items } = await readList(client, { path, query, signal, slim: (raw) => slimPod(raw, namespace) });
    const replicas = items.filter(({ own }) => own);
    if (replicas.some((pod) => runsOnAnotherNode(pod, node))) return [];
    log.info('the replicas stay: none is on another node');
    return replicas.filter((pod) => pod.node === node).map(({ metadata }) => metadata.uid);
  }

  /** True if one of these volumes is on this node only, so no other node can run its pod. Throws KubeError. */
  async areLocal(volumes: readonly string[]): Promise<boolean> {
    const { signal, identity } = this.#context;
    await this.volumes.learn(volumes, signal);
    const hostname = this.node()?.metadata.labels?.[HOSTNAME_LABEL];
    const names = [identity.node, ...(hostname === undefined ? [] : [hostname])];
    return volumes.some((volume) => this.volumes.isOnlyOn(volume, names));
  }

  /**
   * Looks up these volumes of a pod (`namespace/name`) for `held`, and those of the pods of its namespace on the node.
   * Throws KubeError, and ApiError `Unavailable` at the limit.
   */
  async needVolumes(pod: string, volumes: readonly string[]): Promise<void> {
    const { signal } = this.#context;
    if (volumes.length === 0) return;
    await this.volumes.learn(volumes, signal);
    await this.volumes.learnClaims(this.#neighbours(pod), signal);
    const attached = this.#attachments.watch();
    if (attached !== this.#attached) this.#follow(attached);
    await this.#synced('the VolumeAttachments', attached);
  }

  /** Which volumes of a pod (`namespace/name`) are attached to the node now although no pod on it uses them. */
  held(pod: string): (volume: string) => boolean {
    const used = new Set(this.#neighbours(pod).flatMap((neighbour) => this.volumes.known(neighbour)));
    return (volume) => this.#isAttached(volume) && !used.has(volume);
  }

  /** A volume is bound to one claim, so only pods of one namespace can share it, whatever the claims of others name. */
  #neighbours(pod: string): readonly DrainPod[] {
    const { namespace } = referenceIn(pod);
    return this.pods().filter(({ metadata }) => metadata.namespace === namespace);
  }

  /** True while a VolumeAttachment binds the volume to the node, or the Node's status names it. */
  #isAttached(volume: string): boolean {
    const { node } = this.#context.identity;
    const bound = this.#attached?.list().some((one) => one.node === node && one.volume === volume) ?? false;
    const nameOnNode = this.volumes.nameOnNode(volume);
    return bound || (nameOnNode !== undefined && (this.node()?.volumesAttached.includes(nameOnNode) ?? false));
  }

  #follow(attached: Reflector<Attachment>): void {
    const { identity, signal } = this.#context;
    this.#attached = attached;
    const end = attached.subscribe(({ object }) => {
      if (object.node === identity.node) this.changes.notify();
    });
    signal.addEventListener('abort', end, { once: true });
  }

  /** Watches the pod of that name for `pod`. Throws ApiError `Unavailable` at the limit. */
  async needPod(key: string): Promise<void> {
    const [namespace = '', name = ''] = key.split('/');
    const known = this.#namedPods.get(key);
    const path = corePath('pods', { namespace });
    const reflector = known ?? this.#reflector('replacement pod', path, `metadata.name=${name}`, slimPod);
    if (known === undefined) this.#running.push(reflector.run(this.#context.signal));
    this.#namedPods.set(key, reflector);
    await this.#synced(`the pod ${key}`, reflector);
  }

  /** The pod of that name (`namespace/name`), on any node. */
  pod(key: string): DrainPod | undefined {
    const pods = this.#namedPods.get(key)?.list() ?? [];
    return pods.find((pod) => podKey(pod) === key);
  }

  #reflector<T extends KubernetesObject>(
    name: string,
    path: string,
    fieldSelector: string,
    slim: (raw: unknown) => T,
    limits?: StoreLimits<T>,
  ): Reflector<T> {
    const { client, clock, log } = this.#context;
    const bounds = { listLimitMs: LIST_LIMIT_MS, maxItems: MAX_PODS_OF_NODE, maxChars: MAX_CHARS_OF_DRAIN, limits };
    const reflector = new Reflector({ client, path, query: { fieldSelector }, slim, clock, log, name, ...bounds });
    reflector.subscribe(() => this.changes.notify());
    return reflector;
  }

  async #synced(what: string, reflector: Pick<Reflector<KubernetesObject>, 'waitSynced'>): Promise<void> {
    const limit = new AbortController();
    const message = `the Kubernetes API has not listed ${what} within ${SYNC_LIMIT_MS} ms`;
    const late = (): void => limit.abort(new ApiError('Unavailable', message));
    const cancel = this.#context.clock.after(SYNC_LIMIT_MS, late);
    await reflector.waitSynced(AbortSignal.any([this.#context.signal, limit.signal])).finally(cancel);
  }
}

function runsOnAnotherNode(pod: DrainPod, node: string): boolean {
  return pod.node !== '' && pod.node !== node && !pod.mirror && !pod.finished && !isTerminating(pod);
}
