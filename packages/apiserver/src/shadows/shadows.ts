/**
 * Reads and writes shadows in the Kubernetes API. The routes call `ofNode` when an agent starts and
 * `writeStatus` for its reports, the drain record calls `writeDrain`.
 *
 * - Status is written by server-side apply with a field manager each for the agent's report, for
 *   `status.drain` and for the condition `AgentSupported`, so that none removes another's fields.
 * - Each write names the resourceVersion of the shadow it was decided on: the cached one first, and
 *   the live one after a conflict.
 * - The controller creates and deletes shadows. One belongs to one Node, by the UID of its owner; one
 *   of an earlier Node of that name is never written.
 */
import type { StatusReport } from '@brupop/shared/api/agent-protocol';
import type { Condition } from '@brupop/shared/api/meta';
import { AGENT_SUPPORTED, GROUP, SHADOW_KIND, SHADOW_VERSION, shadowName } from '@brupop/shared/api/names';
import type { AgentSkew } from '@brupop/shared/api/release';
import type { DrainStatus } from '@brupop/shared/api/shadow';
import type { KubeClient } from '@brupop/shared/kube/client';
import { hasStatus, isDenial } from '@brupop/shared/kube/error';
import { type Events, type EventSource, shadowReference } from '@brupop/shared/kube/events';
import { shadowPath } from '@brupop/shared/kube/paths';
import type { Reflector } from '@brupop/shared/kube/reflector';
import { backoff } from '@brupop/shared/runtime/backoff';
import { type Clock, rfc3339 } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { NodeLog } from '@brupop/shared/runtime/log';
import type { Identity } from '../auth/authenticator.ts';
import { ApiError } from '../errors.ts';
import { RateLimit } from '../http/limits.ts';
import { type Nodes, requireNode } from '../nodes/nodes.ts';
import { requireOwn, slimShadow, type SlimShadow } from './policy.ts';

const FIELD_MANAGER = 'brupop-apiserver';
const DRAIN_MANAGER = 'brupop-apiserver-drain';
const SKEW_MANAGER = 'brupop-apiserver-skew';
const WRITE_ATTEMPTS = 8;
const WRITE_RETRY = { baseMs: 20, capMs: 500 };
/** Kubernetes keeps an Event for an hour. The token is rejected until its pod gets another one. */
const OUTDATED_RATE = { burst: 1, perSecond: 1 / 3_600, keys: 1_000 };
const apiVersion = `${GROUP}/${SHADOW_VERSION}`;

export interface ShadowsOptions {
  readonly client: KubeClient;
  readonly nodes: Nodes;
  readonly events: Pick<Events, 'record'>;
  readonly cache: Pick<Reflector<SlimShadow>, 'get'>;
  readonly namespace: string;
  readonly agentNamespace: string;
  readonly clock: Clock;
  readonly logOf: NodeLog;
}

/** `docs/runbook.md` explains each. */
export const SHADOW_EVENT_REASONS = ['AgentTokenOutdated'] as const;

function outdatedToken(shadow: SlimShadow, identity: Identity, namespace: string): EventSource {
  const { node, nodeUID = '?', podName, podUID } = identity;
  const what = `The token of pod ${podName} is for an earlier Node ${node} with the UID ${nodeUID}: the Node was created again while the pod ran`;
  const next = `Delete the pod: kubectl delete pod -n ${namespace} ${podName}`;
  const [reason] = SHADOW_EVENT_REASONS;
  return {
    reason,
    warning: true,
    about: shadowReference(shadow),
    message: `${what}. ${next}`,
    key: podUID,
    isMinor: true,
  };
}

interface StatusWrite {
  readonly node: string;
  readonly uid: string;
  readonly manager: string;
  readonly status: object;
  /** Throws ApiError when the shadow is not the one to write. */
  readonly check: (shadow: SlimShadow) => void;
}

export class Shadows {
  readonly #options: ShadowsOptions;
  /** Events for outdated tokens, by the UIDs of pods. */
  readonly #outdated: RateLimit;

  constructor(options: ShadowsOptions) {
    this.#options = options;
    this.#outdated = new RateLimit(options.clock, OUTDATED_RATE);
  }

  /** Throws KubeError. */
  async find(node: string, signal: AbortSignal): Promise<SlimShadow | undefined> {
    const found = await this.#options.client.find<object>(this.#path(node), signal);
    return found && slimShadow(found);
  }

  /** Returns the shadow from the watch cache. */
  cached(node: string): SlimShadow | undefined {
    const { cache, namespace } = this.#options;
    return cache.get(shadowName(node), namespace);
  }

  /** As `find`. Throws also ApiError `NotFound`. */
  async read(node: string, signal: AbortSignal): Promise<SlimShadow> {
    const shadow = await this.find(node, signal);
    if (shadow === undefined) throw new ApiError('NotFound', `${shadowName(node)} does not exist`);
    return shadow;
  }

  /**
   * Returns the shadow of the live Node, which the controller creates. Throws KubeError, and ApiError
   * `NotFound` or `Forbidden` when the Node does not exist or is not managed, `NotFound` when it has no
   * shadow yet, and `Conflict` when the shadow belongs to an earlier Node of that name.
   */
  async ofNode(identity: Identity, signal: AbortSignal): Promise<SlimShadow> {
    const { nodes, events } = this.#options;
    const { nodeUID, ...byName } = identity;
    const node = await nodes.readManaged(byName, signal);
    const shadow = await this.find(identity.node, signal);
    const isOutdated = nodeUID !== undefined && nodeUID !== node.metadata.uid;
    if (isOutdated && shadow !== undefined && this.#outdated.take(identity.podUID))
      events.record(outdatedToken(shadow, identity, this.#options.agentNamespace));
    requireNode(node, identity);
    const name = shadowName(identity.node);
    if (shadow === undefined)
      throw new ApiError('NotFound', `${name} does not exist yet; the controller creates it, retry`);
    if (shadow.nodeUID === node.metadata.uid) return shadow;
    throw new ApiError('Conflict', `${name} belongs to an earlier Node; the controller replaces it, retry`);
  }

  /**
   * Writes what the agent reports. The same report again changes nothing. Throws KubeError, and
   * ApiError `SpecChanged` when the report is for another shadow of that name, `NotFound` when
   * there is none, `BadRequest` when the CRD's schema rejects it.
   */
  async writeStatus(identity: Identity, report: StatusReport, signal: AbortSignal): Promise<SlimShadow> {
    // An explicit null also clears a failure time that an older release has written.
    const { state_transition_failure_timestamp: failedAt = null } = report.status;
    const status = { ...report.status, state_transition_failure_timestamp: failedAt };
    const { node } = identity;
    const check = (shadow: SlimShadow): void => requireOwn(shadow, identity);
    const before = this.cached(node)?.status?.current_state;
    const log = this.#options.logOf(node);
    const written = await this.#write({ node, uid: report.shadowUID, manager: FIELD_MANAGER, status, check }, signal);
    const { current_state: state, current_version: running, lastOperation: step } = status;
    const fields = { state, running, step: step?.operation, result: step?.state, code: step?.errorCode };
    log[state === before ? 'debug' : 'info']('the agent reports its state', fields);
    return written;
  }

  /**
   * Writes the progress of a drain. Throws as `writeStatus` does, and `SpecChanged` when the spec
   * has another generation.
   */
  async writeDrain(
    { node, uid, generation }: { readonly node: string; readonly uid: string; readonly generation?: number },
    drain: DrainStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const check = (shadow: SlimShadow): void => requireGeneration(shadow, generation);
    await this.#write({ node, uid, manager: DRAIN_MANAGER, status: { drain }, check }, signal);
  }

  /**
   * Writes the condition `AgentSupported` of an agent that is not, and removes it when the agent is.
   * Never throws: the agent tries again with its next stream.
   */
  async recordSkew(
    identity: Identity,
    found: SlimShadow,
    { skew, signal }: { readonly skew: AgentSkew | undefined; readonly signal: AbortSignal },
  ): Promise<void> {
    const { clock, logOf } = this.#options;
    const { node } = identity;
    if (found.agentSupported?.message === skew?.message) return;
    const status = { conditions: conditionsOf(skew, found.agentSupported, clock.now()) };
    const check = (shadow: SlimShadow): void => requireOwn(shadow, identity);
    try {
      await this.#write({ node, uid: found.metadata.uid, manager: SKEW_MANAGER, status, check }, signal);
      if (skew !== undefined) logOf(node).warn('agent of an unsupported release', { message: skew.message });
    } catch (error) {
      logOf(node).warn('the condition AgentSupported was not written', { error: messageOf(error) });
    }
  }

  async #write(write: StatusWrite, signal: AbortSignal): Promise<SlimShadow> {
    const { node } = write;
    const { clock } = this.#options;
    const retry = backoff(WRITE_RETRY);
    const cached = this.cached(node);
    let shadow = cached !== undefined && rejectionOf(write, cached) === undefined ? cached : undefined;
    for (let attempt = 1; ; attempt += 1) {
      shadow ??= await this.read(node, signal);
      const rejection = rejectionOf(write, shadow);
      if (rejection !== undefined) throw rejection;
      try {
        return slimShadow(await this.#applyStatus(write, shadow.metadata.resourceVersion, signal));
      } catch (error) {
        if (!hasStatus(error, 409) || attempt === WRITE_ATTEMPTS) throw writeError(node, error);
      }
      shadow = undefined;
      await clock.sleep(retry.next(), signal);
    }
  }

  /** The resourceVersion stands for the UID, which is not compared on apply (seen on 1.36). */
  #applyStatus({ node, status, manager }: StatusWrite, resourceVersion: string, signal: AbortSignal): Promise<unknown> {
    const metadata = { name: shadowName(node), resourceVersion };
    const body = { apiVersion, kind: SHADOW_KIND, metadata, status };
    const options = { fieldManager: manager, signal };
    return this.#options.client.apply(this.#path(node, 'status'), body, options);
  }

  #path(node: string, subresource?: string): string {
    return shadowPath({ namespace: this.#options.namespace, name: shadowName(node), subresource });
  }
}

function rejectionOf({ uid, check }: StatusWrite, shadow: SlimShadow): unknown {
  try {
    check(shadow);
  } catch (error) {
    return error;
  }
  const { name, uid: found } = shadow.metadata;
  return found === uid ? undefined : new ApiError('SpecChanged', `${name} is ${found}, the report is for ${uid}`);
}

function requireGeneration({ metadata }: SlimShadow, generation: number | undefined): void {
  if (generation === undefined || generation === metadata.generation) return;
  const found = `generation ${metadata.generation ?? 0}`;
  throw new ApiError('SpecChanged', `${metadata.name}: expected generation ${generation}, found ${found}`);
}

function conditionsOf(skew: AgentSkew | undefined, former: Condition | undefined, now: number): Condition[] {
  if (skew === undefined) return [];
  const lastTransitionTime = former?.lastTransitionTime ?? rfc3339(now);
  return [{ type: AGENT_SUPPORTED, status: 'False', ...skew, lastTransitionTime }];
}

function writeError(node: string, error: unknown): unknown {
  const name = shadowName(node);
  if (isDenial(error)) return error;
  if (hasStatus(error, 404)) return new ApiError('NotFound', `${name} does not exist`);
  if (hasStatus(error, 422) || hasStatus(error, 400)) return new ApiError('BadRequest', `${name}: ${error.message}`);
  return error;
}
