import fc from 'fast-check';
import type { Json } from '../tokens.ts';

/** A body and its content type. */
export interface BodyCase {
  readonly kind: string;
  readonly body: Buffer;
  /** Default `application/json`; undefined: no header. */
  readonly contentType?: string | undefined;
  readonly encoding?: string;
  readonly chunked?: boolean;
}

const json = 'application/json';
const text = (kind: string, value: string): BodyCase => ({ kind, body: Buffer.from(value), contentType: json });

/** Bodies that differ from `valid`, except by chance. */
export function bodyCases(valid: Json): fc.Arbitrary<BodyCase> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.json({ maxDepth: 4 }).map((value) => text('any JSON', value)) },
    { weight: 8, arbitrary: mutated(valid).map((value) => text('one thing changed', JSON.stringify(value))) },
    { weight: 4, arbitrary: mistyped(JSON.stringify(valid)).map((value) => text('one character changed', value)) },
    { weight: 3, arbitrary: fc.constantFrom(...nasty(valid)).map((value) => text('known to hurt parsers', value)) },
    { weight: 2, arbitrary: deep().map((value) => text('deep', value)) },
    { weight: 2, arbitrary: sized(valid) },
    {
      weight: 2,
      arbitrary: fc
        .uint8Array({ maxLength: 300 })
        .map((bytes) => ({ kind: 'any bytes', body: Buffer.from(bytes), contentType: json })),
    },
    { weight: 3, arbitrary: announced(valid) },
  );
}

/** A copy in which one field is changed, removed, renamed, or gets a sibling. */
function mutated(valid: Json): fc.Arbitrary<unknown> {
  const places = placesIn(valid);
  const names = fc.oneof(
    fc.constantFrom('__proto__', 'constructor', 'toString', 'Status', 'shadowuid', ''),
    fc.string(),
  );
  return fc
    .tuple(fc.constantFrom(...places), fc.nat(3), values(), names)
    .map(([place, how, value, name]) =>
      change(valid, place, (key, parent) => edits[how]?.(key, parent, value, name) ?? parent),
    );
}

type Edit = (key: string, parent: Json, value: unknown, name: string) => Json;

const edits: readonly Edit[] = [
  (key, parent, value) => ({ ...parent, [key]: value }),
  (key, parent) => Object.fromEntries(Object.entries(parent).filter(([one]) => one !== key)),
  (key, parent, _value, name) =>
    Object.fromEntries(Object.entries(parent).map(([one, value]) => [one === key ? name : one, value])),
  (_key, parent, value, name) => Object.fromEntries([...Object.entries(parent), [name, value]]),
];

function values(): fc.Arbitrary<unknown> {
  const numbers = fc.constantFrom(-1, -0, 0, 1.5, 2 ** 31 - 1, 2 ** 31, 2 ** 53, 1e308, 5e-324);
  const texts = [
    '',
    ' ',
    '\u0000',
    '\ud800',
    '1.2.3',
    '1.2.3-\u0661',
    '2026-02-30T00:00:00Z',
    '2026-01-02T24:00:00Z',
    '9999-12-31T23:59:59.999999999+23:59',
    '0000-01-01T00:00:00Z',
    '🥲'.repeat(2_000),
  ];
  return fc.oneof(
    fc.jsonValue(),
    numbers,
    fc.constantFrom(...texts),
    fc.constantFrom('Idle', 'RolledBack', 'Drain', 'Failed', 'Succeeded'),
  );
}

function placesIn(value: Json, path: readonly string[] = []): string[][] {
  return Object.entries(value).flatMap(([key, inner]): string[][] => {
    const here = [...path, key];
    return typeof inner === 'object' && inner !== null ? [here, ...placesIn(inner as Json, here)] : [here];
  });
}

function change(value: Json, [key = '', ...rest]: readonly string[], edit: (key: string, parent: Json) => Json): Json {
  if (rest.length === 0) return edit(key, value);
  return { ...value, [key]: change(value[key] as Json, rest, edit) };
}

/** A character of the text removed, doubled, or replaced. */
function mistyped(valid: string): fc.Arbitrary<string> {
  const other = fc.constantFrom(
    '',
    '"',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '\\',
    '0',
    '-',
    '.',
    'e',
    '\u0000',
    '\u2028',
    '//',
    '\ufeff',
    ' ',
  );
  return fc
    .tuple(fc.nat(valid.length - 1), other, fc.boolean())
    .map(([at, by, insert]) => valid.slice(0, at) + by + valid.slice(insert ? at : at + 1));
}

const primitives: readonly string[] = ['null', 'true', '0', '"x"', '', ' ', '[]', '{}', '[[]]'];

function nasty(valid: Json): string[] {
  const report = JSON.stringify(valid);
  const inside = (more: string): string => report.replace('{', `{${more},`);
  const numbers = [
    'NaN',
    'Infinity',
    '-Infinity',
    '1e400',
    '-1e400',
    '0x10',
    '01',
    '1_000',
    '.5',
    '5.',
    '+1',
    '1e',
    '--1',
    '9'.repeat(400),
  ];
  return [
    ...numbers.map((number) => report.replace('"crash_count":0', `"crash_count":${number}`)),
    ...[
      '"__proto__":{"a":1}',
      '"constructor":{"prototype":{"a":1}}',
      '"shadowUID":"twice"',
      '"status":{}',
      '"status":null',
    ].map(inside),
    report.replace('"crash_count":0', '"crash_count":1,"crash_count":2'),
    report.replace('"crash_count":0', '"crash_count":{"__proto__":0}'),
    report.replace('"Idle"', '"\\u0049dle"'),
    report.replace('"Idle"', "'Idle'"),
    `${report}${report}`,
    `${report},`,
    `\ufeff${report}`,
    `/* */${report}`,
    `[${report}]`,
    JSON.stringify(report),
    ...primitives,
  ];
}

function deep(): fc.Arbitrary<string> {
  const depth = fc.integer({ min: 100, max: 32_000 });
  return fc
    .tuple(depth, fc.constantFrom('[', '{"a":', '[{"status":'), fc.boolean(), fc.boolean())
    .map(([levels, open, closed, inside]) => {
      const count = Math.min(levels, Math.floor(60_000 / (open.length * 2)));
      const close = open === '[' ? ']' : open.startsWith('[') ? '}]' : '}';
      const nested = open.repeat(count) + (closed ? `0${close.repeat(count)}` : '');
      return inside ? `{"shadowUID":${nested},"generation":1}` : nested;
    });
}

/** Around the limit of 64 KiB and far beyond. */
function sized(valid: Json): fc.Arbitrary<BodyCase> {
  const size = fc.oneof(fc.integer({ min: 60_000, max: 70_000 }), fc.integer({ min: 70_000, max: 150_000 }));
  return fc.tuple(size, fc.nat(2), fc.boolean()).map(([length, how, chunked]) => {
    const fillers = [
      { ...valid, filler: 'x'.repeat(length) },
      { ...valid, shadowUID: Array.from({ length: Math.floor(length / 2) }, () => 0) },
      Object.fromEntries(Array.from({ length: Math.floor(length / 10) }, (_, index) => [`k${index}`, 0])),
    ];
    return { ...text('large', JSON.stringify(fillers[how])), chunked };
  });
}

/** A valid body with another content type. */
function announced(valid: Json): fc.Arbitrary<BodyCase> {
  const body = Buffer.from(JSON.stringify(valid));
  const types = [
    'text/plain',
    'text/json',
    'application/json-patch+json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'json',
    ';',
    `${json}; charset=latin1`,
    `${json}; charset=utf-16`,
    `${json}; charset=utf-7`,
    `${json}; charset=utf-32`,
    `${json}; charset=x`,
    `${json}; charset="`,
    undefined,
  ];
  const kind = 'announced wrongly';
  const typed = fc.constantFrom(...types).map((contentType) => ({ kind, body, contentType }));
  const encoded = fc
    .constantFrom('gzip', 'deflate', 'br', 'zstd', 'x', 'identity, gzip')
    .map((encoding) => ({ kind, body, contentType: json, encoding }));
  return fc.oneof(typed, encoded);
}
