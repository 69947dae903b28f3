/**
 * The policy of the fleet, and those of its groups, as the watch caches have them. They are read again when the
 * configuration or the spec of a group changes, and not in each reconcile.
 */
import { isDeepStrictEqual } from 'node:util';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { CONFIG_NAME } from '@brupop/shared/api/names';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { Reflector, ReflectorEvent } from '@brupop/shared/kube/reflector';
import { groupOf, type NodeGroup, readNodeGroups } from '../policy/node-groups.ts';
import { readPolicy, type UpdatePolicy } from '../policy/policy.ts';
import { groupAtStart } from './shadow.ts';
import { holdsGroup } from './state.ts';
import type { ManagedNode } from './snapshot.ts';

/** Where a pause had no reason. */
export const KEPT_PAUSED = 'The BrupopConfig was deleted while it paused the fleet';

export class Policies {
  readonly #groups: Pick<Reflector<BottlerocketNodeGroup>, 'list'>;
  #fleet: UpdatePolicy = readPolicy(undefined);
  #read: readonly NodeGroup[] | undefined;
  #isKnown = false;

  constructor(configs: Reflector<BrupopConfig>, groups: Reflector<BottlerocketNodeGroup>) {
    this.#groups = groups;
    configs.subscribe((event) => this.#updateFleet(event));
    groups.subscribe((event) => {
      if (isGroupChange(event)) this.#read = undefined;
    });
  }

  get fleet(): UpdatePolicy {
    return this.#fleet;
  }

  get groups(): readonly NodeGroup[] {
    const groups = this.#groups.list().filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    this.#read ??= readNodeGroups(groups, this.#fleet);
    return this.#read;
  }

  #updateFleet({ type, object, old }: ReflectorEvent<BrupopConfig>): void {
    if (object.metadata.name !== CONFIG_NAME) return;
    const isSame = old !== undefined && isDeepStrictEqual(policySource(object), policySource(old));
    if (type === 'Modified' && isSame) return;
    this.#fleet = type === 'Deleted' ? readPolicy(undefined, this.#fleet) : readPolicy(object);
    this.#read = undefined;
    this.#isKnown = true;
  }

  /**
   * Why the configuration pauses the fleet, or did when it was deleted; empty: it does not. Undefined: this process has
   * seen none.
   */
  get pausedWith(): string | undefined {
    if (!this.#isKnown) return undefined;
    const { paused, pauseReason } = this.#fleet;
    return paused ? pauseReason || KEPT_PAUSED : '';
  }

  /** For a configuration that was deleted while this process was not running, and paused the fleet. */
  keepPaused(pauseReason: string): void {
    if (this.#isKnown) return;
    this.#fleet = { ...this.#fleet, paused: true, pauseReason };
    this.#read = undefined;
  }
}

/** Which rules hold for a node: those that its update began with, or those of its labels. */
export function rulesFor(
  { node, shadow }: Pick<ManagedNode, 'node' | 'shadow'>,
  { fleet, groups }: Pick<Policies, 'fleet' | 'groups'>,
): Pick<ManagedNode, 'group' | 'policy'> {
  const began = shadow !== undefined && holdsGroup(shadow) ? groupAtStart(shadow) : undefined;
  const group = node === undefined ? undefined : groupOf(node.metadata.labels ?? {}, groups, began);
  return { group, policy: group?.policy ?? fleet };
}

/** True unless only the status or the metadata changed. */
export function isSpecChange({ type, object, old }: ReflectorEvent<KubernetesObject>): boolean {
  return type !== 'Modified' || object.metadata.generation !== old?.metadata.generation;
}

/** True also for what decides whether Nodes and the finalizer are written. */
export function isGroupChange(event: ReflectorEvent<BottlerocketNodeGroup>): boolean {
  const [now, before] = [event.object, event.old].map((one) => {
    const { rendered, confirmedGeneration } = one?.status ?? {};
    return { rendered, confirmedGeneration, finalizers: one?.metadata.finalizers };
  });
  return isSpecChange(event) || !isDeepStrictEqual(now, before);
}

function policySource({ metadata: { generation }, spec, status }: BrupopConfig): object {
  return { generation, spec, inForce: status?.inForce };
}
