import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import type { Clock } from './clock.ts';
import { shorten } from './errors.ts';
import { type Credentials, CREDENTIAL_KEYS as KEYS, headersFrom, readText } from './http-credentials.ts';

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
  const target = `${url.replace(/\/+$/u, '')}${path}`;
  try {
    const found = await credentialsIn(credentials);
    const search = query.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
    return await read(`${target}?${search}`, found, { signal, maxBytes: options.maxBytes });
  } catch (error) {
    throw new Error(`GET ${nameOf(target)}`, { cause: error });
  } finally {
    cancel();
  }
}

async function read(
  address: string,
  credentials: Credentials,
  { signal, maxBytes }: Pick<GetOptions, 'signal' | 'maxBytes'>,
): Promise<unknown> {
  const headers = { accept: 'application/json', ...headersFrom(credentials) };
  const ca = credentials['ca.crt'];
  const dispatcher = new Agent({ connect: { ...(ca !== undefined && { ca }) } });
  try {
    const { statusCode, body } = await request(address, { dispatcher, headers, signal });
    const text = await readText(body, maxBytes);
    if (statusCode !== 200) throw new Error(`expected status 200, found ${statusCode}: ${shorten(text, MAX_QUOTED)}`);
    return JSON.parse(text);
  } finally {
    await dispatcher.destroy();
  }
}

/** Nothing in it is a secret, whatever the address has. */
function nameOf(target: string): string {
  const { origin = 'null', pathname = '' } = URL.parse(target) ?? {};
  return origin === 'null' ? 'an address that is not one of HTTP' : `${origin}${pathname}`;
}

/** Without its credentials, a server may answer for others, and find no alert. */
async function credentialsIn(folder: string): Promise<Credentials> {
  if (folder === '') return {};
  const found = await Promise.all(KEYS.map(async (name) => [name, await credential(folder, name)] as const));
  if (found.every(([, value]) => value === undefined))
    throw new Error(`the Secret of the credentials: expected one of ${KEYS.join(', ')}, found none, or no Secret`);
  return Object.fromEntries(found);
}

async function credential(folder: string, name: string): Promise<string | undefined> {
  try {
    return (await readFile(join(folder, name), 'utf8')).trim();
  } catch (error) {
    if ((error as { readonly code?: unknown }).code === 'ENOENT') return undefined;
    throw error;
  }
}
