import { STATUS_CODES } from 'node:http';

/** The head of a request as the host's server sees it. */
export interface RequestHead {
  method: string;
  /** Path without the query, exactly as sent. */
  path: string;
  query: URLSearchParams;
  headers: ReadonlyMap<string, string>;
  httpVersion: '1.0' | '1.1';
}

/** An answer; the server adds `content-length`, `connection` and `date`. */
export interface Answer {
  status: number;
  /** Empty by default. */
  body?: string;
  contentType?: string;
  allow?: string;
  /** Reason phrase when it is not the usual one. */
  reason?: string;
  /** How the answer goes wrong on its way. */
  transport?: 'hang' | 'truncated' | 'empty';
  /** Called when the answer has been written or was lost with its connection. */
  written?: () => void;
}

const REQUEST_LINE = /^([A-Z]+) (\S+) HTTP\/1\.([01])$/;

/** A JSON answer: compact, with its content type. */
export function json(value: unknown, status = 200): Answer {
  return { status, contentType: 'application/json', body: JSON.stringify(value) };
}

/** An error as the host's server sends it: plain text without a content type. */
export function text(status: number, body = ''): Answer {
  return { status, body };
}

/**
 * Parses a request head up to the blank line (which `head` lacks); undefined for what is no HTTP/1
 * request.
 */
export function parseHead(head: string): RequestHead | undefined {
  const [first = '', ...lines] = head.split('\r\n');
  const [, method, target, minor] = REQUEST_LINE.exec(first) ?? [];
  if (method === undefined || target === undefined) return undefined;
  const [path = '', query = ''] = target.replace(/^http:\/\/[^/]*/, '').split('?', 2);
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
    }),
  );
  return { method, path, query: new URLSearchParams(query), headers, httpVersion: minor === '0' ? '1.0' : '1.1' };
}

/** Whether the connection ends after the answer to this request. */
export function wantsClose(head: RequestHead): boolean {
  const tokens = (head.headers.get('connection') ?? '').toLowerCase().split(/\s*,\s*/);
  return head.httpVersion === '1.0' || tokens.includes('close');
}

/**
 * Serializes an answer with exactly the header names and order of the real server: `content-length`
 * (never on a 204), `connection: close`, `allow`, `content-type`, `date`.
 */
export function formatAnswer(answer: Answer, options: { close: boolean; httpVersion: '1.0' | '1.1' }): Buffer {
  const body = Buffer.from(answer.body ?? '');
  const reason = answer.reason ?? STATUS_CODES[answer.status] ?? '';
  const lines = [
    `HTTP/${options.httpVersion} ${answer.status} ${reason}`,
    answer.status === 204 ? undefined : `content-length: ${body.length}`,
    options.close && options.httpVersion === '1.1' ? 'connection: close' : undefined,
    answer.allow === undefined ? undefined : `allow: ${answer.allow}`,
    answer.contentType === undefined ? undefined : `content-type: ${answer.contentType}`,
    `date: ${new Date().toUTCString()}`,
  ];
  const head = lines.filter((line) => line !== undefined).join('\r\n');
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`), body]);
}

/** Takes a whole request body off the front of `buffer`; undefined while it is incomplete. */
export function takeBody(buffer: Buffer, head: RequestHead): { body: Buffer; rest: Buffer } | undefined {
  if (head.headers.get('transfer-encoding')?.toLowerCase() === 'chunked') return takeChunks(buffer);
  const length = Number(head.headers.get('content-length') ?? 0);
  if (buffer.length < length) return undefined;
  return { body: buffer.subarray(0, length), rest: buffer.subarray(length) };
}

function takeChunks(buffer: Buffer): { body: Buffer; rest: Buffer } | undefined {
  const chunks: Buffer[] = [];
  let rest = buffer;
  for (;;) {
    const end = rest.indexOf('\r\n');
    if (end === -1) return undefined;
    const size = Number.parseInt(rest.toString('latin1', 0, end), 16);
    const start = end + 2;
    if (Number.isNaN(size) || rest.length < start + size + 2) return undefined;
    chunks.push(rest.subarray(start, start + size));
    rest = rest.subarray(start + size + 2);
    if (size === 0) return { body: Buffer.concat(chunks), rest };
  }
}
