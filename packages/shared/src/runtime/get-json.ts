import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import type { Clock } from './clock.ts';
import { shorten } from './errors.ts';

export interface JsonSource {
  /** With a path, if the API has one before its own. */
  readonly url: string;
  /**
   * Folder that may have `token`, a bearer token, or `username` and `password`; `headers`, such as `X-Scope-OrgID: team-a`, one
   * a line; and `ca.crt`, the authority of the server. Empty: none.
   */
  readonly credentials: string;
}

interface GetOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** For the whole exchange. */
  readonly timeoutMs: number;
  /** Of the body, which is not read any further. */
  readonly maxBytes: number;
}

const MAX_QUOTED = 300;

/**
 * Reads JSON by HTTP, with credentials that are read each time, since they may be replaced. Follows no
 * redirect. Throws an error that names the server and the path, and what was found.
 */
export async function getJson(
  { url, credentials }: JsonSource,
  path: string,
  query: readonly (readonly [string, string])[],
  options: GetOptions,
): Promise<unknown> {
  const limit = new AbortController();
  const { timeoutMs, clock } = options;
  const cancel = clock.after(timeoutMs, () => limit.abort(new Error(`no response within ${timeoutMs / 1000} s`)));
  const signal = AbortSignal.any([options.signal, limit.signal]);
  const ca = await credential(credentials, 'ca.crt');
  const dispatcher = new Agent({ connect: { ...(ca !== undefined && { ca }) } });
  const target = `${url.replace(/\/+$/u, '')}${path}`;
  try {
    const headers = { accept: 'application/json', ...(await headersFrom(credentials)) };
    const { statusCode, body } = await request(`${target}?${search(query)}`, { dispatcher, headers, signal });
    const text = await readText(body, options.maxBytes);
    if (statusCode !== 200) throw new Error(`expected status 200, found ${statusCode}: ${shorten(text, MAX_QUOTED)}`);
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`GET ${nameOf(target)}`, { cause: error });
  } finally {
    cancel();
    await dispatcher.destroy();
  }
}

/** Nothing in it is a secret, whatever the address has. */
function nameOf(target: string): string {
  const { origin = 'null', pathname = '' } = URL.parse(target) ?? {};
  return origin === 'null' ? 'an address that is not one of HTTP' : `${origin}${pathname}`;
}

/** Throws an error that names what is wrong in the folder, and no value of it. */
async function headersFrom(folder: string): Promise<Readonly<Record<string, string>>> {
  const [token, username, password, lines = ''] = await credentialsIn(folder);
  if (token !== undefined && username !== undefined)
    throw new Error('the Secret of the credentials: expected token, or username and password, found both');
  if ((username === undefined) !== (password === undefined))
    throw new Error('the Secret of the credentials: expected both username and password, found one of them');
  const basic = Buffer.from(`${username ?? ''}:${password ?? ''}`).toString('base64');
  return {
    ...headersIn(lines),
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(username !== undefined && { authorization: `Basic ${basic}` }),
  };
}

function headersIn(text: string): Readonly<Record<string, string>> {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return Object.fromEntries(
    lines.map((line, index) => {
      const [, name, value] = /^([\w-]{1,100}):\s*(\S.*?)\s*$/u.exec(line) ?? [];
      if (name !== undefined && value !== undefined) return [name.toLowerCase(), value];
      throw new Error(`the key headers of the Secret, line ${index + 1}: expected Name: value, found something else`);
    }),
  );
}

function search(query: readonly (readonly [string, string])[]): string {
  return query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
}

const KEYS = ['token', 'username', 'password', 'headers', 'ca.crt'];

/** Without its credentials, a server may answer for others, and find no alert. */
async function credentialsIn(folder: string): Promise<readonly (string | undefined)[]> {
  const found = await Promise.all(KEYS.map(async (name) => (await credential(folder, name))?.trim()));
  if (folder !== '' && found.every((value) => value === undefined))
    throw new Error(`the Secret of the credentials: expected one of ${KEYS.join(', ')}, found none, or no Secret`);
  return found;
}

async function credential(folder: string, name: string): Promise<string | undefined> {
  if (folder === '') return undefined;
  try {
    return await readFile(join(folder, name), 'utf8');
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function readText(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) throw new Error(`expected at most ${maxBytes} bytes, found more`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
