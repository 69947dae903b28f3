/** Malformed answers, and a host and an apiserver that give them. */
import type { Classified, Leaves } from '@brupop/shared/api/settings';
import fc from 'fast-check';
import {
  agentShadow,
  drainResult,
  exclusionResult,
  restoreResult,
  streamMessage,
  type StreamMessage,
} from '@brupop/shared/api/agent-protocol';
import type { Infer, Schema } from '@brupop/shared/api/schema';
import type { ApiserverClient } from '../apiserver/client.ts';
import { readError, readMessage } from '../apiserver/messages.ts';
import { takeBody } from '../host/host-socket.ts';
import {
  type Host,
  type UpdateStatus,
  parseAffectedServices,
  parseSettings,
  parseUpdateStatus,
  parseVersion,
} from '../host/host.ts';
import type { Answer } from '../http/exchange.ts';
import type { FakeHost } from './fake-host.ts';

/** The status of a real host that has staged 1.27.0. */
export const STATUS = {
  update_state: 'Staged',
  available_updates: ['1.27.0', '1.26.0'],
  chosen_update: { arch: 'x86_64', version: '1.27.0', variant: 'aws-k8s-1.31' },
  active_partition: { image: { arch: 'x86_64', version: '1.26.0', variant: 'aws-k8s-1.31' }, next_to_boot: true },
  staging_partition: { image: { arch: 'x86_64', version: '1.27.0', variant: 'aws-k8s-1.31' }, next_to_boot: false },
  most_recent_command: {
    cmd_type: 'prepare',
    cmd_status: 'Success',
    timestamp: '2026-11-21T11:37:57.109560926Z',
    exit_status: 0,
    stderr: 'Starting update to 1.27.0\n',
  },
};
export const OS = { arch: 'x86_64', build_id: 'b', pretty_name: 'p', variant_id: 'v', version_id: '1.26.0' };
export const SHADOW = {
  uid: 'uid-1',
  generation: 3,
  spec: { state: 'RebootedIntoUpdate', version: '1.27.0', state_transition_timestamp: '2026-11-21T11:37:57Z' },
  status: {
    current_state: 'StagedAndPerformedUpdate',
    current_version: '1.26.0',
    target_version: '1.27.0',
    crash_count: 1,
    state_transition_failure_timestamp: null,
    observedGeneration: 3,
    bootID: 'boot-1',
    lastOperation: {
      operation: 'Drain',
      state: 'Processing',
      version: '1.27.0',
      bootID: 'boot-1',
      startTime: '2026-11-21T11:37:57Z',
      lastUpdateTime: '2026-11-21T11:37:57Z',
    },
  },
};

/** Values that are invalid in any field. */
const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(null, undefined, '', 0, -1, 1.5, 1e300, true, false, [], {}, [null], 'v1.27.0', 'latest'),
  fc.constantFrom<unknown>(`1.2.3-${'a'.repeat(200)}`, ' 1.27.0', '1.27.0\n', 'x'.repeat(100_000), ' '.repeat(200_000)),
  fc.constantFrom<unknown>('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '2026-11-21T11:37:57,5z', 'Ready', 'idle'),
  fc.constantFrom<unknown>({ toString: 1 }, { __proto__: null }, [['a']], '\u0000', '\uD800'),
  fc.jsonValue({ maxDepth: 3 }),
);

/** `value` with one of its fields, however deep, replaced, left out or joined by an unknown one. */
function mutated(value: unknown): fc.Arbitrary<unknown> {
  if (typeof value !== 'object' || value === null) return odd;
  const entries = Object.entries(value);
  const inside = entries.map(([key, one]) =>
    fc.tuple(fc.boolean(), fc.oneof(odd, mutated(one))).map(([gone, other]) => {
      const kept = entries.filter(([name]) => name !== key || !gone);
      return Object.fromEntries(kept.map(([name, old]) => [name, name === key ? other : old]));
    }),
  );
  const more = fc.tuple(fc.string(), odd).map(([key, one]) => ({ ...value, [key]: one }));
  return entries.length === 0 ? odd : fc.oneof(more, odd, ...inside);
}

const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
const text: fc.Arbitrary<string> = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '',
    'null',
    '{',
    '[]',
    '{}',
    '<html><body>502 Bad Gateway</body></html>',
    deep,
    `{"version_id":${deep}}`,
  ),
  fc.uint8Array({ maxLength: 2000 }).map((bytes) => Buffer.from(bytes).toString('utf8')),
);
/** A body: any text, or `value` as JSON with a mutation, or truncated. */
export function body(value: unknown): fc.Arbitrary<string> {
  const wrong = mutated(value).map((one) => JSON.stringify(one) ?? '');
  const cut = fc.nat(JSON.stringify(value).length).map((length) => JSON.stringify(value).slice(0, length));
  return fc.oneof({ weight: 4, arbitrary: wrong }, { weight: 1, arbitrary: cut }, { weight: 1, arbitrary: text });
}

/** Malformed answers, given one after the other. */
export type MalformedAnswers = readonly Answer[];
const strange = fc.constantFrom(200, 204, 301, 302, 400, 404, 418, 429, 500, 502, 503);
export const malformedAnswers: fc.Arbitrary<MalformedAnswers> = fc.array(
  fc.oneof(
    fc.record({
      status: fc.constantFrom(200, 204),
      body: fc.oneof(
        text,
        mutated(STATUS).map((one) => JSON.stringify(one) ?? ''),
      ),
    }),
    fc.record({ status: strange, body: text }),
  ),
  { minLength: 1, maxLength: 8 },
);

/** A host whose answers are malformed while there are any; requests then have an effect or not. */
export class MalformedHost implements Host {
  malformed: MalformedAnswers = [];
  /** Requests that got a malformed answer. */
  readonly asked: string[] = [];
  readonly #host: FakeHost;
  #next = 0;

  constructor(host: FakeHost) {
    this.#host = host;
  }

  bootID = async (): Promise<string> => this.#host.bootID();

  async version(signal: AbortSignal): Promise<string> {
    const { malformed } = this;
    return malformed.length === 0 ? this.#host.version(signal) : parseVersion(this.#malformedBody('GET /os'));
  }

  async updateStatus(): Promise<UpdateStatus> {
    return this.malformed.length === 0
      ? this.#host.updateStatus()
      : parseUpdateStatus(this.#malformedBody('GET /updates/status'));
  }

  async start(command: Parameters<Host['start']>[0]): Promise<void> {
    if (this.malformed.length === 0) return this.#host.start(command);
    this.asked.push(command);
    this.#malformedBody(`POST ${command}`);
    return undefined;
  }

  uptimeMs = (): number => this.#host.uptimeMs();

  async settings(keys: readonly string[]): Promise<Leaves> {
    if (this.malformed.length === 0) return this.#host.settings(keys);
    return parseSettings(this.#malformedBody('GET /settings'), keys);
  }

  async classify(changes: Leaves): Promise<ReadonlyMap<string, Classified>> {
    if (this.malformed.length === 0) return this.#host.classify(changes);
    parseAffectedServices(this.#malformedBody('GET /metadata/affected-services'));
    return new Map();
  }

  async changeSettings(changes: Leaves): Promise<void> {
    if (this.malformed.length === 0) return this.#host.changeSettings(changes);
    this.#malformedBody('PATCH /settings');
    return undefined;
  }

  async reboot(): Promise<void> {
    if (this.malformed.length > 0) this.asked.push('reboot');
    await this.#host.reboot();
  }

  #malformedBody(call: string): string {
    const answer = this.malformed[this.#next % this.malformed.length] ?? { status: 500, body: '' };
    this.#next += 1;
    return takeBody(call, answer);
  }
}

/** An apiserver whose answers are malformed while there are any. */
export class MalformedApi implements ApiserverClient {
  malformed: MalformedAnswers = [];
  readonly #api: ApiserverClient;
  #next = 0;

  constructor(api: ApiserverClient) {
    this.#api = api;
  }

  unreachableMs = (): number => 0;
  read: ApiserverClient['read'] = async (signal) => this.#or(() => this.#api.read(signal), agentShadow);
  report: ApiserverClient['report'] = async (body, signal) =>
    this.#or(() => this.#api.report(body, signal), agentShadow);
  exclude: ApiserverClient['exclude'] = async (body, signal) =>
    this.#or(() => this.#api.exclude(body, signal), exclusionResult);
  drain: ApiserverClient['drain'] = async (body, signal) => this.#or(() => this.#api.drain(body, signal), drainResult);
  restore: ApiserverClient['restore'] = async (signal) => {
    await this.#or(() => this.#api.restore(signal), restoreResult);
  };

  async *stream(signal: AbortSignal): AsyncGenerator<StreamMessage> {
    while (this.malformed.length > 0) {
      yield readMessage(streamMessage, this.#answer());
    }
    for await (const message of this.#api.stream(signal)) {
      yield this.malformed.length > 0 ? readMessage(streamMessage, this.#answer()) : message;
    }
  }

  async #or<S extends Schema, T>(call: () => Promise<T>, schema: S): Promise<T | Infer<S>> {
    return this.malformed.length === 0 ? call() : readMessage(schema, this.#answer());
  }

  #answer(): string {
    const answer = this.malformed[this.#next % this.malformed.length] ?? { status: 500, body: '' };
    this.#next += 1;
    if (answer.status >= 200 && answer.status < 300) return answer.body;
    throw readError('call', answer.status, answer.body);
  }
}
