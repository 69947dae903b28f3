import { readFile } from 'node:fs/promises';
import { STATUS_CODES } from 'node:http';
import { createConnection } from 'node:net';
import type { FaultValues } from './faults.ts';
import type { BottlerocketHost } from './host.ts';

/** One recorded exchange; the fields are explained beside the recording. */
export interface Exchange {
  scenario: string;
  step: number;
  name: string;
  setup: Record<string, unknown>[];
  state: string;
  request: { method: string; path: string; headers: string[]; body: string; raw?: string };
  response: { status: number; headers: Record<string, string>; body: string; raw?: string };
  closed_after_ms?: number;
}

/** What came back for one request. */
export interface Received {
  text: string;
  /**
   * Milliseconds from the request until the server closed the connection; undefined when it did
   * not.
   */
  closedAfterMs?: number;
}

/** Recorded times are replayed in this share of them. */
const SCALE = 0.4;

const TRANSCRIPTS = new URL('./transcripts/host-api.json', import.meta.url);
const ANSWER_LIMIT_MS = 10_000;
const PROGRAMS: Record<string, keyof FaultValues> = {
  whats: 'refresh',
  'update-image': 'prepare',
  'update-apply': 'activate',
  'update-revert': 'deactivate',
  reboot: 'reboot',
  settings: 'settings',
};
const NOTES: Record<string, FaultValues | { [K in keyof FaultValues]: undefined }> = {
  '/etc/thar-be-updates.toml renamed to /etc/t': { dispatcherConfig: 'missing' },
  '/etc/t renamed to /etc/thar-be-updates.toml': { dispatcherConfig: undefined },
  '/usr/bin/updog renamed to /usr/bin/u': { updogMissing: true },
  '/usr/bin/u renamed to /usr/bin/updog': { updogMissing: undefined },
  '/usr/bin/systemctl renamed to /usr/bin/s': { systemctlMissing: true },
  '/usr/bin/s renamed to /usr/bin/systemctl': { systemctlMissing: undefined },
  '/run/lock renamed to /run/lock.gone': { lockFolderGone: true },
  'the update dispatcher is not installed': { noInPlaceUpdates: true },
  'os-release: without VERSION_ID': { osReleaseVersion: null },
  'os-release: VERSION_ID=1.2': { osReleaseVersion: '1.2' },
  'status file removed, partition table overwritten with zeros': { unreadablePartitionTable: true },
  // The linger of the reboot covers it already, and the replay orders two requests.
  'the shutdown ends systemctl before it has returned': {},
  'two requests at once': {},
};
const STATUS_FILE_NOTE = 'status file replaced by ';

/** The recorded exchanges by scenario, in order. */
export async function readScenarios(): Promise<Map<string, Exchange[]>> {
  const exchanges = JSON.parse(await readFile(TRANSCRIPTS, 'utf8')) as Exchange[];
  return Map.groupBy(exchanges, ({ scenario }) => scenario);
}

/** Whether the step replaced the host's status file, so that its answer is known to the letter. */
export function replacesStatusFile({ setup }: Exchange): boolean {
  return setup.some(({ note }) => typeof note === 'string' && note.startsWith(STATUS_FILE_NOTE));
}

/** Applies the setup of the recorded request to the host. Throws on an unknown setup. */
export async function applySetup(host: BottlerocketHost, setup: Record<string, unknown>): Promise<void> {
  if (typeof setup['note'] === 'string') return applyNote(host, setup['note']);
  if (Array.isArray(setup['repository'])) {
    const maxVersion = setup['max_version'];
    host.setRepository(setup['repository'].map(String), typeof maxVersion === 'string' ? { maxVersion } : {});
    return;
  }
  for (const [key, value] of Object.entries(setup)) await applyKey(host, key, value);
}

async function applyNote(host: BottlerocketHost, note: string): Promise<void> {
  if (note.startsWith(STATUS_FILE_NOTE)) {
    const text = note.slice(STATUS_FILE_NOTE.length);
    host.model.statusFile = text === 'an empty one' ? '' : text;
  } else if (note.startsWith("the dispatcher's configuration file holds: ")) {
    await host.faults.set({ dispatcherConfig: 'unusable' });
  } else if (note.startsWith("the dispatcher's child is killed by signal 9")) {
    host.killDispatcher();
  } else if (note === 'all live settings removed') {
    host.settings.live.clear();
  } else {
    const faults = NOTES[note];
    if (faults === undefined) throw new Error(`unknown note "${note}"`);
    if ('unreadablePartitionTable' in faults) host.model.statusFile = undefined;
    await host.faults.set(faults);
  }
}

async function applyKey(host: BottlerocketHost, key: string, value: unknown): Promise<void> {
  if (key === 'version-lock') return host.setVersionLock(String(value));
  const ms = Number(value) * 1000 * SCALE;
  if (key === 'boot.restart_s') host.durations.bootMs = ms;
  else if (key === 'boot.grace_s') host.durations.shutdownMs = ms;
  else await applyProgram(host, key, value, ms);
  return undefined;
}

async function applyProgram(host: BottlerocketHost, key: string, value: unknown, ms: number): Promise<void> {
  const [program = '', time] = key.split('.');
  const fault = PROGRAMS[program];
  if (fault === undefined) throw new Error(`unknown setup "${key}"`);
  if (time !== undefined) {
    const field = time === 'linger_s' ? 'lingerMs' : 'delayMs';
    const before = host.faults.values[fault];
    await host.faults.set({ [fault]: { ...(typeof before === 'object' ? before : {}), [field]: ms } });
    return;
  }
  const { fail_at, ...given } = (value ?? {}) as Record<string, unknown>;
  const values = fail_at === undefined ? given : { ...given, failAt: fail_at };
  await host.faults.set({ [fault]: value === null ? undefined : values });
}

/** The bytes of a recorded request. */
export function requestBytes({ request, name }: Exchange): string {
  if (request.raw !== undefined) return request.raw;
  const [, start = request.body, size = ''] = /^(.*)\.\.\. (\d+) bytes in all$/.exec(request.body) ?? [];
  const body = size === '' ? start : `${start.padEnd(Number(size) - 2, 'x')}"}`;
  const lines = [`${request.method} ${request.path} HTTP/1.1`, 'Host: localhost', ...request.headers];
  if (body !== '') lines.push(`Content-Length: ${Buffer.byteLength(body)}`);
  const again = name === 'apply, then the same connection again' ? 'GET /os HTTP/1.1\r\nHost: localhost\r\n\r\n' : '';
  return `${lines.join('\r\n')}\r\n\r\n${body}${again}`;
}

/** The text of a recorded response. */
export function responseText({ response }: Exchange): string {
  if (response.raw !== undefined) return response.raw;
  const headers = Object.entries(response.headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${response.status} ${STATUS_CODES[response.status]}\r\n${headers.join('')}\r\n${response.body}`;
}

/**
 * Response text without what differs from run to run: dates, times, build IDs, lengths, the order
 * of committed keys.
 */
export function comparable(text: string): string {
  const sorted = text.replace(/\["settings\.[^\]]*\]$/, (list) =>
    JSON.stringify((JSON.parse(list) as string[]).toSorted()),
  );
  return sorted
    .replace(/^date: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\r$/gm, 'date: DATE\r')
    .replace(/^content-length: [1-9]\d*\r$/gm, 'content-length: LENGTH\r')
    .replace(/"build_id":"[0-9a-f]{8}"/g, '"build_id":"BUILD"')
    .replace(/"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.(?:\d{3}){1,3})?Z"/g, '"timestamp":"TIME"');
}

/** The timestamp of a status, if the text holds one. */
export function timestampOf(text: string): string | undefined {
  return /"timestamp":"([^"]*)"/.exec(text)?.[1];
}

/** How many whole answers the bytes hold; undefined while the last one is incomplete. */
function wholeAnswers(received: Buffer): number | undefined {
  let rest = received;
  let answers = 0;
  while (rest.length > 0) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) return undefined;
    const head = rest.toString('latin1', 0, end);
    const strayNull = / 204 [^]*content-type/.test(head) ? 4 : 0;
    const length = end + 4 + Number(/content-length: (\d+)/.exec(head)?.[1] ?? strayNull);
    if (rest.length < length) return undefined;
    if (!head.startsWith('HTTP/1.1 100 ')) answers += 1;
    rest = rest.subarray(length);
  }
  return answers;
}

/**
 * Sends bytes and reads the answers to them, on a connection of its own; with `untilClosed` also
 * waits for its end. Rejects when they are not there in time.
 */
export async function send(
  path: string,
  bytes: string,
  expected: { answers: number; untilClosed: boolean },
): Promise<Received> {
  const { promise, resolve, reject } = Promise.withResolvers<Received>();
  const started = performance.now();
  const socket = createConnection(path);
  let received: Buffer = Buffer.alloc(0);
  const timer = setTimeout(() => {
    reject(new Error(`no whole answer within ${ANSWER_LIMIT_MS} ms, only: ${received.toString()}`));
  }, ANSWER_LIMIT_MS);
  socket.on('error', reject);
  socket.on('close', () => resolve({ text: received.toString(), closedAfterMs: performance.now() - started }));
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    if (!expected.untilClosed && wholeAnswers(received) === expected.answers) resolve({ text: received.toString() });
  });
  socket.write(bytes);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
