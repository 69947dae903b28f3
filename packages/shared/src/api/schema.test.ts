import * as v from 'valibot';
import { closedObject, flag, ifReadable, list, object, oneOf, parse, text, time, unlessNull, whole } from './schema.ts';

const port = object({
  name: text(5),
  number: whole(1, 65_535),
  protocol: v.exactOptional(oneOf(['TCP', 'UDP'])),
});
const service = object({ ports: list(port, 2), open: ifReadable(flag()), since: unlessNull(time()) });
const read = (value: unknown): unknown => parse(service, value, 'service', (message) => new Error(message));

it('leaves out unknown fields, fields that may be unreadable and are, and fields that are null', () => {
  const ports = [{ name: 'a', number: 1 }];
  expect(read({ ports, open: 'yes', since: null, more: 1 })).toStrictEqual({ ports });
  expect(read({ ports, open: true, since: '2026-01-02T03:04:05Z' })).toStrictEqual({
    ports,
    open: true,
    since: '2026-01-02T03:04:05Z',
  });
});

it.each<readonly [string, unknown, string]>([
  ['a list instead of an object', [], 'service: expected an object, found a list'],
  ['nothing', undefined, 'service: expected an object, found nothing'],
  ['an absent field', {}, 'service.ports: expected a list, found nothing'],
  ['too many items', { ports: [{}, {}, {}] }, 'service.ports[0].name: expected a text of at most 5 characters'],
  [
    'a number over its bound',
    { ports: [{ name: 'a', number: 1e9 }] },
    'service.ports[0].number: expected a whole number from 1 to 65535, found 1000000000',
  ],
  [
    'a value that is not listed',
    { ports: [{ name: 'a', number: 1, protocol: 'tcp' }] },
    'service.ports[0].protocol: expected one of TCP, UDP, found "tcp"',
  ],
  [
    'a day that does not exist',
    { ports: [], since: '2026-13-02T03:04:05Z' },
    'service.since: expected an RFC 3339 time',
  ],
])('refuses %s and names the field', (_name, value, message) => {
  expect(() => read(value)).toThrow(message);
});

it('refuses unknown fields of a closed object, even if every object has a property of that name', () => {
  const closed = closedObject({ a: flag() });
  const readClosed = (text: string): unknown =>
    parse(closed, JSON.parse(text), 'body', (message) => new Error(message));
  expect(readClosed('{"a":true}')).toEqual({ a: true });
  expect(() => readClosed('{"a":true,"__proto__":1}')).toThrow('body.__proto__: expected no such field, found 1');
  expect(() => readClosed('{"a":true,"toString":1}')).toThrow('body.toString: expected no such field, found 1');
});
