import type { StatusReport } from '@brupop/shared/api/agent-protocol';
import { GROUP, SHADOW_KIND, SHADOW_PLURAL, SHADOW_VERSION, shadowName } from '@brupop/shared/api/names';
import type { AgentStatus, BottlerocketShadow, DrainStatus } from '@brupop/shared/api/shadow';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus } from '@brupop/shared/kube/error';
import { crPath } from '@brupop/shared/kube/paths';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';
import type { Node, Nodes } from '../nodes/nodes.ts';
import { isOwnedBy, requireOwn, slimShadow, type SlimShadow } from './policy.ts';

const FIELD_MANAGER = 'brupop-apiserver';
/** Of the drain, so that an agent's report leaves it as it is. */
const DRAIN_MANAGER = 'brupop-apiserver-drain';
const ENSURE_ATTEMPTS = 5;
const WRITE_ATTEMPTS = 8;
const WRITE_RETRY = { baseMs: 20, capMs: 500 };
const apiVersion = `${GROUP}/${SHADOW_VERSION}`;

export interface ShadowsOptions {
  readonly client: KubeClient;
  readonly nodes: Nodes;
  /** The shadows as the watch knows them. */
  readonly cache: Pick<Reflector<SlimShadow>, 'get'>;
  readonly namespace: string;
  readonly clock: Clock;
  readonly log: Logger;
}

interface StatusWrite {
  readonly node: string;
  readonly uid: string;
  readonly manager: string;
  readonly status: object;
}

/** Reads and writes shadows in the Kubernetes API. */
export class Shadows {
  readonly #options: ShadowsOptions;

  constructor(options: ShadowsOptions) {
    this.#options = options;
  }

  /** The shadow of a node as the API server has it now, or undefined. Throws KubeError. */
  async find(node: string, signal: AbortSignal): Promise<SlimShadow | undefined> {
    const shadow = await this.#get(node, signal);
    return shadow === undefined ? undefined : slimShadow(shadow);
  }

  /** As `find`. Throws also Failure `NotFound`. */
  async read(node: string, signal: AbortSignal): Promise<SlimShadow> {
    const shadow = await this.find(node, signal);
    if (shadow === undefined) throw new ApiError('NotFound', `${shadowName(node)} does not exist`);
    return shadow;
  }

  /**
   * Returns the shadow that belongs to the live Node; makes it when there is none, and replaces one of an earlier Node of that name.
   * Throws KubeError, and Failure `NotFound` or `Forbidden` when the Node does not exist or is not managed.
   */
  async ensure(identity: Identity, signal: AbortSignal): Promise<{ shadow: SlimShadow; created: boolean }> {
    const node = await this.#options.nodes.readManaged(identity, signal);
    for (let attempt = 1; attempt <= ENSURE_ATTEMPTS; attempt += 1) {
      const found = await this.#get(identity.node, signal);
      if (found === undefined) {
        const created = await this.#create(node, signal);
        if (created !== undefined) return { shadow: slimShadow(created), created: true };
      } else if (isOwnedBy(found, node.metadata.uid)) return { shadow: slimShadow(found), created: false };
      else await this.#remove(found, node, signal);
    }
    throw new ApiError('Conflict', `${shadowName(identity.node)} changes all the time; repeat`);
  }

  /**
   * Writes what the agent reports. The same report again changes nothing. Throws KubeError, and Failure `SpecChanged` when the report is
   * for another shadow of that name, `NotFound` when there is none, `BadRequest` when the resource's schema refuses it.
   */
  async writeStatus(identity: Identity, report: StatusReport, signal: AbortSignal): Promise<SlimShadow> {
    const { node } = identity;
    const write = { node, uid: report.shadowUID, manager: FIELD_MANAGER, status: ownFields(report.status) };
    return this.#write(write, signal, (shadow) => requireOwn(shadow, identity));
  }

  /**
   * Writes how far a drain is. Throws as `writeStatus` does.
   * @param of - `generation`: of the spec that the drain is for; a newer one makes it fail with `SpecChanged`
   */
  async writeDrain(
    { node, uid, generation }: { readonly node: string; readonly uid: string; readonly generation?: number },
    drain: DrainStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const write = { node, uid, manager: DRAIN_MANAGER, status: { drain } };
    await this.#write(write, signal, (shadow) => requireGeneration(shadow, generation));
  }

  async #write(write: StatusWrite, signal: AbortSignal, check: (shadow: SlimShadow) => void): Promise<SlimShadow> {
    const { node, uid } = write;
    const { clock } = this.#options;
    const retry = backoff(WRITE_RETRY);
    let known = this.#options.cache.get(shadowName(node), this.#options.namespace);
    if (known !== undefined && (known.metadata.uid !== uid || !passes(known, check))) known = undefined;
    for (let attempt = 1; ; attempt += 1) {
      const shadow = known ?? (await this.read(node, signal));
      const { metadata } = shadow;
      known = undefined;
      check(shadow);
      if (metadata.uid !== uid)
        throw new ApiError('SpecChanged', `${metadata.name} is ${metadata.uid}, the report is for ${uid}`);
      try {
        return slimShadow(await this.#applyStatus(write, metadata.resourceVersion, signal));
      } catch (error) {
        if (!hasStatus(error, 409) || attempt === WRITE_ATTEMPTS) throw statusFailure(node, error);
      }
      await clock.sleep(retry.next(), signal);
    }
  }

  /**
   * The resourceVersion stands for the UID, which the API server does not compare when a status is applied (seen on 1.36). So a shadow from
   * the cache will do at first: when it is not the newest, the write conflicts.
   */
  #applyStatus({ node, status, manager }: StatusWrite, resourceVersion: string, signal: AbortSignal): Promise<unknown> {
    const metadata = { name: shadowName(node), resourceVersion };
    const body = { apiVersion, kind: SHADOW_KIND, metadata, status };
    const options = { fieldManager: manager, force: true, signal };
    return this.#options.client.apply(this.#path(node, 'status'), body, options);
  }

  async #get(node: string, signal: AbortSignal): Promise<BottlerocketShadow | undefined> {
    try {
      return await this.#options.client.request({ method: 'GET', path: this.#path(node), signal });
    } catch (error) {
      if (hasStatus(error, 404)) return undefined;
      throw error;
    }
  }

  /** Undefined when somebody else was first. */
  async #create({ metadata }: Node, signal: AbortSignal): Promise<BottlerocketShadow | undefined> {
    const { namespace, client, log } = this.#options;
    const owner = { apiVersion: 'v1', kind: 'Node', name: metadata.name, uid: metadata.uid };
    const body = {
      apiVersion,
      kind: SHADOW_KIND,
      metadata: {
        name: shadowName(metadata.name),
        namespace,
        labels: { 'app.kubernetes.io/part-of': 'bottlerocket-update-operator' },
        ownerReferences: [{ ...owner, controller: false, blockOwnerDeletion: false }],
      },
      spec: { state: 'Idle' },
    };
    const path = crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace });
    try {
      const query = { fieldManager: FIELD_MANAGER };
      const created = await client.request<BottlerocketShadow>({ method: 'POST', path, query, body, signal });
      log.info('created a shadow', { node: metadata.name, shadow: created.metadata.name });
      return created;
    } catch (error) {
      if (hasStatus(error, 409)) return undefined;
      throw error;
    }
  }

  async #remove({ metadata }: BottlerocketShadow, node: Node, signal: AbortSignal): Promise<void> {
    if (metadata.deletionTimestamp !== undefined)
      throw new ApiError('Conflict', `${metadata.name} of an earlier Node is still being deleted; repeat`);
    const { uid, resourceVersion } = metadata;
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } };
    try {
      const path = this.#path(node.metadata.name);
      await this.#options.client.request({ method: 'DELETE', path, body, signal });
      this.#options.log.info('deleted the shadow of an earlier Node of this name', { node: node.metadata.name, uid });
    } catch (error) {
      if (!hasStatus(error, 404) && !hasStatus(error, 409)) throw error;
    }
  }

  #path(node: string, subresource?: string): string {
    const place = { version: SHADOW_VERSION, namespace: this.#options.namespace, name: shadowName(node) };
    return crPath(SHADOW_PLURAL, { ...place, ...(subresource === undefined ? {} : { subresource }) });
  }
}

function passes(shadow: SlimShadow, check: (shadow: SlimShadow) => void): boolean {
  try {
    check(shadow);
    return true;
  } catch {
    return false;
  }
}

function requireGeneration({ metadata }: SlimShadow, generation: number | undefined): void {
  if (generation === undefined || generation === metadata.generation) return;
  const found = `generation ${metadata.generation ?? 0}`;
  throw new ApiError('SpecChanged', `${metadata.name}: expected generation ${generation}, found ${found}`);
}

/** An explicit null also clears a failure time that an older operator wrote, whose field we do not own. */
function ownFields(status: AgentStatus): AgentStatus {
  return { ...status, state_transition_failure_timestamp: status.state_transition_failure_timestamp ?? null };
}

function statusFailure(node: string, error: unknown): unknown {
  const name = shadowName(node);
  if (hasStatus(error, 404)) return new ApiError('NotFound', `${name} does not exist`);
  if (hasStatus(error, 422) || hasStatus(error, 400)) return new ApiError('BadRequest', `${name}: ${error.message}`);
  return error;
}
