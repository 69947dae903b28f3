import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { EnvHttpProxyAgent, fetch } from 'undici';
import type { Published } from './versions.ts';

/** All in ms. */
export interface DownloadLimits {
  /** To connect. */
  connect: number;
  /** Between one piece of an answer and the next. */
  idle: number;
  /** For a whole file. */
  total: number;
}

export const usualLimits: DownloadLimits = { connect: 5_000, idle: 10_000, total: 5 * 60_000 };

/** Thrown when the server is unreachable, so that no other file is requested from it. */
export class Unreachable extends Error {
  constructor(address: string, cause: unknown) {
    super(`${address} is out of reach: ${reasonOf(cause)}`, { cause });
    this.name = 'Unreachable';
  }
}

/**
 * Downloads a published program and returns its contents, after its SHA-256 has been checked.
 * `onProgress` gets the bytes so far. Throws `Unreachable`, or an error for a status other than
 * 200, a file cut short, a sum that differs or is not known.
 */
export async function download(
  base: string,
  published: Published,
  limits: DownloadLimits,
  onProgress: (bytes: number) => void,
): Promise<Buffer> {
  const address = `${base}/${published.path}`;
  const agent = new EnvHttpProxyAgent({
    connect: { timeout: limits.connect },
    headersTimeout: limits.idle,
    bodyTimeout: limits.idle,
  });
  const signal = AbortSignal.timeout(limits.total);
  try {
    const wanted = await expectedSum(
      base,
      published,
      async (url) => await fetchFile(url, agent, signal, () => undefined),
    );
    const file = await fetchFile(address, agent, signal, onProgress);
    const found = createHash('sha256').update(file).digest('hex');
    if (found !== wanted) throw new Error(`${address} has the SHA-256 ${found}, expected ${wanted}`);
    return published.member === undefined ? file : tarMember(gunzipSync(file), published.member, address);
  } finally {
    await agent.destroy();
  }
}

async function expectedSum(base: string, published: Published, get: (url: string) => Promise<Buffer>): Promise<string> {
  const { checksum } = published;
  if ('sum' in checksum) {
    if (checksum.sum === undefined) throw new Error(`the SHA-256 of ${published.path} is not known`);
    return checksum.sum;
  }
  const address = `${base}/${checksum.path}`;
  const text = (await get(address)).toString('utf8');
  const sum = sumIn(text, published.path.slice(published.path.lastIndexOf('/') + 1));
  if (sum === undefined) throw new Error(`${address} has no SHA-256 of ${published.path}`);
  return sum;
}

/** The sum of `name` in a checksum file: a bare sum, or lines of a sum and a name. */
export function sumIn(text: string, name: string): string | undefined {
  const lines = text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const named = lines.find(([, file]) => file?.replace(/^\*/, '') === name)?.[0];
  const [bare, ...rest] = lines.flat();
  const sum = named ?? (rest.length === 0 ? bare : undefined);
  return sum !== undefined && /^[0-9a-f]{64}$/i.test(sum) ? sum.toLowerCase() : undefined;
}

async function fetchFile(
  url: string,
  dispatcher: EnvHttpProxyAgent,
  signal: AbortSignal,
  onProgress: (bytes: number) => void,
): Promise<Buffer> {
  const response = await fetch(url, { dispatcher, signal }).catch((error: unknown) => {
    throw new Unreachable(url, error);
  });
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    if (response.status !== 200) throw new Error(`status ${response.status}`);
    for await (const piece of response.body ?? []) {
      pieces.push(Buffer.from(piece as Uint8Array));
      bytes += (piece as Uint8Array).length;
      onProgress(bytes);
    }
  } catch (error) {
    await response.body?.cancel().catch(() => undefined);
    throw new Error(`${url} could not be downloaded: ${reasonOf(error)}`, { cause: error });
  }
  return Buffer.concat(pieces);
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message} (${cause.message})` : message;
}

const block = 512;

/** The contents of one file of a tar archive (POSIX ustar). */
function tarMember(archive: Buffer, member: string, source: string): Buffer {
  for (let offset = 0; offset + block <= archive.length;) {
    const field = (start: number, length: number): string =>
      archive.toString('latin1', offset + start, offset + start + length).replace(/\0.*$/s, '');
    const name = field(0, 100);
    const size = Number.parseInt(field(124, 12).trim() || '0', 8);
    const start = offset + block;
    if (name === member) return archive.subarray(start, start + size);
    offset = start + Math.ceil(size / block) * block;
  }
  throw new Error(`${source} contains no ${member}`);
}
