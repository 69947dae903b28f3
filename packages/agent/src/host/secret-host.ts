/**
 * A host whose secret settings are seen by their hashes. Everything above it compares, records and reports
 * hashes; this class alone has values, in memory: those that the host had at the latest readings, and those
 * that the apiserver gave it. A value that neither has any more cannot be set again.
 *
 * The host may repeat a value that it refuses, so its texts about secrets are withheld.
 */
import { isSecret, isSecretHash, MAX_SECRET_VALUE, secretHash } from '@brupop/shared/api/secret-settings';
import type { Classified, Leaves } from '@brupop/shared/api/settings';
import type { UpdateCommand } from '../limits.ts';
import { type Guard, type Host, HostError, type UpdateStatus } from './host.ts';

/** Values in memory; the oldest ones go first. A host has 100 settings at most. */
const MAX_VALUES = 200;
const PLAIN = { class: 'Refused', reason: 'it holds a secret, which only secretSettings of a group can set' } as const;

export class SecretHost implements Host {
  readonly #host: Host;
  readonly #fetch: (signal: AbortSignal) => Promise<Leaves>;
  /** By hash, the latest used last. */
  readonly #values = new Map<string, string>();

  /** @param fetch - asks the apiserver for the values that the spec requests */
  constructor(host: Host, fetch: (signal: AbortSignal) => Promise<Leaves>) {
    this.#host = host;
    this.#fetch = fetch;
  }

  async settings(keys: readonly string[], signal: AbortSignal): Promise<Leaves> {
    const live = await this.#host.settings(keys, signal).catch((error: unknown) => {
      throw withheldText(error, keys);
    });
    return new Map([...live].map(([key, value]) => [key, isSecret(key) ? this.#remember(key, value) : value]));
  }

  /** False for a secret that is not in memory. */
  canSet(key: string, value: string): boolean {
    const known = this.#values.get(value);
    if (isSecret(key) && known !== undefined) this.#keep(value, known);
    return !isSecret(key) || known !== undefined;
  }

  async classify(changes: Leaves, signal: AbortSignal): Promise<ReadonlyMap<string, Classified>> {
    const plain = [...changes].filter(([key, value]) => isSecret(key) && !isSecretHash(value));
    const others = new Map([...changes].filter(([key]) => !plain.some(([one]) => one === key)));
    const values = await this.#valuesOf(others, signal);
    const found = values.size === 0 ? new Map<string, Classified>() : await this.#classify(values, signal);
    const shown = [...found].map(([key, one]): [string, Classified] => [key, withheldReason(one, changes)]);
    return new Map([...shown, ...plain.map(([key]) => [key, PLAIN] as const)]);
  }

  async #classify(values: Leaves, signal: AbortSignal): Promise<ReadonlyMap<string, Classified>> {
    return this.#host.classify(values, signal).catch((error: unknown) => {
      throw withheldText(error, [...values.keys()]);
    });
  }

  async changeSettings(changes: Leaves, signal: AbortSignal, guard?: Guard): Promise<void> {
    const values = await this.#valuesOf(changes, signal);
    await this.#host.changeSettings(values, signal, guard).catch((error: unknown) => {
      throw withheldText(error, [...changes.keys()]);
    });
  }

  /** Throws ApiError when the apiserver does not have them, HostError when it has others. */
  async #valuesOf(changes: Leaves, signal: AbortSignal): Promise<Leaves> {
    const isUnknown = ([key, value]: [string, string]): boolean => !this.canSet(key, value);
    if ([...changes].some(isUnknown))
      for (const [key, value] of await this.#fetch(signal)) if (isSecret(key)) this.#remember(key, value);
    const missing = [...changes].find(isUnknown);
    if (missing !== undefined)
      throw new HostError('answer', `${missing[0]}: the apiserver has another value of this secret`);
    // A hash as the value of any other setting is a text as any other.
    return new Map([...changes].map(([key, value]) => [key, (isSecret(key) && this.#values.get(value)) || value]));
  }

  #remember(key: string, value: string): string {
    const hash = secretHash(key, value);
    this.#keep(hash, value);
    return hash;
  }

  #keep(hash: string, value: string): void {
    this.#values.delete(hash);
    // One that is longer was set by a user, and is not set again.
    if (value.length <= MAX_SECRET_VALUE) this.#values.set(hash, value);
    for (const oldest of [...this.#values.keys()].slice(0, -MAX_VALUES)) this.#values.delete(oldest);
  }

  version(signal: AbortSignal): Promise<string> {
    return this.#host.version(signal);
  }

  updateStatus(signal: AbortSignal): Promise<UpdateStatus> {
    return this.#host.updateStatus(signal);
  }

  start(command: UpdateCommand, signal: AbortSignal, guard?: Guard): Promise<void> {
    return this.#host.start(command, signal, guard);
  }

  reboot(signal: AbortSignal, guard?: Guard): Promise<void> {
    return this.#host.reboot(signal, guard);
  }

  uptimeMs(): number {
    return this.#host.uptimeMs();
  }

  bootID(): Promise<string> {
    return this.#host.bootID();
  }
}

/** An answer that is no success, or that cannot be read. */
const CALL = /^[A-Z]+ \S+:(?: \d{3}\b)?/u;

/** What a message says before the text of the host. */
function withheld(message: string): string {
  const [start = ''] = CALL.exec(message) ?? [];
  return `${start} the answer is withheld, since it may repeat a secret`.trim();
}

function withheldText(error: unknown, keys: readonly string[]): unknown {
  // What was not answered has a cause, and no text of the host.
  const isAnswered = error instanceof HostError && (error.kind === 'answer' || error.cause === undefined);
  return isAnswered && keys.some((key) => isSecret(key)) ? new HostError(error.kind, withheld(error.message)) : error;
}

/** A host that refuses one change refuses all of them, with one text. */
function withheldReason(found: Classified, changes: Leaves): Classified {
  const isOfHost = found.class === 'Refused' && CALL.test(found.reason);
  return isOfHost && [...changes.keys()].some((key) => isSecret(key))
    ? { class: 'Refused', reason: withheld(found.reason) }
    : found;
}
