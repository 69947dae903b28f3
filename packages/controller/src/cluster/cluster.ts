import { isDeepStrictEqual } from 'node:util';
import { type BrupopConfig, readBrupopConfig } from '@brupop/shared/api/brupop-config';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
  shadowName,
} from '@brupop/shared/api/names';
import { type Budget, slimBudget } from '@brupop/shared/drain/budgets';
import type { KubeClient } from '@brupop/shared/kube/client';
import { corePath, crPath, groupPath } from '@brupop/shared/kube/paths';
import { Reflector, type ReflectorEvent } from '@brupop/shared/kube/reflector';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { readPolicy, type UpdatePolicy } from '../policy/policy.ts';
import { AssumeCache } from './assume-cache.ts';
import { bearsOwnership, isManaged, type NodeView, readNode } from './node.ts';
import { PodLookups } from './pods.ts';
import { isReadable, readShadow, type ShadowView } from './shadow.ts';
import type { ManagedNode, WatchLag, Snapshot } from './snapshot.ts';

export interface ClusterOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly namespace: string;
  readonly nodeName: string;
}

interface Page {
  readonly metadata: { readonly continue?: string };
  readonly items: readonly unknown[];
}

const BUDGETS = 'poddisruptionbudgets';
const PAGE_SIZE = '500';
const LIST_LIMIT_MS = 60_000;
const SHADOW_PREFIX = shadowName('');

/** The watch caches, and the snapshot made from them. */
export class Cluster {
  readonly assumeCache = new AssumeCache();
  readonly lookups: PodLookups;
  readonly #options: ClusterOptions;
  readonly #nodes: Reflector<NodeView>;
  readonly #shadows: Reflector<ShadowView>;
  readonly #configs: Reflector<BrupopConfig>;
  readonly #budgets: Reflector<Budget>;
  /** By node name: when the Node or the shadow of a pair went, the other one staying. */
  readonly #missingSince = new Map<string, number>();
  readonly #startedAt: number;
  /** Read once, when the configuration changes. */
  #policy: UpdatePolicy;

  constructor(options: ClusterOptions) {
    const { client, clock, log } = options;
    const common = { client, clock, log };
    this.#options = options;
    this.#startedAt = clock.now();
    this.#policy = readPolicy(undefined);
    this.#nodes = new Reflector({ ...common, name: 'nodes', path: corePath('nodes'), slim: readNode });
    this.#shadows = new Reflector({ ...common, name: SHADOW_PLURAL, path: this.#shadowsPath, slim: readShadow });
    const configs = crPath(CONFIG_PLURAL, { version: CONFIG_VERSION });
    this.#configs = new Reflector({ ...common, name: CONFIG_PLURAL, path: configs, slim: readBrupopConfig });
    const budgets = groupPath('policy/v1', BUDGETS);
    this.#budgets = new Reflector({ ...common, name: BUDGETS, path: budgets, slim: slimBudget });
    this.lookups = new PodLookups(common);
    this.#configs.subscribe((event) => this.#readPolicy(event));
    this.#nodes.subscribe((event) => this.#notePair(event, event.object.metadata.name));
    this.#shadows.subscribe((event) => this.#notePair(event, nodeOf(event.object)));
    this.#shadows.subscribe(({ type, object }) => {
      if (type === 'Deleted') this.assumeCache.drop(object.metadata.uid);
      if (object.spec.state === 'RebootedIntoUpdate') this.lookups.forget(nodeOf(object));
    });
    this.#nodes.subscribe(({ type, object }) => {
      if (type === 'Deleted') this.lookups.forget(object.metadata.name);
    });
  }

  /** Keeps the caches until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.run(signal)));
  }

  get synced(): boolean {
    return this.#reflectors.every((reflector) => reflector.synced);
  }

  /** How long the API server has not been heard, by resource. */
  watchLags(): readonly WatchLag[] {
    return [
      { resource: 'nodes', ms: this.#nodes.idleForMs() },
      { resource: SHADOW_PLURAL, ms: this.#shadows.idleForMs() },
      { resource: CONFIG_PLURAL, ms: this.#configs.idleForMs() },
      { resource: BUDGETS, ms: this.#budgets.idleForMs() },
    ];
  }

  /** Resolves when all caches are filled; rejects with the signal's reason. */
  async waitSynced(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#reflectors.map((reflector) => reflector.waitSynced(signal)));
  }

  /**
   * Calls `listener` for each change that can make a plan differ: not for heartbeats, nor for what this controller writes into a status, and for
   * changes of disruption budgets only while `budgetsMatter`. The returned function ends that.
   */
  onChange(listener: () => void, budgetsMatter: () => boolean): () => void {
    const ends = [
      this.#nodes.subscribe((event) => {
        if (differs(event) && this.#concernsUs(event)) listener();
      }),
      this.#shadows.subscribe((event) => {
        if (differs(event)) listener();
      }),
      this.#configs.subscribe(({ type, object, old }) => {
        if (type !== 'Modified' || object.metadata.generation !== old?.metadata.generation) listener();
      }),
      this.#budgets.subscribe((event) => {
        if (budgetsMatter() && differs(event)) listener();
      }),
    ];
    return () => {
      for (const end of ends) end();
    };
  }

  /**
   * Reads all shadows from the API server itself, so that what an earlier leader has just started is counted even if the watch has not
   * shown it yet. Called when the lead is taken. Throws KubeError.
   */
  async catchUp(signal: AbortSignal): Promise<void> {
    this.assumeCache.clear();
    let token: string | undefined;
    do {
      const query = { limit: PAGE_SIZE, ...(token !== undefined && { continue: token }) };
      const request = { method: 'GET', path: this.#shadowsPath, query, timeoutMs: LIST_LIMIT_MS, signal } as const;
      const page: Page = await this.#options.client.request<Page>(request);
      // The reflector leaves the others out, and says so.
      for (const raw of page.items) if (isReadable(raw)) this.assumeCache.shadow(readShadow(raw));
      token = page.metadata.continue;
    } while (token !== undefined && token !== '');
  }

  /** All there is to decide on, as of now. `refusalOf` tells by UID why a spec was refused. Throws an error while a cache is not filled. */
  snapshot(refusalOf: (uid: string) => string | undefined): Snapshot {
    if (!this.synced) throw new Error('the watch caches are not filled yet: nothing can be decided');
    const { nodeName: ownNode } = this.#options;
    const config = this.#configs.get(CONFIG_NAME);
    const managedNodes = this.#managedNodes().map((managedNode) => withRefusal(managedNode, refusalOf));
    const { known: pods } = this.lookups;
    const budgets = this.#budgets.list();
    const policy = this.#policy;
    return { managedNodes, config, policy, pods, budgets, watchLags: this.watchLags(), ownNode };
  }

  get #reflectors(): readonly Pick<Reflector<KubernetesObject>, 'run' | 'synced' | 'waitSynced'>[] {
    return [this.#nodes, this.#shadows, this.#configs, this.#budgets];
  }

  get #shadowsPath(): string {
    return crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace: this.#options.namespace });
  }

  #managedNodes(): ManagedNode[] {
    const managedNodes = this.#nodes.list().flatMap((node) => {
      const shadow = this.#shadowOf(node.metadata.name);
      return shadow !== undefined || isManaged(node) || bearsOwnership(node) ? [this.#managedNode(node, shadow)] : [];
    });
    const orphans = this.#shadows
      .list()
      .filter((shadow) => this.#nodes.get(nodeOf(shadow)) === undefined)
      .map((shadow) => this.#managedNode(undefined, this.assumeCache.view(shadow, this.#options.clock.now())));
    return [...managedNodes, ...orphans];
  }

  #managedNode(node: NodeView | undefined, shadow: ShadowView | undefined): ManagedNode {
    const name = node?.metadata.name ?? (shadow === undefined ? '' : nodeOf(shadow));
    return { name, node, shadow, missingSince: this.#missingSince.get(name) ?? this.#startedAt };
  }

  #shadowOf(node: string): ShadowView | undefined {
    const cached = this.#shadows.get(shadowName(node), this.#options.namespace);
    return cached === undefined ? undefined : this.assumeCache.view(cached, this.#options.clock.now());
  }

  #notePair({ type }: { readonly type: ReflectorEvent<KubernetesObject>['type'] }, name: string): void {
    const other = this.#nodes.get(name) ?? this.#shadowOf(name);
    if (type === 'Deleted' && other !== undefined) this.#missingSince.set(name, this.#options.clock.now());
    else if (type !== 'Modified') this.#missingSince.delete(name);
  }

  /** Reads the configuration when something changes that it says, or that is on record as in force. */
  #readPolicy({ type, object, old }: ReflectorEvent<BrupopConfig>): void {
    if (object.metadata.name !== CONFIG_NAME) return;
    const isSame = old !== undefined && isDeepStrictEqual(policySource(object), policySource(old));
    if (type === 'Modified' && isSame) return;
    this.#policy = readPolicy(type === 'Deleted' ? undefined : object);
  }

  #concernsUs({ object, old }: ReflectorEvent<NodeView>): boolean {
    return [object, ...(old === undefined ? [] : [old])].some(
      (node) => isManaged(node) || bearsOwnership(node) || this.#shadowOf(node.metadata.name) !== undefined,
    );
  }
}

function nodeOf({ metadata }: KubernetesObject): string {
  return metadata.name.startsWith(SHADOW_PREFIX) ? metadata.name.slice(SHADOW_PREFIX.length) : metadata.name;
}

function withRefusal(managedNode: ManagedNode, refusalOf: (uid: string) => string | undefined): ManagedNode {
  const writeRejection = managedNode.shadow === undefined ? undefined : refusalOf(managedNode.shadow.metadata.uid);
  return writeRejection === undefined ? managedNode : { ...managedNode, writeRejection };
}

function differs<T extends KubernetesObject>({ type, object, old }: ReflectorEvent<T>): boolean {
  return type !== 'Modified' || old === undefined || !isDeepStrictEqual(comparable(object), comparable(old));
}

/** What a policy is read from. */
function policySource({ metadata: { generation }, spec, status }: BrupopConfig): object {
  return { generation, spec, inForce: status?.inForce };
}

/** A resourceVersion changes with every heartbeat, and the Progressing condition is this controller's own. */
function comparable(object: KubernetesObject & { readonly progressing?: unknown }): object {
  return { ...object, progressing: undefined, metadata: { ...object.metadata, resourceVersion: '' } };
}
