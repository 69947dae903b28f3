import { isDeepStrictEqual } from 'node:util';
import { readAs } from '../../../../packages/apiserver/src/http/call.ts';
import { API_ERROR_CODES, statusReport } from '../../../../packages/shared/src/api/agent-protocol.ts';
import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
} from '../../../../packages/shared/src/api/names.ts';
import type { BottlerocketShadow } from '../../../../packages/shared/src/api/shadow.ts';
import type { Connection } from '../../control-plane/connection.ts';
import type { Agent } from '../cluster.ts';
import { ensureShadow, idleStatus, shadowPath } from '../shadow.ts';
import type { Json } from '../tokens.ts';
import { openWire, type Wire, type WireAnswer } from '../wire.ts';
import type { BodyCase } from './bodies.ts';

const OWNED_KEYS: readonly string[] = [CORDONED_ANNOTATION, EXCLUDED_ANNOTATION, EXCLUSION_LABEL];

interface LiveNode {
  readonly spec: Json;
  readonly metadata: { readonly labels?: Json; readonly annotations?: Json };
}

/** A valid report with every field. */
export function fullReport(shadowUID: string): Json {
  const operation = {
    operation: 'Drain',
    state: 'Failed',
    version: '1.21.0',
    bootID: 'b-1',
    startTime: '2026-01-02T03:04:05Z',
    lastUpdateTime: '2026-01-02T03:04:05.123456+01:00',
    errorCode: 'DrainTimedOut',
    message: 'a pod stayed',
  };
  const status = idleStatus({ lastOperation: operation as never, state_transition_failure_timestamp: null });
  return { shadowUID, status };
}

/** An agent whose calls are generated, and the state of its node in the cluster. */
export class Subject {
  readonly agent: Agent;
  readonly shadowUID: string;
  /** Problems found: each names a request and what is wrong with its answer or its effect. */
  readonly problems: string[] = [];
  written = 0;
  readonly #cluster: Connection;
  readonly #namespace: string;
  readonly #open: () => Promise<Wire>;
  #wire: Wire | undefined;
  #shadow: BottlerocketShadow;

  private constructor(from: {
    cluster: Connection;
    namespace: string;
    agent: Agent;
    open: () => Promise<Wire>;
    shadow: BottlerocketShadow;
  }) {
    this.agent = from.agent;
    this.#cluster = from.cluster;
    this.#namespace = from.namespace;
    this.#open = from.open;
    this.#shadow = from.shadow;
    this.shadowUID = from.shadow.metadata.uid;
  }

  /** Creates the agent's shadow, and reads it as the agent does. */
  static async make(
    cluster: Connection,
    namespace: string,
    agent: Agent,
    to: { port: number; ca: string; localAddress: string },
  ): Promise<Subject> {
    const open = (): Promise<Wire> => openWire(to, to.localAddress);
    await ensureShadow(cluster, namespace, agent.node);
    const wire = await open();
    wire.socket.write(requestOf(agent, 'PUT', 'shadow', { kind: '', body: Buffer.alloc(0) }));
    const [answer] = await wire.until(1);
    wire.socket.destroy();
    if (answer?.status !== 200) throw new Error(`PUT shadow: ${answer?.status} ${answer?.body}`);
    const shadow = await cluster.api.get<BottlerocketShadow>(shadowPath(namespace, agent.node));
    return new Subject({ cluster, namespace, agent, open, shadow });
  }

  /** Sends a body and checks the response and the shadow. */
  async body(method: string, action: string, one: BodyCase): Promise<void> {
    const [answer] = await this.#send(requestOf(this.agent, method, action, one));
    const what = `${method} ${action}, ${one.kind}, ${one.contentType ?? 'no type'}: ${one.body.subarray(0, 300).toString('latin1')}`;
    // Only the schema of the CRD may reject what the reader accepts.
    const taken = action === 'shadow/status' && this.#isReport(one) && answer?.body.includes(': 422 ') !== true;
    this.#check(what, answer, taken ? ['ok'] : ['ok', 'BadRequest', 'TooLarge', 'SpecChanged', 'SpecForbids']);
    const expected = action === 'shadow/status' && answer?.status === 200 ? statusIn(one.body) : undefined;
    await this.#compare(what, expected);
  }

  /** Sends bytes and checks all responses and the shadow. */
  async raw(kind: string, text: string, codes: readonly string[], cut: boolean): Promise<void> {
    const answers = await this.#send(Buffer.from(text, 'latin1'), cut);
    const what = `${kind}: ${text.replace(this.agent.token, 'TOKEN').slice(0, 300)}`;
    this.#check(what, answers[0], codes);
    for (const answer of answers.slice(1)) this.#check(`${what} (next)`, answer, [...API_ERROR_CODES, 'ok']);
    const whole = codes.includes('ok') ? statusIn(Buffer.from(JSON.stringify(fullReport(this.shadowUID)))) : undefined;
    await this.#compare(what, whole);
    this.close();
  }

  /** True for a complete report on this agent's shadow with the right content type and a length. */
  #isReport({ body, contentType, encoding, chunked }: BodyCase): boolean {
    if (chunked === true || contentType !== 'application/json' || encoding !== undefined || body.length > 64 * 1024)
      return false;
    try {
      return (
        readAs(statusReport, JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))).shadowUID ===
        this.shadowUID
      );
    } catch {
      return false;
    }
  }

  close(): void {
    this.#wire?.socket.destroy();
    this.#wire = undefined;
  }

  /** The operator must own nothing on the Node. */
  async finish(): Promise<void> {
    this.close();
    const { spec, metadata } = await this.#cluster.api.get<LiveNode>(`/api/v1/nodes/${this.agent.node}`);
    const { labels = {}, annotations = {} } = metadata;
    const owned = Object.keys({ ...labels, ...annotations }).filter((key) => OWNED_KEYS.includes(key));
    if (spec['unschedulable'] !== undefined || owned.length > 0)
      this.problems.push(`Node ${this.agent.node} has keys of the operator: ${JSON.stringify({ spec, owned })}`);
  }

  async #send(bytes: Buffer, cut?: boolean): Promise<readonly WireAnswer[]> {
    const wire = (this.#wire ??= await this.#open());
    const before = wire.answers.length;
    wire.socket.write(bytes);
    if (cut === true) wire.socket.end();
    await wire.until(cut === true ? Number.POSITIVE_INFINITY : before + 1, 10_000);
    const answers = wire.answers.slice(before);
    if (wire.socket.readableEnded || wire.socket.destroyed || answers.some(({ closes }) => closes)) this.close();
    return answers;
  }

  #check(what: string, answer: WireAnswer | undefined, codes: readonly string[]): void {
    const { status = 0, code } = answer ?? {};
    const found = answer === undefined ? 'none' : status < 300 ? 'ok' : (code ?? `${status} without a code`);
    if (status >= 500 || !codes.includes(found)) this.problems.push(`${found} ${status} ${answer?.body} for ${what}`);
  }

  /** Expects an unchanged shadow or, if given, this status. */
  async #compare(what: string, status: Json | undefined): Promise<void> {
    const before = this.#shadow;
    this.#shadow = await this.#cluster.api.get(shadowPath(this.#namespace, this.agent.node));
    if (status === undefined) {
      if (this.#shadow.metadata.resourceVersion !== before.metadata.resourceVersion)
        this.problems.push(`the shadow has changed: ${JSON.stringify(this.#shadow.status)} by ${what}`);
      return;
    }
    this.written += 1;
    if (!isDeepStrictEqual(kept(this.#shadow.status), status) || !isDeepStrictEqual(this.#shadow.spec, before.spec))
      this.problems.push(`the shadow is ${JSON.stringify(this.#shadow)} by ${what}`);
  }
}

/**
 * The status of an accepted body, as the Kubernetes API stores it. Throws when the reader rejects
 * the body.
 */
function statusIn(body: Buffer): Json {
  const { status } = readAs(statusReport, JSON.parse(new TextDecoder().decode(body)));
  return kept(status);
}

/** Drops nulls, and replaces lone surrogates by U+FFFD. */
function kept(status: unknown = {}): Json {
  const text = JSON.stringify(status, (_key, value: unknown) => {
    if (typeof value === 'string') return value.toWellFormed();
    return value ?? undefined;
  });
  return JSON.parse(text) as Json;
}

function requestOf({ node, token }: Agent, method: string, action: string, one: BodyCase): Buffer {
  const { body, contentType, encoding, chunked = false } = one;
  const lines = [
    `${method} /v1/nodes/${node}/${action} HTTP/1.1`,
    'host: x',
    `authorization: Bearer ${token}`,
    ...(contentType === undefined ? [] : [`content-type: ${contentType}`]),
    ...(encoding === undefined ? [] : [`content-encoding: ${encoding}`]),
    chunked ? 'transfer-encoding: chunked' : `content-length: ${body.length}`,
  ];
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`);
  return Buffer.concat([head, ...(chunked ? chunksOf(body) : [body])]);
}

function chunksOf(body: Buffer): Buffer[] {
  const size = 20_000;
  const parts = Array.from({ length: Math.ceil(body.length / size) }, (_, index) =>
    body.subarray(index * size, (index + 1) * size),
  );
  return [...parts, Buffer.alloc(0)].flatMap((part) => [
    Buffer.from(`${part.length.toString(16)}\r\n`),
    part,
    Buffer.from('\r\n'),
  ]);
}
