import { readFileSync } from 'node:fs';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { type Agent, request } from 'node:https';
import {
  type AgentAction,
  agentPath,
  type AgentShadow,
  agentShadow,
  type DrainResult,
  drainResult,
  type ExclusionResult,
  exclusionResult,
  restoreResult,
  type SpecReference,
  type StatusReport,
  type StreamMessage,
  streamMessage,
} from '@brupop/shared/api/agent-protocol';
import {
  CALL_LIMIT_MS,
  DRAIN_CALL_LIMIT_MS,
  RESTORE_CALL_LIMIT_MS,
  STREAM_INACTIVITY_MS,
} from '@brupop/shared/api/deadlines';
import { type HostCalls, hostCallsHeader } from '@brupop/shared/api/host-calls';
import { AGENT_USER_AGENT } from '@brupop/shared/api/release';
import type { Infer, Schema } from '@brupop/shared/api/schema';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import { type Answer, bodyOf, exchange, responseOf } from '../http/exchange.ts';
import { Authorities } from './authorities.ts';
import { Connections } from './connections.ts';
import { ApiError, readError, readMessage } from './messages.ts';

const MAX_LINE_CHARS = 1024 * 1024;
/** The agent's calls of the apiserver. Each throws ApiError. */
export interface ApiserverClient {
  /** Reads the shadow. `NotFound` until the controller has created it. */
  read(signal: AbortSignal): Promise<AgentShadow>;
  /** Yields the shadow, then every change. Throws after STREAM_INACTIVITY_MS without a message. */
  stream(signal: AbortSignal): AsyncIterable<StreamMessage>;
  /** Writes the status. Returns the shadow after the write, which may have a newer spec. */
  report(report: StatusReport, signal: AbortSignal): Promise<AgentShadow>;
  exclude(reference: SpecReference, signal: AbortSignal): Promise<ExclusionResult>;
  drain(reference: SpecReference, signal: AbortSignal): Promise<DrainResult>;
  restore(signal: AbortSignal): Promise<void>;
  /** Milliseconds since the last answer that was not a rejection of the agent's identity. */
  unreachableMs(): number;
}

export interface ApiserverEndpoint {
  readonly host: string;
  readonly port: number;
  /** Name that the certificate must carry. */
  readonly serverName: string;
  readonly tokenFile: string;
  readonly caFile: string;
}

interface ApiserverClientOptions {
  readonly node: string;
  readonly apiserver: ApiserverEndpoint;
  readonly clock: Clock;
  readonly log: Logger;
  /** What is reported of the calls of the host. */
  readonly hostCalls?: HostCalls;
}

interface Call {
  readonly method: 'GET' | 'PUT' | 'POST';
  readonly action: AgentAction;
  readonly body?: unknown;
  readonly limitMs?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Reads token and authorities again while it runs, since both are rotated. */
export class HttpApiserverClient implements ApiserverClient {
  readonly #options: ApiserverClientOptions;
  readonly #authorities: Authorities;
  readonly #connections: Connections;
  #answeredAt: number;

  constructor(options: ApiserverClientOptions) {
    this.#options = options;
    const { clock, log, apiserver } = options;
    this.#connections = new Connections({ clock, log });
    this.#authorities = new Authorities({ file: apiserver.caFile, clock, log });
    this.#answeredAt = options.clock.monotonic();
  }

  unreachableMs(): number {
    return this.#options.clock.monotonic() - this.#answeredAt;
  }

  async read(signal: AbortSignal): Promise<AgentShadow> {
    return this.#call(agentShadow, { method: 'PUT', action: 'shadow', signal });
  }

  async report(report: StatusReport, signal: AbortSignal): Promise<AgentShadow> {
    const call = { method: 'PUT', action: 'shadow/status', body: report, signal } as const;
    const shadow = await this.#withHostCalls(async (headers) => this.#call(agentShadow, { ...call, headers }));
    if (shadow.uid === report.shadowUID) return shadow;
    throw new ApiError('Unintelligible', `PUT shadow/status: expected shadow ${report.shadowUID}, found ${shadow.uid}`);
  }

  async exclude(reference: SpecReference, signal: AbortSignal): Promise<ExclusionResult> {
    return this.#call(exclusionResult, { method: 'POST', action: 'load-balancer-exclusion', body: reference, signal });
  }

  async drain(reference: SpecReference, signal: AbortSignal): Promise<DrainResult> {
    const limitMs = DRAIN_CALL_LIMIT_MS;
    return this.#call(drainResult, { method: 'POST', action: 'drain', body: reference, limitMs, signal });
  }

  async restore(signal: AbortSignal): Promise<void> {
    await this.#call(restoreResult, { method: 'POST', action: 'restore', limitMs: RESTORE_CALL_LIMIT_MS, signal });
  }

  async *stream(signal: AbortSignal): AsyncGenerator<StreamMessage> {
    const { hostCalls } = this.#options;
    const counts = hostCalls?.take() ?? new Map<string, number>();
    const call = { method: 'GET', action: 'shadow/stream', headers: hostCallsHeader(counts), signal } as const;
    let isOpen = false;
    const { clock } = this.#options;
    let sent: ClientRequest | undefined;
    let isLate = false;
    const cancel = clock.after(CALL_LIMIT_MS, () => {
      isLate = true;
      sent?.destroy(new Error(`no answer within ${CALL_LIMIT_MS} ms`));
    });
    const open = (): ClientRequest => (sent = this.#request(call, this.#connections.own()));
    try {
      const response = await this.#connections.try({
        open,
        send: (request) => responseOf({ request }),
        isOver: () => isLate || signal.aborted,
      });
      const { statusCode: status = 0 } = response;
      this.#recordAnswer(status);
      if (status !== 200) throw readError('GET shadow/stream', status, await bodyOf(response));
      cancel();
      isOpen = true;
      for await (const line of linesOf(response, clock)) {
        this.#recordAnswer(200);
        yield readMessage(streamMessage, line, 'message');
      }
    } catch (error) {
      throw asApiError('GET shadow/stream', error);
    } finally {
      if (!isOpen) hostCalls?.restore(counts);
      cancel();
      sent?.destroy();
    }
  }

  async #withHostCalls<T>(call: (headers: Record<string, string>) => Promise<T>): Promise<T> {
    const { hostCalls } = this.#options;
    const counts = hostCalls?.take() ?? new Map<string, number>();
    try {
      return await call(hostCallsHeader(counts));
    } catch (error) {
      hostCalls?.restore(counts);
      throw error;
    }
  }

  async #call<S extends Schema>(schema: S, call: Call): Promise<Infer<S>> {
    const name = `${call.method} ${call.action}`;
    const answer = await this.#exchange(call).catch((error: unknown) => {
      throw asApiError(name, error);
    });
    this.#recordAnswer(answer.status);
    if (answer.status >= 200 && answer.status < 300) return readMessage(schema, answer.body);
    const error = readError(name, answer.status, answer.body);
    if (error.code === 'Unavailable') this.#connections.leaveReplica();
    throw error;
  }

  async #exchange(call: Call): Promise<Answer> {
    const { clock } = this.#options;
    const { limitMs = CALL_LIMIT_MS, signal } = call;
    const endsAt = clock.monotonic() + limitMs;
    const leftMs = (): number => endsAt - clock.monotonic();
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    return this.#connections.try({
      open: () => this.#request(call, this.#connections.kept),
      send: (request) => exchange({ request, body }, leftMs(), clock),
      isOver: () => signal.aborted || leftMs() <= 0,
    });
  }

  #request({ method, action, headers = {}, signal }: Call, agent: Agent): ClientRequest {
    const { node, apiserver } = this.#options;
    return request({
      host: apiserver.host,
      port: apiserver.port,
      servername: apiserver.serverName,
      ca: this.#authorities.bundle(),
      method,
      path: agentPath(node, action),
      headers: {
        authorization: `Bearer ${readFileSync(apiserver.tokenFile, 'utf8').trim()}`,
        'user-agent': AGENT_USER_AGENT,
        ...headers,
      },
      agent,
      signal,
    });
  }

  #recordAnswer(status: number): void {
    if (status !== 401 && status !== 403) this.#answeredAt = this.#options.clock.monotonic();
  }
}

function asApiError(call: string, error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError('Unreachable', call, { cause: error });
}

/** Throws on a line that is too long, and after STREAM_INACTIVITY_MS without a line. */
async function* linesOf(response: IncomingMessage, clock: Clock): AsyncGenerator<string> {
  response.setEncoding('utf8');
  const watch = (): (() => void) =>
    clock.after(STREAM_INACTIVITY_MS, () => response.destroy(new Error(`no message for ${STREAM_INACTIVITY_MS} ms`)));
  let cancel = watch();
  let rest = '';
  try {
    for await (const chunk of response as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      if (lines.length > 0) {
        cancel();
        cancel = watch();
      }
      if (rest.length > MAX_LINE_CHARS) throw new ApiError('Unintelligible', 'a line of the stream is too long');
      yield* lines.filter((line) => line !== '');
    }
  } finally {
    cancel();
  }
}
