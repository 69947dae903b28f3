import fc from 'fast-check';
import { parse } from 'yaml';
import { applyBody } from './client.ts';

describe('the body of a server-side apply', () => {
  it.each([
    ['a line separator', 'a\u2028b', '"a\\u2028b"'],
    ['a next line', 'a\u0085 b', '"a\\u0085 b"'],
    ['a delete character', '\u007f', '"\\u007f"'],
    ['a byte order mark', '\ufeff', '"\\ufeff"'],
    ['half a pair', 'a\ud800b', '"a\\ufffdb"'],
    ['half a pair behind a backslash', '\\\ud800', '"\\\\\\ufffd"'],
    ['a text that only looks like half a pair', '\\ud800', '"\\\\ud800"'],
    ['a whole pair', '🥲', '"🥲"'],
  ])('writes %s so that YAML keeps it', (_what, text, written) => {
    expect(applyBody(text)).toBe(written);
  });

  it('means the same as JSON and as YAML', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (message) => {
        const body = applyBody({ message });
        const expected = { message: message.toWellFormed() };
        expect([JSON.parse(body), parse(body)]).toEqual([expected, expected]);
      }),
    );
  });
});
