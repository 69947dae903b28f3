import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '@brupop/shared/runtime/errors';
import { KubeError } from '@brupop/shared/kube/client';
import { corePath } from '@brupop/shared/kube/paths';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { localAddress } from './addresses.ts';
import { Container } from './container.ts';
import { unsupportedFields } from './supported-fields.ts';
import { logFolder, type NodePlace, podFolder, PodSandbox, type Surroundings } from './pod-sandbox.ts';
import { UNSUPPORTED, podStatus } from './pod-status.ts';
import {
  Unsupported,
  containerNamed,
  type ContainerStatus,
  hasRun,
  type Pod,
  type PodCondition,
  podName,
} from './pod.ts';
import { persistently } from './retry.ts';
import { StatusWriter } from './status-writer.ts';

export interface PodRunnerOptions {
  readonly pod: Pod;
  readonly node: NodePlace;
  readonly surroundings: Surroundings;
  /** 10.R.x.y */
  readonly podIP: string;
  /** Of the containers when the node went down, or as an earlier kubelet left them. */
  readonly before: readonly ContainerStatus[];
  /** The pod has been deleted and nothing of it is left. */
  readonly onGone: () => void;
}

const DEFAULT_GRACE_SECONDS = 30;

/** One pod on one node from its start (or the node's) to its end (or the node's). */
export class PodRunner {
  readonly node: NodePlace;
  readonly #options: PodRunnerOptions;
  readonly #surroundings: Surroundings;
  readonly #containers: readonly Container[];
  readonly #writer: StatusWriter;
  /** Aborts when the node or this kubelet goes down. */
  readonly #life = new AbortController();
  /** Aborts also when the pod is asked to end. */
  readonly #ending = new AbortController();
  readonly #sandbox: PodSandbox;
  readonly #startTime: string;
  #pod: Pod;
  #conditions: readonly PodCondition[];
  #refusal: string | undefined;
  #running: Promise<void> = Promise.resolve();
  #finishing = false;
  #ended = false;
  #gone = false;

  constructor(options: PodRunnerOptions) {
    const { pod, node, surroundings } = options;
    this.#options = options;
    this.#surroundings = surroundings;
    this.#pod = pod;
    this.node = node;
    this.#conditions = pod.status?.conditions ?? [];
    this.#startTime = pod.status?.startTime ?? rfc3339(surroundings.clock.now());
    this.#sandbox = new PodSandbox({
      ...options,
      signal: this.#ending.signal,
      onWait: (message) => this.#wait('ContainerCreating', message),
    });
    this.#writer = new StatusWriter({ ...surroundings, pod, signal: this.#life.signal });
    this.#containers = pod.spec.containers.map(({ name }) => this.#container(name));
  }

  get pod(): Pod {
    return this.#pod;
  }

  get pids(): number[] {
    return this.#containers.flatMap(({ pid }) => pid ?? []);
  }

  get containerStatuses(): readonly ContainerStatus[] {
    return this.#containers.map(({ status }) => status);
  }

  /** Starts the pod, or finishes it when it is to be deleted. */
  begin(): void {
    this.#report();
    if (this.#isDeleted()) this.#terminate();
    else this.#running = this.#run();
  }

  /** The pod object has changed. */
  update(pod: Pod): void {
    if (JSON.stringify(pod.spec.containers) !== JSON.stringify(this.#pod.spec.containers))
      this.#refuse(new Unsupported(`${podName(pod)}: its containers were changed in place`));
    this.#pod = pod;
    if (this.#isDeleted()) this.#terminate();
    else {
      this.#setRight(pod);
      this.#sandbox.podChanged(pod);
    }
  }

  /**
   * The controller manager marks the pods of a node that missed its heartbeats; a kubelet that is
   * at work takes that back.
   */
  #setRight({ status }: Pod): void {
    const shown = readyOf(status?.conditions ?? []);
    if (shown !== undefined && shown !== readyOf(this.#conditions)) this.#writer.repeat();
  }

  /** The pod object is gone: nothing is left to report to. */
  removed(): void {
    this.#gone = true;
    this.#terminate();
  }

  /** The node is off: all processes end now and nothing is reported. Resolves when they have. */
  async powerOff(): Promise<void> {
    this.#life.abort();
    this.#ending.abort();
    for (const container of this.#containers) container.powerOff();
    await this.#released();
  }

  /**
   * This kubelet ends: SIGTERM, and SIGKILL after `limitMs`; nothing is reported. Resolves when all
   * have ended.
   */
  async stop(limitMs: number): Promise<void> {
    this.#life.abort();
    this.#ending.abort();
    for (const container of this.#containers) container.terminate(limitMs);
    await this.#released();
  }

  signal(signal: NodeJS.Signals): void {
    for (const container of this.#containers) container.signal(signal);
  }

  #isDeleted(): boolean {
    return this.#pod.metadata.deletionTimestamp !== undefined;
  }

  #graceMs(): number {
    const { metadata, spec } = this.#pod;
    const seconds = metadata.deletionGracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? DEFAULT_GRACE_SECONDS;
    return Math.max(1, seconds) * 1000; // the kubelet gives at least a second
  }

  async #run(): Promise<void> {
    try {
      const unknown = unsupportedFields(this.#pod.spec);
      if (unknown.length > 0) throw new Unsupported(`${podName(this.#pod)}: ${unknown.join('; ')}`);
      await this.#sandbox.prepare(this.#pod);
      this.#report();
      await Promise.all(
        this.#containers.map(async (one) => await one.run().catch((error: unknown) => this.#refuse(error))),
      );
      if (this.#pod.spec.restartPolicy === 'Never' && !this.#ending.signal.aborted) this.#ended = true;
      this.#report();
    } catch (error) {
      if (!this.#ending.signal.aborted) this.#refuse(error);
    }
  }

  #container(name: string): Container {
    const { surroundings, podIP, pod, node, before } = this.#options;
    const earlier = before.find((one) => one.name === name && hasRun(one));
    return new Container({
      ...surroundings,
      spec: containerNamed(pod, name),
      host: localAddress(podIP),
      restarts: pod.spec.restartPolicy !== 'Never',
      graceMs: () => this.#graceMs(),
      command: async () => await this.#sandbox.command(this.#pod, name),
      logPath: (restart) =>
        join(logFolder(surroundings.root, node.name), `${pod.metadata.name}_${name}_${restart}.log`),
      changed: () => this.#report(),
      ...(earlier !== undefined && { before: earlier }),
    });
  }

  #refuse(error: unknown): void {
    const message = messageOf(error);
    this.#surroundings.onError(message);
    this.#refusal = message;
    for (const container of this.#containers) container.terminate(0);
    this.#wait(UNSUPPORTED, message);
  }

  /** Why the containers do not start. */
  #wait(reason: string, message: string): void {
    for (const container of this.#containers) container.wait(reason, message);
  }

  #terminate(): void {
    this.#ending.abort();
    for (const container of this.#containers) container.terminate(this.#graceMs());
    if (this.#finishing) return;
    this.#finishing = true;
    void this.#finish();
  }

  async #finish(): Promise<void> {
    await this.#released();
    try {
      if (!this.#gone) await this.#reportEnd();
    } catch (error) {
      if (this.#life.signal.aborted) return;
      this.#surroundings.onError(`${podName(this.#pod)}: it ended, but cannot be deleted: ${messageOf(error)}`);
    }
    if (this.#life.signal.aborted) return;
    await rm(podFolder(this.#surroundings.root, this.#pod), { recursive: true, force: true });
    this.#options.onGone();
  }

  /** Resolves when no process and no watch is left. */
  async #released(): Promise<void> {
    await this.#running;
    await this.#sandbox.close();
  }

  async #reportEnd(): Promise<void> {
    this.#ended = true;
    this.#report();
    await this.#writer.flushed();
    const { client, clock } = this.#surroundings;
    const { namespace, name, uid } = this.#pod.metadata;
    const { signal } = this.#life;
    const path = corePath('pods', { namespace, name });
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', gracePeriodSeconds: 0, preconditions: { uid } };
    await persistently(clock, signal, () => client.request({ method: 'DELETE', path, body, signal })).catch(
      (error: unknown) => {
        const isGone = error instanceof KubeError && (error.status === 404 || error.status === 409);
        if (!isGone) throw error;
      },
    );
  }

  #report(): void {
    if (this.#gone) return;
    const status = podStatus({
      whereabouts: this.#sandbox.whereabouts,
      containers: this.containerStatuses,
      ended: this.#ended,
      startTime: this.#startTime,
      now: rfc3339(this.#surroundings.clock.now()),
      previous: this.#conditions,
      refusal: this.#refusal,
    });
    this.#conditions = status.conditions;
    this.#writer.set(status);
  }
}

function readyOf(conditions: readonly PodCondition[]): string | undefined {
  return conditions.find(({ type }) => type === 'Ready')?.status;
}
