import { join } from 'node:path';
import { type KubeClient, KubeError } from '@brupop/shared/kube/client';
import { backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Watchdog } from '../watchdog.ts';
import { type Command, commandOf } from './command.ts';
import { environmentOf, environmentReferences } from './environment.ts';
import type { Image } from './image.ts';
import { kernelPaths, type PathMap } from './paths.ts';
import { PodVolumes } from './pod-volumes.ts';
import { containerNamed, NotYet, type Pod, type Whereabouts } from './pod.ts';
import type { ReferencedObjects } from './referenced-objects.ts';
import { allSettled } from './retry.ts';
import { userOf } from './users.ts';

/** What all pods of the fleet share. */
export interface Surroundings {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly watchdog: Watchdog;
  readonly objects: ReferencedObjects;
  readonly root: string;
  readonly image: (reference: string) => Image;
  /** The variables made of Services for a pod on a node. */
  readonly serviceVariables: (node: string, pod: Pod) => Promise<Record<string, string>>;
  readonly backOffScale: number;
  readonly tokenRenewalFraction: number;
  /** Records a field that this kubelet does not support. */
  readonly onError: (message: string) => void;
}

export interface NodePlace {
  readonly name: string;
  readonly hostPaths: PathMap;
  /** The node's InternalIP. */
  readonly address: () => Promise<string>;
}

export interface PodSandboxOptions {
  readonly surroundings: Surroundings;
  readonly node: NodePlace;
  /** 10.R.x.y */
  readonly podIP: string;
  /** Ends with the pod. */
  readonly signal: AbortSignal;
  /** Something is missing; it is tried again. */
  readonly onWait: (message: string) => void;
}

const MOUNT_RETRY = { baseMs: 100, capMs: 5_000 };

/**
 * What the containers of one pod need before they can start: address, volumes, and the objects that
 * their environments name.
 */
export class PodSandbox {
  readonly #options: PodSandboxOptions;
  readonly #releases: (() => void)[] = [];
  #volumes: PodVolumes | undefined;
  #whereabouts: Whereabouts | undefined;

  constructor(options: PodSandboxOptions) {
    this.#options = options;
  }

  /** Undefined until the sandbox is ready. */
  get whereabouts(): Whereabouts | undefined {
    return this.#whereabouts;
  }

  /**
   * Resolves when the containers can start. Tries for ever what may come to be; throws Unsupported
   * for the rest, and the signal's reason.
   */
  async prepare(pod: Pod): Promise<void> {
    const { node, podIP, signal } = this.#options;
    const address = node.address();
    await allSettled([address, this.#mount(pod), this.#holdObjects(pod)]);
    signal.throwIfAborted();
    this.#whereabouts = { podIP, hostIP: await address };
  }

  /** The process for a container, with the environment as of now. Throws NotYet and Unsupported. */
  async command(pod: Pod, name: string): Promise<Command> {
    const { surroundings, node } = this.#options;
    const { objects, image, serviceVariables } = surroundings;
    const container = containerNamed(pod, name);
    if (this.#whereabouts === undefined || this.#volumes === undefined)
      throw new NotYet('ContainerCreating', `${name}: the pod's volumes are not ready`);
    const env = environmentOf({
      pod,
      container,
      whereabouts: this.#whereabouts,
      services: await serviceVariables(node.name, pod),
      object: (reference) => objects.get(reference),
    });
    const mounts = new Map([...kernelPaths(node.hostPaths), ...(await this.#volumes.mounts(pod, container))]);
    const of = { container, image: image(container.image ?? ''), hostname: pod.metadata.name, env, mounts };
    return { ...commandOf(of), user: userOf(pod, container) };
  }

  /** The pod's metadata may have changed. */
  podChanged(pod: Pod): void {
    this.#volumes?.podChanged(pod);
  }

  /** Stops following what the pod refers to. Its files stay. */
  async close(): Promise<void> {
    for (const release of this.#releases.splice(0)) release();
    await this.#volumes?.close();
  }

  async #holdObjects(pod: Pod): Promise<void> {
    const { surroundings, signal } = this.#options;
    const hold = surroundings.objects.hold.bind(surroundings.objects);
    const held = environmentReferences(pod).map(async (one) => {
      this.#releases.push(await hold(one, () => undefined, signal));
    });
    await allSettled(held);
  }

  async #mount(pod: Pod): Promise<void> {
    const { surroundings, signal, onWait } = this.#options;
    const pause = backoff(MOUNT_RETRY);
    while (this.#volumes === undefined) {
      const volumes = this.#newVolumes(pod);
      try {
        await volumes.setUp(pod);
        this.#volumes = volumes;
      } catch (error) {
        await volumes.close();
        if (!(error instanceof NotYet || error instanceof KubeError)) throw error;
        onWait(error.message);
        await surroundings.clock.sleep(pause.next(), signal);
      }
    }
  }

  #newVolumes(pod: Pod): PodVolumes {
    const { surroundings, node, signal } = this.#options;
    const { client, clock, log, objects, root, tokenRenewalFraction } = surroundings;
    const tokens = { client, clock, renewalFraction: tokenRenewalFraction };
    return new PodVolumes({ dir: podFolder(root, pod), node, objects, tokens, log, signal });
  }
}

/**
 * The folder of a pod's volumes. Short, because the path of a Unix socket has at most 107
 * characters.
 */
export function podFolder(root: string, pod: Pod): string {
  return join(root, 'pods', pod.metadata.uid.slice(0, 8));
}

/** The folder of the logs of a node's pods. */
export function logFolder(root: string, node: string): string {
  return join(root, 'logs', node);
}
