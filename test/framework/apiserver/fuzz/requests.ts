import fc from 'fast-check';

/** A request in bytes, and the codes that the first response may have (`ok`: any success). */
export interface RawCase {
  readonly kind: string;
  readonly text: string;
  readonly codes: readonly string[];
  /** It is incomplete: the client then closes its side. */
  readonly cut?: boolean;
}

interface Target {
  readonly node: string;
  readonly token: string;
  /** A valid status report. */
  readonly report: string;
}

/**
 * Requests with wrong framing, paths or ends. None of them may write anything, unless it contains
 * the whole report.
 */
export function rawCases(target: Target): fc.Arbitrary<RawCase> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...framed(target)) },
    { weight: 3, arbitrary: paths(target) },
    { weight: 1, arbitrary: aborted(target) },
    { weight: 1, arbitrary: garbage() },
  );
}

function head({ node, token }: Target, method = 'PUT', action = 'shadow/status', headers = ''): string {
  return `${method} /v1/nodes/${node}/${action} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${headers}`;
}

/** Lengths that contradict each other or the body, as in request smuggling. */
function framed(target: Target): RawCase[] {
  const { report } = target;
  const start = head(target, 'PUT', 'shadow/status', 'content-type: application/json\r\n');
  const smuggled = head(target, 'POST', 'drain', 'content-length: 0\r\n');
  const bad = ['BadRequest'];
  const raw = (name: string, rest: string, codes = bad): RawCase => ({
    kind: `framing: ${name}`,
    text: `${start}${rest}`,
    codes,
  });
  const hex = report.length.toString(16);
  return [
    raw('a body cut short by its length', `content-length: ${report.length - 5}\r\n\r\n${report}`),
    raw('a body beyond its length', `content-length: ${report.length}\r\n\r\n${report}${report}`, ['ok']),
    raw('no length', `\r\n${smuggled}\r\n`),
    raw('two lengths', `content-length: ${report.length}\r\ncontent-length: 0\r\n\r\n${report}`),
    raw('a list of lengths', `content-length: ${report.length}, ${report.length}\r\n\r\n${report}`),
    raw('a signed length', `content-length: +${report.length}\r\n\r\n${report}`),
    raw('a hexadecimal length', `content-length: 0x${hex}\r\n\r\n${report}`),
    raw('a length beyond all numbers', `content-length: ${'9'.repeat(40)}\r\n\r\n${report}`),
    raw('length and chunks', `content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n${hex}\r\n${report}\r\n0\r\n\r\n`),
    raw('chunks twice', `transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}\r\n`),
    raw('chunks in capitals with space', `transfer-encoding : chunked\r\n\r\n0\r\n\r\n${smuggled}\r\n`),
    raw('chunks of another coding', `transfer-encoding: xchunked\r\n\r\n0\r\n\r\n${smuggled}\r\n`),
    raw('chunks of a negative size', `transfer-encoding: chunked\r\n\r\n-1\r\n${report}\r\n0\r\n\r\n`),
    {
      ...raw('chunks of a huge size', `transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n${report}`, [
        'BadRequest',
        'none',
      ]),
      cut: true,
    },
    raw('a chunk longer than it says', `transfer-encoding: chunked\r\n\r\n2\r\n${report}\r\n0\r\n\r\n`),
    raw('a chunk extension without end', `transfer-encoding: chunked\r\n\r\n${hex};${'x'.repeat(40_000)}\r\n`),
    raw('chunks as they should be', `transfer-encoding: chunked\r\n\r\n${hex}\r\n${report}\r\n0\r\n\r\n`),
    raw('bare line feeds', `transfer-encoding: chunked\n\n0\n\n${smuggled}\n`),
  ];
}

const oddCharacters = Array.from('abz09.-_~%/\\;:@&=+$,?#[]{}|^`"<>é');

/** Spellings of a path that some servers normalize to another one. */
function paths(target: Target): fc.Arbitrary<RawCase> {
  const { node, token } = target;
  const tricks = [
    `/v1/nodes/${node}%2frestore`,
    `/v1/nodes/x/../${node}/restore`,
    `/v1/nodes/x%2f..%2f${node}/restore`,
    `/v1/nodes/${node}/./restore`,
    `/v1/nodes/${node}/../${node}/restore`,
    `/v1/nodes/%2e%2e/restore`,
    `/v1/nodes/../restore`,
    `/v1//nodes/${node}/restore`,
    `//v1/nodes/${node}/restore`,
    `/v1/nodes/${node}/restore/`,
    `/v1/nodes/${node}/RESTORE`,
    `/V1/nodes/${node}/restore`,
    `/v1/nodes/${node};x=y/restore`,
    `/v1/nodes/${node}%00/restore`,
    `/v1/nodes/${node}%0d%0ahost:%20y/restore`,
    `/v1/nodes/${node}%c0%af/restore`,
    `/v1/nodes/${node}%/restore`,
    `/v1/nodes/${node}\\restore`,
    `/v1/nodes/${node.toUpperCase()}/restore`,
    `/v1/nodes/-${node}/restore`,
    `/v1/nodes/__proto__/restore`,
    `/v1/nodes/constructor/restore`,
    `/v1/nodes/*/restore`,
    `/v1/nodes//restore`,
    `/v1/nodes/${'a'.repeat(300)}/restore`,
    `/v1/nodes/${'a/'.repeat(3_000)}restore`,
    '*',
    'http://elsewhere/v1/nodes/x/restore',
    '/',
    '/metrics',
    '/healthz',
  ];
  const codes = ['BadRequest', 'NotFound', 'Forbidden', 'TooLarge'];
  const request = (path: string): string =>
    `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-length: 0\r\n\r\n`;
  const odd = fc
    .string({ minLength: 1, maxLength: 30, unit: fc.constantFrom(...oddCharacters) })
    .map((part) => `/v1/nodes/${part}/restore`);
  const methods = fc
    .constantFrom('DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'GET')
    .map((method) => ({ kind: 'method', text: `${head(target, method, 'drain')}\r\n`, codes }));
  return fc.oneof(
    fc.oneof(fc.constantFrom(...tricks), odd).map((path) => ({ kind: 'path', text: request(path), codes })),
    methods,
  );
}

/** A request that ends before its body does. */
function aborted(target: Target): fc.Arbitrary<RawCase> {
  const { report } = target;
  const headers = `content-type: application/json\r\ncontent-length: ${report.length}\r\n`;
  const whole = `${head(target, 'PUT', 'shadow/status', headers)}\r\n${report}`;
  return fc
    .integer({ min: 1, max: whole.length - 1 })
    .map((length) => ({ kind: 'aborted', text: whole.slice(0, length), codes: ['none', 'BadRequest'], cut: true }));
}

function garbage(): fc.Arbitrary<RawCase> {
  const codes = ['BadRequest', 'none'];
  const starts = fc.constantFrom(
    'GET / HTTP/9.9\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n',
    '\u0016\u0003\u0001\u0000',
    'HTTP/1.1 200 OK\r\n\r\n',
  );
  return fc
    .oneof(starts, fc.string({ unit: 'binary', minLength: 1, maxLength: 200 }))
    .map((text) => ({ kind: 'no HTTP', text: `${text}\r\n\r\n`, codes, cut: true }));
}
