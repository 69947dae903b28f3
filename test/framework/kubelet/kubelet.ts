/**
 * The stand-in kubelet: runs the pods of the operator's workloads, on all nodes of a fleet, as
 * local processes with exactly the arguments, environment, mounts, probes and tokens of their pod
 * specs. It rejects fields that it does not support (`supported-fields.ts`).
 *
 *     const kubelet = await StandInKubelet.start({
 *       client, clock: systemClock, log,
 *       image: () => imageFromDockerfile(dockerfile, { paths: new Map([['/app', dist]]), programs: { node: process.execPath } }),
 *       serviceAddress: async (node, port) => …,      // see service-proxy.ts
 *       nodes: [{ name: 'node-1', hostPaths: new Map([['/run', `${dir}/run`], ['/proc/sys/kernel/random', dir]]) }],
 *     });
 *     await kubelet.nodeDown('node-1');
 *     await kubelet.nodeUp('node-1');
 *     expect(kubelet.errors).toEqual([]);
 *     await kubelet.stop();                           // no process and no folder is left
 */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { COMPONENT_LABEL } from '@brupop/shared/api/names';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { corePath } from '@brupop/shared/kube/paths';
import { Reflector, type ReflectorEvent } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';
import { startWatchdog } from '../watchdog.ts';
import { PodAddresses } from './addresses.ts';
import type { Image } from './image.ts';
import { type FindLogs, LogServer } from './log-server.ts';
import { announce, markPodNotReady, nodeAddress } from './node-calls.ts';
import type { PathMap } from './paths.ts';
import { readLogs } from './pod-logs.ts';
import { PodRunner } from './pod-runner.ts';
import { logFolder, type NodePlace, podFolder, type Surroundings } from './pod-sandbox.ts';
import { dropMemory } from './pod-volumes.ts';
import { type ContainerStatus, type Pod, podName } from './pod.ts';
import { ReferencedObjects } from './referenced-objects.ts';
import { type ServiceAddress, ServiceVariables } from './service-variables.ts';
import { letThrough } from './users.ts';

export interface NodeOptions {
  readonly name: string;
  /**
   * Folders of the node and where they are here; hostPath volumes resolve in them, by the longest
   * match. Entries below `/proc` and `/sys` are seen by every container without a mount, as the
   * kernel's file systems are.
   */
  readonly hostPaths: PathMap;
}

export interface StandInKubeletOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** The image of a container, by its reference. */
  readonly image: (reference: string) => Image;
  readonly serviceAddress: ServiceAddress;
  /** It acts for these nodes and those added later; it ignores pods on other nodes. */
  readonly nodes?: readonly NodeOptions[];
  /** Where its folder is made; default the system's. */
  readonly tempRoot?: string;
  /** Multiplies the times of the crash back-off; default 1. */
  readonly backOffScale?: number;
  /** The part of a token's life after which it is renewed; default 0.8, as on real nodes. */
  readonly tokenRenewalFraction?: number;
  /** How long `stop` waits between SIGTERM and SIGKILL, in milliseconds; default 3000. */
  readonly stopLimitMs?: number;
}

interface Node extends NodePlace {
  up: boolean;
}

const STOP_LIMIT_MS = 3_000;
/** Of a pod that a kubelet reads from its own files: what the API has of it is not run. */
const MIRROR_ANNOTATION = 'kubernetes.io/config.mirror';
const RENEWAL_FRACTION = 0.8;

/** See the top of this file. */
export class StandInKubelet {
  /** Unsupported fields of pods. Tests expect none. */
  readonly errors: string[] = [];
  readonly #options: StandInKubeletOptions;
  readonly #root: string;
  readonly #addresses: PodAddresses;
  #logServer: LogServer | undefined;
  readonly #surroundings: Surroundings;
  readonly #pods: Reflector<Pod>;
  readonly #services: ServiceVariables;
  readonly #end = new AbortController();
  readonly #nodes = new Map<string, Node>();
  readonly #runners = new Map<string, PodRunner>();
  /** Container statuses of pods whose node went down, by UID. */
  readonly #before = new Map<string, readonly ContainerStatus[]>();

  private constructor(options: StandInKubeletOptions, addresses: PodAddresses) {
    const { client, clock, log, image, serviceAddress } = options;
    this.#options = options;
    this.#addresses = addresses;
    this.#root = mkdtempSync(join(options.tempRoot ?? tmpdir(), 'brupop-kubelet-'));
    letThrough(this.#root);
    this.#services = new ServiceVariables({ client, clock, log, serviceAddress });
    this.#surroundings = {
      client,
      clock,
      log,
      image,
      watchdog: startWatchdog(this.#root),
      objects: new ReferencedObjects({ client, clock, log }),
      root: this.#root,
      serviceVariables: async (node, pod) => await this.#services.of(node, pod),
      backOffScale: options.backOffScale ?? 1,
      tokenRenewalFraction: options.tokenRenewalFraction ?? RENEWAL_FRACTION,
      onError: (message) => this.#recordError(message),
    };
    this.#pods = new Reflector<Pod>({
      client,
      clock,
      log,
      path: corePath('pods'),
      query: { labelSelector: COMPONENT_LABEL },
      slim: (raw) => raw as Pod,
      name: 'pods of the stand-in kubelet',
    });
  }

  /** Starts it; resolves when it knows all pods and has started those of its nodes. */
  static async start(options: StandInKubeletOptions): Promise<StandInKubelet> {
    const kubelet = new StandInKubelet(options, await PodAddresses.claim());
    await kubelet.#watch();
    kubelet.#logServer = await LogServer.start((namespace, pod) => kubelet.#logsOf(namespace, pod));
    for (const node of options.nodes ?? []) kubelet.addNode(node);
    return kubelet;
  }

  /** Acts for a node from now on, and writes to its status where `kubectl logs` finds it. Throws when it does already. */
  addNode({ name, hostPaths }: NodeOptions): void {
    if (this.#nodes.has(name)) throw new Error(`the stand-in kubelet acts for node ${name} already`);
    const { client, clock } = this.#surroundings;
    let address: string | undefined;
    const node: Node = {
      name,
      hostPaths,
      up: true,
      address: async () => (address ??= await nodeAddress(client, clock, name, this.#end.signal)),
    };
    this.#nodes.set(name, node);
    void this.#announce(name);
    for (const pod of this.#podsOn(name)) this.#podSeen(pod);
  }

  /** Ends what runs on the node at once, as a power cut, and acts for it no more. */
  async removeNode(name: string): Promise<void> {
    await this.nodeDown(name);
    this.#nodes.delete(name);
  }

  /**
   * The node is off: SIGKILL to all its processes at once; its pods are ignored until `nodeUp`.
   * With `markNotReady` their Ready condition becomes False, as the node lifecycle controller has
   * it once the node is not Ready.
   */
  async nodeDown(name: string, options: { readonly markNotReady?: boolean } = {}): Promise<void> {
    this.#node(name).up = false;
    const runners = this.#runnersOf({ node: name });
    await Promise.all(runners.map(async (runner) => await runner.powerOff()));
    for (const runner of runners) {
      const { uid } = runner.pod.metadata;
      this.#before.set(uid, runner.containerStatuses);
      this.#runners.delete(uid);
    }
    if (options.markNotReady !== true) return;
    const { client, clock } = this.#surroundings;
    await Promise.all(
      this.#podsOn(name).map(async (pod) => await markPodNotReady(client, clock, pod, this.#end.signal)),
    );
  }

  /**
   * The node has booted: its pods start again, each with its restart count one higher, a new
   * address and new tokens, at once and without back-off. What an emptyDir held is still there
   * unless it was in memory. Pods that were deleted meanwhile are finished.
   */
  async nodeUp(name: string): Promise<void> {
    const pods = this.#podsOn(name);
    await Promise.all(pods.map(async (pod) => await dropMemory(pod, podFolder(this.#root, pod))));
    this.#node(name).up = true;
    for (const pod of this.#podsOn(name)) this.#podSeen(pod);
  }

  /** Process IDs of the running containers. */
  pids(component?: string, node?: string): number[] {
    return this.#runnersOf({ component, node }).flatMap((runner) => runner.pids);
  }

  /**
   * Sends a signal to the containers of a pod, given as `name` or `namespace/name`. Throws when it
   * does not run here.
   */
  kill(pod: string, signal: NodeJS.Signals): void {
    const found = this.#runnersOf({ pod });
    if (found.length !== 1) throw new Error(`expected one pod ${pod} to run here, found ${found.length}`);
    for (const runner of found) runner.signal(signal);
  }

  /**
   * What the containers of a pod have written since its start, oldest first; also of a pod that is
   * gone.
   */
  async logs(pod: string): Promise<string> {
    return await readLogs(this.#root, pod);
  }

  /**
   * Ends all processes (SIGTERM, then SIGKILL), removes its folder, logs included, and gives the
   * pod IPs free. Reports nothing. Safe to call twice.
   */
  async stop(): Promise<void> {
    if (this.#end.signal.aborted) return;
    this.#end.abort();
    const limitMs = this.#options.stopLimitMs ?? STOP_LIMIT_MS;
    await Promise.all([...this.#runners.values()].map(async (runner) => await runner.stop(limitMs)));
    await this.#surroundings.watchdog.release();
    await this.#addresses.release();
    await this.#logServer?.stop();
  }

  async #watch(): Promise<void> {
    const { signal } = this.#end;
    this.#pods.subscribe((event) => this.#podEvent(event));
    void this.#pods.run(signal);
    await this.#services.start(signal);
    await this.#pods.waitSynced(signal);
  }

  async #announce(name: string): Promise<void> {
    const { client, clock } = this.#surroundings;
    const { signal } = this.#end;
    await announce(client, clock, { name, port: this.#logServer?.port ?? 0 }, signal).catch((error: unknown) => {
      if (!signal.aborted && !hasStatus(error, 404)) this.#recordError(messageOf(error));
    });
  }

  #logsOf(namespace: string, name: string): ReturnType<FindLogs> {
    const pod = this.#pods.get(name, namespace);
    const node = this.#nodes.get(pod?.spec.nodeName ?? '');
    if (node === undefined)
      return { problem: `only the operator's pods run here: ${namespace}/${name} is simulated and has no logs` };
    if (!node.up) return { problem: `the node ${node.name} is down` };
    return { folder: logFolder(this.#root, node.name) };
  }

  #podEvent({ type, object, old }: ReflectorEvent<Pod>): void {
    if (type === 'Deleted') this.#podGone(object);
    else {
      if (old !== undefined && old.metadata.uid !== object.metadata.uid) this.#podGone(old);
      this.#podSeen(object);
    }
  }

  #podSeen(pod: Pod): void {
    const node = this.#nodes.get(pod.spec.nodeName ?? '');
    if (node?.up !== true || this.#end.signal.aborted) return;
    const runner = this.#runners.get(pod.metadata.uid);
    if (runner !== undefined) runner.update(pod);
    else if (!hasEnded(pod) && !isMirror(pod)) this.#begin(pod, node);
  }

  #begin(pod: Pod, node: Node): void {
    const { uid } = pod.metadata;
    const runner = new PodRunner({
      pod,
      node,
      surroundings: this.#surroundings,
      podIP: this.#addresses.next(),
      before: this.#before.get(uid) ?? pod.status?.containerStatuses ?? [],
      onGone: () => void this.#runners.delete(uid),
    });
    this.#before.delete(uid);
    this.#runners.set(uid, runner);
    runner.begin();
  }

  #podGone(pod: Pod): void {
    const { uid } = pod.metadata;
    this.#runners.get(uid)?.removed();
    if (this.#before.delete(uid)) void rm(podFolder(this.#root, pod), { recursive: true, force: true });
  }

  #podsOn(node: string): Pod[] {
    return this.#pods.list().filter(({ spec }) => spec.nodeName === node);
  }

  #runnersOf(wanted: {
    readonly component?: string | undefined;
    readonly node?: string | undefined;
    readonly pod?: string;
  }): PodRunner[] {
    const { component, node, pod } = wanted;
    return [...this.#runners.values()].filter(
      (one) =>
        (component === undefined || one.pod.metadata.labels?.[COMPONENT_LABEL] === component) &&
        (node === undefined || one.node.name === node) &&
        (pod === undefined || one.pod.metadata.name === pod || podName(one.pod) === pod),
    );
  }

  #node(name: string): Node {
    const found = this.#nodes.get(name);
    if (found === undefined) throw new Error(`the stand-in kubelet does not act for node ${name}`);
    return found;
  }

  #recordError(message: string): void {
    this.errors.push(message);
    this.#options.log.error('the stand-in kubelet does not support this', { error: message });
  }
}

function isMirror({ metadata }: Pod): boolean {
  return metadata.annotations?.[MIRROR_ANNOTATION] !== undefined;
}

/** Its containers have terminated: only the deletion of the object is awaited. */
function hasEnded({ status, metadata }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && (status?.phase === 'Failed' || status?.phase === 'Succeeded');
}
