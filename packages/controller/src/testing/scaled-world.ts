/** Deployments that are scaled, as values, and leaders that scale them; a leader may be killed at any of its requests. */
import { DEPENDENT_REPLICAS_ANNOTATION } from '@brupop/shared/api/names';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { Dependent, TargetName } from '@brupop/shared/api/config-dependents';
import { KubeError } from '@brupop/shared/kube/error';
import type { EventSource } from '@brupop/shared/kube/events';
import { createLogger } from '@brupop/shared/runtime/log';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import type { ClusterLoss } from '../cluster/connectivity.ts';
import type { DependentsView } from '../cluster/dependents.ts';
import { createMetrics } from '../metrics.ts';
import { Dependents } from '../upkeep/dependents/dependents.ts';
import { type RawTarget, targetPath } from '../upkeep/dependents/target.ts';
import { NOW } from './objects.ts';

const never = new AbortController().signal;
const SECOND = 1_000;

interface Patch {
  readonly metadata: {
    readonly resourceVersion?: string;
    readonly annotations: Readonly<Record<string, string | null>>;
  };
  readonly spec?: { readonly replicas: number };
}

const phase = (level: number): Dependent['scaleDown'] => ({ level, delayMs: 0, timeoutMs: 30 * SECOND });

export function aDependent(target: string, down = 0, up = 0, changes: Partial<Dependent> = {}): Dependent {
  const object = { kind: 'Deployment', namespace: 'kube-system', target } as const;
  return { ...object, name: target, optional: false, scaleDown: phase(down), scaleUp: phase(up), ...changes };
}

export class ScaledWorld {
  readonly clock = new FakeClock(NOW);
  readonly events: EventSource[] = [];
  /** Requests, as `get NAME`, `down NAME` and `up NAME`. */
  readonly calls: string[] = [];
  /** What leaders log, as `LEVEL MESSAGE`. */
  readonly logged: string[] = [];
  /** Targets with `persistentVolumeClaimRetentionPolicy.whenScaled: Delete`, from the next {@link put}. */
  readonly losing = new Set<string>();
  /** Targets whose pods neither end nor become Ready. */
  readonly stuck = new Set<string>();
  view: DependentsView;
  /** The chart has these. */
  targets: readonly TargetName[];
  /** The leader is killed instead of this many requests from now on. */
  killedAfter = Infinity;
  /** What requests fail with. */
  failure: KubeError | undefined;
  /** Only these requests fail, as `up NAME`; undefined: all. */
  failing: string | undefined;
  /** What happens once before the next patch arrives. */
  beforePatch: (() => void) | undefined;
  leader: Dependents;
  /** Of the leader. */
  registry = createRegistry('test');
  readonly #objects = new Map<string, RawTarget>();
  readonly #listeners = new Set<() => void>();
  #version = 0;

  constructor(dependents: readonly Dependent[], replicas: number | readonly number[] = 3) {
    this.targets = dependents;
    this.view = {
      config: configWith(),
      dependents,
      problem: undefined,
      loss: lossWith(false),
      isUnsure: false,
    };
    for (const [index, one] of dependents.entries())
      this.put(one, typeof replicas === 'number' ? replicas : (replicas[index] ?? 1));
    this.leader = this.elect();
  }

  put(name: TargetName, replicas: number, annotations: Readonly<Record<string, string>> = {}): void {
    const before = this.#objects.get(targetPath(name))?.metadata;
    this.#version += 1;
    const metadata = {
      name: name.target,
      uid: before?.uid ?? name.target,
      resourceVersion: String(this.#version),
      generation: (before?.generation ?? 0) + 1,
      annotations: { ...before?.annotations, ...annotations },
    };
    this.#objects.set(targetPath(name), {
      metadata,
      spec: {
        replicas,
        ...(this.losing.has(name.target) && { persistentVolumeClaimRetentionPolicy: { whenScaled: 'Delete' } }),
      },
      status: statusOf(metadata.generation, replicas),
    });
  }

  delete(name: TargetName): void {
    this.#objects.delete(targetPath(name));
  }

  /** Replicas, and the record: `3`, or `0 (3)`. */
  scaleOf(target: string): string {
    const raw = this.#objects.get(targetPath(aDependent(target)));
    const record = raw?.metadata.annotations?.[DEPENDENT_REPLICAS_ANNOTATION];
    return `${raw?.spec?.replicas}${record === undefined ? '' : ` (${record})`}`;
  }

  get scales(): string[] {
    return this.view.dependents.map(({ target }) => this.scaleOf(target));
  }

  /** A new process. */
  elect(): Dependents {
    const { clock } = this;
    const write = (line: string): void => {
      const { level, msg } = JSON.parse(line) as { readonly level: string; readonly msg: string };
      this.logged.push(`${level} ${msg}`);
    };
    const log = createLogger({ write });
    this.registry = createRegistry('test');
    this.leader = new Dependents({
      client: this as never,
      cluster: { dependents: () => this.view, onChange: (listener) => this.#onChange(listener) },
      targets: this.targets,
      clock,
      log,
      metrics: createMetrics(this.registry),
      events: { record: (event) => this.events.push(event) },
      onReport: () => undefined,
    });
    return this.leader;
  }

  lose(lost: boolean): void {
    this.view = { ...this.view, loss: lossWith(lost) };
  }

  /** The Leases say otherwise since now. */
  change(): void {
    this.view = { ...this.view, loss: this.view.loss && { ...this.view.loss, isChanging: true } };
  }

  configure(dependents: readonly Dependent[], changes: Partial<DependentsView> = {}): void {
    this.view = { ...this.view, dependents, ...changes };
  }

  /** Something changes in the cluster that a leader may have to know. */
  wake(): void {
    for (const listener of this.#listeners) listener();
  }

  #onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async check(): Promise<number | undefined> {
    return await this.leader.check(never);
  }

  /** Lets the leader work, and time pass; the requests in it. */
  async pass(ms: number): Promise<string[]> {
    const from = this.calls.length;
    const until = this.clock.now() + ms;
    while (this.clock.now() < until) {
      const nextInMs = (await this.check()) ?? ms;
      this.#settle();
      await this.clock.advance(Math.min(Math.max(nextInMs, SECOND), until - this.clock.now()));
    }
    return this.calls.slice(from).filter((call) => !call.startsWith('get'));
  }

  // What the leader calls of a KubeClient.

  async find(path: string): Promise<RawTarget | undefined> {
    this.#count(`get ${path.split('/').at(-1)}`);
    return await Promise.resolve(this.#objects.get(path));
  }

  async mergePatch(path: string, body: Patch): Promise<void> {
    this.beforePatch?.();
    this.beforePatch = undefined;
    const raw = this.#objects.get(path);
    this.#count(`${body.spec?.replicas === 0 ? 'down' : 'up'} ${path.split('/').at(-1)}`);
    if (raw === undefined) throw new KubeError(404, 'NotFound', 'there is none');
    // As the API server does, which compares what a patch has.
    const { resourceVersion = raw.metadata.resourceVersion } = body.metadata;
    if (raw.metadata.resourceVersion !== resourceVersion) throw new KubeError(409, 'Conflict', 'it has changed');
    this.#version += 1;
    this.#objects.set(path, patched(raw, body, String(this.#version)));
    // The response of the last one is lost.
    if (this.killedAfter === 0) throw new Error('killed');
    await Promise.resolve();
  }

  #count(call: string): void {
    if (this.killedAfter <= 0) throw new Error('killed');
    this.killedAfter -= 1;
    this.calls.push(call);
    if (this.failure !== undefined && call === (this.failing ?? call)) throw this.failure;
  }

  #settle(): void {
    for (const [path, raw] of this.#objects) {
      if (this.stuck.has(raw.metadata.name)) continue;
      this.#objects.set(path, { ...raw, status: statusOf(raw.metadata.generation ?? 0, raw.spec?.replicas ?? 1) });
    }
  }
}

function lossWith(lost: boolean): ClusterLoss {
  return { lost, isChanging: false, since: lost ? NOW : undefined, counted: 10, expired: lost ? 7 : 0 };
}

export function configWith(status: BrupopConfig['status'] = {}): BrupopConfig {
  return { metadata: { name: 'cluster', uid: 'config', resourceVersion: '1' }, spec: {}, status };
}

function patched(raw: RawTarget, body: Patch, resourceVersion: string): RawTarget {
  const { replicas = 1 } = body.spec ?? raw.spec ?? {};
  const annotations = Object.entries({ ...raw.metadata.annotations, ...body.metadata.annotations });
  const kept = Object.fromEntries(annotations.filter((one): one is [string, string] => one[1] !== null));
  const generation = (raw.metadata.generation ?? 0) + (replicas === raw.spec?.replicas ? 0 : 1);
  return { ...raw, metadata: { ...raw.metadata, generation, resourceVersion, annotations: kept }, spec: { replicas } };
}

function statusOf(observedGeneration: number, replicas: number): NonNullable<RawTarget['status']> {
  return { observedGeneration, replicas, readyReplicas: replicas };
}
