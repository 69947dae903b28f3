/**
 * What each call of the agent protocol does. app.ts calls these methods once the caller is
 * authenticated and within its rate, with a signal that ends them in time.
 *
 * - A call acts on the node of the caller's token only.
 * - Calls that disturb the node (`exclude`, `drain`) need the permission of the live spec; the others
 *   report, or remove what the operator has set.
 */
import type { Response } from 'express';
import {
  type DrainResult,
  type ExclusionResult,
  type RestoreResult,
  specReference,
  type SpecReference,
  statusReport,
} from '@brupop/shared/api/agent-protocol';
import { agentSkew, buildIn } from '@brupop/shared/api/release';
import type { Identity } from './auth/authenticator.ts';
import type { Drainer } from './drain/drainer.ts';
import type { Settings } from './drain/settings.ts';
import { answer, readAs } from './http/call.ts';
import type { Nodes } from './nodes/nodes.ts';
import { agentShadow, requireOwn, requireReboot, type SlimShadow } from './shadows/policy.ts';
import type { Shadows } from './shadows/shadows.ts';
import type { StreamHub } from './shadows/streams.ts';

export interface Call {
  readonly identity: Identity;
  /** Parsed JSON, not validated. */
  readonly body: unknown;
  readonly userAgent: string | undefined;
  /** Aborts at the limit of the call, when the agent disconnects, or when the process stops. */
  readonly signal: AbortSignal;
  readonly response: Response;
}

export interface RoutesOptions {
  readonly shadows: Shadows;
  readonly hub: StreamHub;
  readonly nodes: Nodes;
  readonly drainer: Drainer;
  readonly settings: Settings;
}

export class Routes {
  readonly #options: RoutesOptions;

  constructor(options: RoutesOptions) {
    this.#options = options;
  }

  /** Resolves when no eviction is in flight, which may be after its call has ended. */
  async settled(): Promise<void> {
    await this.#options.drainer.settled();
  }

  /** PUT shadow */
  async shadow({ identity, signal, response }: Call): Promise<void> {
    answer(response, 200, agentShadow(await this.#options.shadows.ofNode(identity, signal)));
  }

  /**
   * GET shadow/stream. Opens the stream, then records whether the agent's release is supported: an
   * agent opens a stream when it starts, and with each replica that serves it later.
   */
  async stream({ identity, userAgent, signal, response }: Call): Promise<void> {
    const { shadows, hub } = this.#options;
    const found = shadows.cached(identity.node) ?? (await shadows.find(identity.node, signal));
    signal.throwIfAborted();
    hub.open(identity, response, found, buildIn(userAgent));
    if (found !== undefined) await shadows.recordSkew(identity, found, { skew: agentSkew(userAgent), signal });
  }

  /** PUT shadow/status */
  async status({ identity, body, signal, response }: Call): Promise<void> {
    const report = readAs(statusReport, body);
    const shadow = await this.#options.shadows.writeStatus(identity, report, signal);
    answer(response, 200, agentShadow(shadow));
  }

  /** POST load-balancer-exclusion */
  async exclude(call: Call): Promise<void> {
    const { group } = await this.#requireReboot(call, readAs(specReference, call.body));
    const { nodes, settings } = this.#options;
    const { exclusionMs } = settings.ofGroup(group);
    const result: ExclusionResult = { remainingMs: await nodes.exclude(call.identity, exclusionMs, call.signal) };
    answer(call.response, 200, result);
  }

  /** POST drain */
  async drain(call: Call): Promise<void> {
    const { identity, signal, response } = call;
    const shadow = await this.#requireReboot(call, readAs(specReference, call.body));
    const result: DrainResult = await this.#options.drainer.pass({ identity, shadow, signal });
    answer(response, 200, result);
  }

  /** POST restore */
  async restore({ identity, signal, response }: Call): Promise<void> {
    const { nodes, shadows, drainer } = this.#options;
    const result: RestoreResult = await nodes.restore(identity, signal);
    const shadow = shadows.cached(identity.node);
    if (shadow !== undefined) await drainer.cancel({ identity, shadow, signal });
    answer(response, 200, result);
  }

  /** Reads the spec live: the cache may still have one that the controller has revoked. */
  async #requireReboot({ identity, signal }: Call, reference: SpecReference): Promise<SlimShadow> {
    const shadow = await this.#options.shadows.read(identity.node, signal);
    requireOwn(shadow, identity);
    requireReboot(shadow, reference);
    return shadow;
  }
}
