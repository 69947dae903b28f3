/**
 * What each call of the agent protocol does. app.ts calls these methods once the caller is
 * authenticated and within its rate, with a signal that ends them in time, and answers with what they return.
 *
 * - A call acts on the node of the caller's token only.
 * - Calls that disturb the node (`exclude`, `drain`) need the permission of the live spec; the others
 *   report, or remove what the operator has set.
 */
import type { Response } from 'express';
import {
  type AgentShadow,
  type DrainResult,
  type ExclusionResult,
  type RestoreResult,
  specReference,
  statusReport,
} from '@brupop/shared/api/agent-protocol';
import { agentSkew, buildIn } from '@brupop/shared/api/release';
import type { Identity } from './auth/authenticator.ts';
import type { Drainer } from './drain/drainer.ts';
import type { Settings } from './drain/settings.ts';
import { readAs } from './http/call.ts';
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

interface Parts {
  readonly shadows: Shadows;
  readonly hub: StreamHub;
  readonly nodes: Nodes;
  readonly drainer: Drainer;
  readonly settings: Settings;
}

export class Routes {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** PUT shadow */
  async shadow({ identity, signal }: Call): Promise<AgentShadow> {
    return agentShadow(await this.#parts.shadows.ofNode(identity, signal));
  }

  /**
   * GET shadow/stream. Opens the stream, then records whether the agent's release is supported: an
   * agent opens a stream when it starts, and with each replica that serves it later.
   */
  async stream({ identity, userAgent, signal, response }: Call): Promise<void> {
    const { shadows, hub } = this.#parts;
    const found = shadows.cached(identity.node) ?? (await shadows.find(identity.node, signal));
    signal.throwIfAborted();
    hub.open(identity, response, found, buildIn(userAgent));
    if (found !== undefined) await shadows.recordSkew(identity, found, { skew: agentSkew(userAgent), signal });
  }

  /** PUT shadow/status */
  async status({ identity, body, signal }: Call): Promise<AgentShadow> {
    const report = readAs(statusReport, body);
    return agentShadow(await this.#parts.shadows.writeStatus(identity, report, signal));
  }

  /** POST load-balancer-exclusion */
  async exclude(call: Call): Promise<ExclusionResult> {
    const { nodes, settings } = this.#parts;
    const { group } = await this.#requireReboot(call);
    const { exclusionMs } = settings.ofGroup(group);
    return { remainingMs: await nodes.exclude(call.identity, exclusionMs, call.signal) };
  }

  /** POST drain */
  async drain(call: Call): Promise<DrainResult> {
    const { identity, signal } = call;
    return this.#parts.drainer.pass({ identity, shadow: await this.#requireReboot(call), signal });
  }

  /** POST restore */
  async restore({ identity, signal }: Call): Promise<RestoreResult> {
    const { nodes, shadows, drainer } = this.#parts;
    const result = await nodes.restore(identity, signal);
    const shadow = shadows.cached(identity.node);
    if (shadow !== undefined) await drainer.cancel({ identity, shadow, signal });
    return result;
  }

  /** Reads the spec live: the cache may still have one that the controller has revoked. */
  async #requireReboot({ identity, body, signal }: Call): Promise<SlimShadow> {
    const reference = readAs(specReference, body);
    const shadow = await this.#parts.shadows.read(identity.node, signal);
    requireOwn(shadow, identity);
    requireReboot(shadow, reference);
    return shadow;
  }
}
