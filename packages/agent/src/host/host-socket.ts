import { randomUUID } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { uptime } from 'node:os';
import type { HostCalls } from '@brupop/shared/api/host-calls';
import { canonical, nestedOf, type Classified, type Leaves } from '@brupop/shared/api/settings';
import type { Clock } from '@brupop/shared/runtime/clock';
import { shorten, describe, messageOf } from '@brupop/shared/runtime/errors';
import { type Answer, exchange } from '../http/exchange.ts';
import { LIMITS, type UpdateCommand } from '../limits.ts';
import {
  ALWAYS_SET,
  type Guard,
  type Host,
  HostError,
  type HostErrorKind,
  StaleDecisionError,
  type UpdateStatus,
  parseAffectedServices,
  parsePending,
  parseServices,
  parseSettings,
  parseUpdateStatus,
  parseVersion,
} from './host.ts';
import { allowsFewerPods, classOf, differenceOf, MAX_PODS, type Service } from '../settings/classes.ts';
import { completed, neededWith } from '../settings/whole.ts';

const BOOT_ID = /^[0-9A-Za-z-]{1,128}$/u;

interface HostSocketOptions {
  readonly socketPath: string;
  readonly bootIDFile: string;
  readonly clock: Clock;
  /** Counts the calls. */
  readonly calls?: HostCalls;
}

interface Call {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: string;
  readonly body?: string;
  readonly limitMs?: number;
  readonly signal: AbortSignal;
  readonly guard?: Guard | undefined;
}

/** Opens a connection for each call: an idle one would delay the host's shutdown by 5 s. */
export class HostSocket implements Host {
  readonly #options: HostSocketOptions;

  constructor(options: HostSocketOptions) {
    this.#options = options;
  }

  async version(signal: AbortSignal): Promise<string> {
    return parseVersion(await this.#call({ method: 'GET', path: '/os', signal }));
  }

  async updateStatus(signal: AbortSignal): Promise<UpdateStatus> {
    return parseUpdateStatus(await this.#call({ method: 'GET', path: '/updates/status', signal }));
  }

  async start(command: UpdateCommand, signal: AbortSignal, guard?: Guard): Promise<void> {
    const path = `/actions/${command === 'refresh' ? 'refresh-updates' : `${command}-update`}`;
    await this.#call({ method: 'POST', path, signal, guard });
  }

  async reboot(signal: AbortSignal, guard?: Guard): Promise<void> {
    try {
      await this.#call({ method: 'POST', path: '/actions/reboot', limitMs: LIMITS.rebootCall, signal, guard });
    } catch (error) {
      if (!isInconclusive(error) || signal.aborted) throw error;
    }
  }

  async settings(keys: readonly string[], signal: AbortSignal): Promise<Leaves> {
    const wanted = [...new Set([...keys, ...neededWith(keys), ALWAYS_SET])];
    const found = await this.#stored(wanted, signal);
    // In lockdown a host has no settings by their keys, and cannot list them.
    if (!found.has(ALWAYS_SET))
      await this.#call({ method: 'GET', path: '/settings', query: 'prefix=settings.updates', signal });
    return new Map([...found].filter(([key]) => keys.includes(key)));
  }

  /** A key above or below another one that is stored, for which the host has no answer, is not stored itself. */
  async #stored(keys: readonly string[], signal: AbortSignal): Promise<Leaves> {
    const query = queryOf('keys', keys);
    try {
      return parseSettings(await this.#call({ method: 'GET', path: '/settings', query, signal }), keys);
    } catch (error) {
      const others = keys.filter((key) => key !== misplacedIn(error));
      if (others.length === keys.length) throw error;
      return this.#stored(others, signal);
    }
  }

  /** Stages the changes in a transaction of its own and deletes it: the host checks them like that. */
  async classify(changes: Leaves, signal: AbortSignal): Promise<ReadonlyMap<string, Classified>> {
    const query = queryOf('keys', [...changes.keys()]);
    const answer = await this.#call({ method: 'GET', path: '/metadata/affected-services', query, signal });
    const affected = parseAffectedServices(answer);
    const names = [...new Set([...affected.values()].flat())];
    const services = names.length === 0 ? [] : await this.#services(names, signal);
    const maxPods = changes.has(MAX_PODS) ? (await this.settings([MAX_PODS], signal)).get(MAX_PODS) : undefined;
    const isForFewerPods = allowsFewerPods(changes, maxPods);
    const classes = new Map(
      [...changes.keys()].map((key) => {
        const known = affected.get(key);
        return [key, classOf(key, known && services.filter(({ name }) => known.includes(name)), isForFewerPods)];
      }),
    );
    // A host that refuses one change refuses all: what is not set anyway is not sent.
    const allowed = new Map([...changes].filter(([key]) => classes.get(key)?.class !== 'Refused'));
    const refusal = allowed.size === 0 ? undefined : await this.#refusalOf(allowed, signal);
    return new Map([...classes].map(([key, found]) => [key, (allowed.has(key) && refusal) || found]));
  }

  async #services(names: readonly string[], signal: AbortSignal): Promise<readonly Service[]> {
    const query = queryOf('names', names);
    return parseServices(await this.#call({ method: 'GET', path: '/services', query, signal }));
  }

  async #refusalOf(changes: Leaves, signal: AbortSignal): Promise<Classified | undefined> {
    const needed = neededWith(changes.keys());
    const whole = completed(changes, needed.length === 0 ? new Map() : await this.settings(needed, signal));
    let pending = '';
    try {
      await this.#inTransaction(signal, async (of) => {
        await this.#call({ ...of, method: 'PATCH', path: '/settings', body: bodyOf(whole) });
        pending = await this.#call({ ...of, method: 'GET', path: '/tx' });
        await this.#call({ ...of, method: 'DELETE', path: '/tx' });
      });
    } catch (error) {
      if (!(error instanceof HostError) || !refusesValue(error)) throw error;
      return refused(error.message);
    }
    const stored = parsePending(pending);
    const others = [...stored.keys()].filter((key) => !changes.has(key));
    const live = others.length === 0 ? stored : await this.settings(others, signal);
    const difference = differenceOf(changes, stored, live);
    return difference === undefined ? undefined : refused(difference);
  }

  async changeSettings(changes: Leaves, signal: AbortSignal, guard?: Guard): Promise<void> {
    await this.#inTransaction(signal, async (of) => {
      await this.#call({ ...of, method: 'PATCH', path: '/settings', body: bodyOf(changes), guard });
      await this.#call({ ...of, method: 'POST', path: '/tx/commit_and_apply' });
    });
  }

  /** Uses its own transaction, so that pending changes of another actor are not committed with it. */
  async #inTransaction(signal: AbortSignal, change: (of: Pick<Call, 'query' | 'signal'>) => Promise<unknown>) {
    const of = { query: `tx=brupop-${randomUUID()}`, signal };
    try {
      await change(of);
    } catch (error) {
      // Also while the process ends. One that cannot be deleted has no effect and ends with the next boot.
      const { signal: always } = new AbortController();
      const limitMs = LIMITS.transactionDeleted;
      await this.#call({ ...of, method: 'DELETE', path: '/tx', limitMs, signal: always }).catch(() => undefined);
      throw error;
    }
  }

  uptimeMs(): number {
    return uptime() * 1000;
  }

  /** Reads the file synchronously: the thread pool would cost memory. */
  async bootID(): Promise<string> {
    const { bootIDFile } = this.#options;
    const bootID = readFileSync(bootIDFile, 'utf8').trim();
    if (BOOT_ID.test(bootID)) return bootID;
    throw new Error(`${bootIDFile}: expected a boot ID, found ${describe(bootID)}`);
  }

  async #call(call: Call): Promise<string> {
    const { calls } = this.#options;
    const route = `${call.method} ${call.path}`;
    try {
      const body = await this.#exchange(call);
      calls?.record(route, 'ok');
      return body;
    } catch (error) {
      if (error instanceof HostError) calls?.record(route, error.kind);
      throw error;
    }
  }

  async #exchange(call: Call): Promise<string> {
    const { method, path, query, body, limitMs = LIMITS.hostCall, signal, guard } = call;
    const { socketPath, clock } = this.#options;
    const name = `${method} ${path}`;
    const target = query === undefined ? path : `${path}?${query}`;
    const headers = { host: 'localhost', connection: 'close' };
    const sent = request({ socketPath, method, path: target, headers, agent: false, signal });
    const answer = await exchange({ request: sent, body, guard }, limitMs, clock).catch((error: unknown) => {
      if (error instanceof StaleDecisionError) throw error;
      const kind = isRefused(error) ? 'refused' : 'unanswered';
      throw new HostError(kind, `${name} on ${socketPath}${hintFor(error, socketPath)}`, { cause: error });
    });
    return takeBody(name, answer);
  }
}

function queryOf(name: string, values: readonly string[]): string {
  return `${name}=${values.map(encodeURIComponent).join(',')}`;
}

function bodyOf(changes: Leaves): string {
  try {
    return canonical(nestedOf(changes));
  } catch (error) {
    throw new HostError('answer', messageOf(error), { cause: error });
  }
}

function refused(reason: string): Classified {
  return { class: 'Refused', reason: shorten(reason, 250) };
}

/** A server error, as of a full disk or a data store in lockdown, says nothing about the value. */
function refusesValue({ kind, status = 400 }: HostError): boolean {
  return kind === 'answer' && status < 500;
}

/** The data store has settings as files, and objects of them as folders. */
function misplacedIn(error: unknown): string | undefined {
  return /Reading key '(.+)' failed: (?:Not|Is) a directory/u.exec(messageOf(error))?.[1];
}

function isRefused(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === 'ECONNREFUSED' || code === 'ENOENT';
}

/**
 * What opens the socket of a host: its owner, its group and its SELinux policy. For a mount whose source is missing,
 * containerd makes a folder of its name, also when a container restarts; then the API server of the host cannot start.
 */
function hintFor(error: unknown, socketPath: string): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EACCES') return ', which takes user 0 or group 274, and the SELinux type control_t';
  const isFolder = code === 'ECONNREFUSED' && statSync(socketPath, { throwIfNoEntry: false })?.isDirectory() === true;
  return isFolder ? ', which is a folder: the API server of the host cannot start until it is removed' : '';
}

/** What systemd's logind, in release 252 and in 257, answers while an inhibitor delays a shutdown of another actor. */
const GOING_DOWN = /already a shutdown or sleep operation in progress|Action \S+ already in progress/u;

/**
 * True when the host may be rebooting in spite of this error: the connection broke, the shutdown ended
 * systemctl, or another actor's is under way. A systemctl that otherwise exits with 1 (an inhibitor) or
 * cannot start is a refusal.
 */
function isInconclusive(error: unknown): boolean {
  if (!(error instanceof HostError)) return false;
  const { kind, message } = error;
  if (kind === 'unanswered') return true;
  if (kind !== 'answer' || !message.includes('Failed to reboot')) return false;
  return GOING_DOWN.test(message) || !/exit code: 1\b/.test(message);
}

/** Status and prefix of the body for each kind of error; the status alone is ambiguous. */
const TEXTS: readonly (readonly [status: number, prefix: string, kind: HostErrorKind])[] = [
  [423, '', 'locked'],
  [408, '', 'unanswered'],
  [404, 'Update status is uninitialized', 'uninitialized'],
  [404, 'Found no', 'unset'],
  [500, 'Unable to start the update dispatcher: No such file', 'unsupported'],
  [500, 'Update dispatcher failed', 'unreadable'],
  [500, 'Failed to parse update status', 'unreadable'],
  [500, 'Unable to open update lock file', 'unreadable'],
];

/** Returns the body of a successful answer. Throws HostError for any other. */
export function takeBody(call: string, answer: Answer): string {
  if (answer.status >= 200 && answer.status < 300) return answer.body;
  const { status } = answer;
  throw new HostError(kindOf(answer), `${call}: ${status} ${shorten(answer.body, 500)}`, { status });
}

function kindOf({ status, body }: Answer): HostErrorKind {
  if (status === 404 && body === '') return 'unsupported';
  const known = TEXTS.find(([code, prefix]) => code === status && body.startsWith(prefix));
  return known?.[2] ?? 'answer';
}
