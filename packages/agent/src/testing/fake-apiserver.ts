import type {
  AgentShadow,
  DrainResult,
  ExclusionResult,
  SpecReference,
  StatusReport,
  StreamMessage,
} from '@brupop/shared/api/agent-protocol';
import type { AgentStatus, ShadowSpec } from '@brupop/shared/api/shadow';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { ApiserverClient } from '../apiserver/client.ts';
import { ApiError } from '../apiserver/messages.ts';

export type ApiCall = 'read' | 'stream' | 'report' | 'exclude' | 'drain' | 'restore';

const DRAINED: DrainResult = { done: true, evicted: 0, remaining: 0, blockedBy: [] };

/** The apiserver's side of the contract in memory, for tests of the agent. */
export class FakeApiserver implements ApiserverClient {
  shadow: AgentShadow | undefined;
  /** Answers of the next drain passes; then the node is empty. */
  drains: DrainResult[] = [];
  exclusion: ExclusionResult = { remainingMs: 0 };
  /** Every call; reports with their content. */
  readonly calls: string[] = [];
  readonly reports: AgentStatus[] = [];
  /** While true no call is answered, and streams break. */
  unreachable = false;
  readonly #clock: Clock;
  readonly #errors = new Map<ApiCall, ApiError[]>();
  readonly #listeners = new Set<(message: StreamMessage | Error) => void>();
  #answeredAt: number;

  constructor(clock: Clock, shadow?: AgentShadow) {
    this.#clock = clock;
    this.shadow = shadow;
    this.#answeredAt = clock.monotonic();
  }

  /** The next calls of this kind throw these. */
  fail(call: ApiCall, ...errors: ApiError[]): void {
    this.#errors.set(call, errors);
  }

  /** The controller writes a spec. */
  setSpec(spec: ShadowSpec): void {
    if (this.shadow === undefined) throw new Error('there is no shadow');
    this.shadow = { ...this.shadow, generation: this.shadow.generation + 1, spec };
    this.send({ type: 'shadow', shadow: this.shadow });
  }

  /** A user deletes the shadow, and the controller creates another one. */
  recreateShadow(): void {
    this.shadow = { uid: `${this.shadow?.uid}-again`, generation: 1, spec: { state: 'Idle' } };
    this.send({ type: 'deleted' });
    this.send({ type: 'shadow', shadow: this.shadow });
  }

  /** Sends a message to every open stream, or breaks it. */
  send(message: StreamMessage | Error): void {
    for (const listener of this.#listeners) listener(message);
  }

  get streams(): number {
    return this.#listeners.size;
  }

  unreachableMs(): number {
    return this.#clock.monotonic() - this.#answeredAt;
  }

  async read(): Promise<AgentShadow> {
    this.#observe('read', 'read');
    this.shadow ??= { uid: 'uid-1', generation: 1, spec: { state: 'Idle' } };
    return this.shadow;
  }

  async *stream(signal: AbortSignal): AsyncGenerator<StreamMessage> {
    this.#observe('stream', 'stream');
    const queue: (StreamMessage | Error)[] = [
      this.shadow === undefined ? { type: 'deleted' } : { type: 'shadow', shadow: this.shadow },
    ];
    let wake = Promise.withResolvers<void>();
    const receive = (message: StreamMessage | Error): void => {
      queue.push(message);
      wake.resolve();
    };
    const stop = (): void => receive(signal.reason as Error);
    this.#listeners.add(receive);
    signal.addEventListener('abort', stop);
    try {
      for (;;) {
        yield* this.#deliver(queue);
        await wake.promise;
        wake = Promise.withResolvers<void>();
      }
    } finally {
      this.#listeners.delete(receive);
      signal.removeEventListener('abort', stop);
    }
  }

  async report({ shadowUID, status }: StatusReport): Promise<AgentShadow> {
    const { lastOperation: last } = status;
    const step =
      last === undefined
        ? ''
        : `, ${last.operation} ${last.state}${last.errorCode === undefined ? '' : ` ${last.errorCode}`}`;
    this.#observe('report', `report ${status.current_state}${step}`);
    if (this.shadow?.uid !== shadowUID) throw new ApiError('SpecChanged', 'another shadow');
    this.reports.push(status);
    this.shadow = { ...this.shadow, status };
    this.send({ type: 'shadow', shadow: this.shadow });
    return this.shadow;
  }

  async exclude(reference: SpecReference): Promise<ExclusionResult> {
    this.#observe('exclude', 'exclude');
    this.#check(reference);
    return this.exclusion;
  }

  async drain(reference: SpecReference): Promise<DrainResult> {
    this.#observe('drain', 'drain');
    this.#check(reference);
    return this.drains.shift() ?? DRAINED;
  }

  async restore(): Promise<void> {
    this.#observe('restore', 'restore');
  }

  *#deliver(queue: (StreamMessage | Error)[]): Generator<StreamMessage> {
    for (let message = queue.shift(); message !== undefined; message = queue.shift()) {
      if (message instanceof Error) throw message;
      this.#answeredAt = this.#clock.monotonic();
      yield message;
    }
  }

  #observe(call: ApiCall, text: string): void {
    if (this.unreachable) throw new ApiError('Unreachable', `${call}: connect ECONNREFUSED`);
    const error = this.#errors.get(call)?.shift();
    if (error?.code !== 'Unauthenticated') this.#answeredAt = this.#clock.monotonic();
    if (error !== undefined) throw error;
    this.calls.push(text);
  }

  #check({ shadowUID, generation }: SpecReference): void {
    const { shadow } = this;
    if (shadow?.uid !== shadowUID || shadow.generation !== generation)
      throw new ApiError('SpecChanged', 'another spec');
    if (shadow.spec.state !== 'RebootedIntoUpdate') throw new ApiError('SpecForbids', 'the spec requests no reboot');
  }
}
