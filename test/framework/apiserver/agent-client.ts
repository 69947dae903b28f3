import { Agent, request } from 'undici';
import { type AgentAction, agentPath, type StreamMessage } from '../../../packages/shared/src/api/agent-protocol.ts';

export interface Answer<T = unknown> {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: T;
  /** The code of an ApiErrorBody. */
  readonly code: string | undefined;
}

/** An open stream and its messages so far. */
export interface Stream {
  readonly status: number;
  readonly messages: readonly StreamMessage[];
  /** Resolves when the server has closed it. */
  readonly closed: Promise<void>;
  close(): void;
}

export interface CallOptions {
  readonly token?: string | undefined;
  readonly body?: unknown;
  /** A body as it is. */
  readonly raw?: string;
}

export interface Caller {
  readonly node: string;
  readonly token: string;
}

/** Plain calls of the agent protocol, without the decisions of an agent. */
export interface AgentClient {
  call<T>(method: string, path: string, options?: CallOptions): Promise<Answer<T>>;
  /** Calls an action on a node. */
  act<T>(agent: Caller, action: AgentAction, body?: unknown): Promise<Answer<T>>;
  /** Opens a stream, as an agent of this release if one is given. */
  stream(agent: Caller, release?: string): Promise<Stream>;
  /** Resolves when all answers have been read. */
  close(): Promise<void>;
  /** Closes all connections at once: no call gets an answer. */
  destroy(): Promise<void>;
}

const methods: Readonly<Record<AgentAction, string>> = {
  shadow: 'PUT',
  'shadow/stream': 'GET',
  'shadow/status': 'PUT',
  'load-balancer-exclusion': 'POST',
  drain: 'POST',
  restore: 'POST',
};

/** Connects to an apiserver on loopback. */
export function connectAgent(port: number, ca: string): AgentClient {
  const dispatcher = new Agent({ connect: { ca } });
  const origin = `https://127.0.0.1:${port}`;
  const call: AgentClient['call'] = async (method, path, options = {}) => {
    const response = await request(`${origin}${path}`, { method, dispatcher, ...messageOf(options) });
    const { statusCode: status, headers } = response;
    const body = JSON.parse(await response.body.text()) as { error?: { code?: string } };
    return { status, headers, body: body as never, code: body.error?.code };
  };
  return {
    call,
    act: async <T>({ node, token }: Caller, action: AgentAction, body?: unknown) =>
      await call<T>(methods[action], agentPath(node, action), { token, body }),
    stream: async ({ node, token }, release) => {
      const abort = new AbortController();
      const { signal } = abort;
      const userAgent = release === undefined ? {} : { 'user-agent': `brupop-agent/${release}` };
      const headers = { authorization: `Bearer ${token}`, ...userAgent };
      const response = await request(`${origin}${agentPath(node, 'shadow/stream')}`, { dispatcher, headers, signal });
      const messages: StreamMessage[] = [];
      const closed = collect(response.body, messages).catch(() => undefined);
      return { status: response.statusCode, messages, closed, close: () => abort.abort() };
    },
    close: async () => await dispatcher.close(),
    destroy: async () => await dispatcher.destroy(),
  };
}

function messageOf({ token, body, raw }: CallOptions): {
  headers: Record<string, string>;
  body: string | null;
  signal: AbortSignal;
} {
  const text = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(text === undefined ? {} : { 'content-type': 'application/json' }),
  };
  return { headers, body: text ?? null, signal: AbortSignal.timeout(30_000) };
}

async function collect(body: AsyncIterable<unknown>, messages: StreamMessage[]): Promise<void> {
  let rest = '';
  for await (const chunk of body) {
    const lines = (rest + String(chunk)).split('\n');
    rest = lines.pop() ?? '';
    messages.push(...lines.map((line) => JSON.parse(line) as StreamMessage));
  }
}
