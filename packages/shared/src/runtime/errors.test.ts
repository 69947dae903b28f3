import fc from 'fast-check';
import { ConfigError } from './env.ts';
import { describe as described, escapeInvisible, messageOf, printable, shorten } from './errors.ts';

describe('messageOf', () => {
  it('includes the causes of an error', () => {
    const error = new ConfigError('cannot read the file', { cause: new Error('no such file') });
    expect(messageOf(error)).toBe('cannot read the file: no such file');
  });

  it('returns a text for any thrown value', () => {
    expect([messageOf('text'), messageOf(undefined), messageOf(new TypeError(''))]).toEqual([
      'text',
      'undefined',
      'TypeError',
    ]);
  });
});

/** As nodes could send them: each character that forges or hides text on some display. */
const HOSTILE = [
  ['a control character', '\u0000'],
  ['an escape sequence', '\u001B'],
  ['a line break', '\n'],
  ['a carriage return', '\r'],
  ['a delete', '\u007F'],
  ['a C1 line break', '\u0085'],
  ['a C1 escape sequence', '\u009B'],
  ['a soft hyphen', '\u00AD'],
  ['an Arabic letter mark', '\u061C'],
  ['a zero-width space', '\u200B'],
  ['a zero-width joiner', '\u200D'],
  ['a right-to-left mark', '\u200F'],
  ['a line separator', '\u2028'],
  ['a paragraph separator', '\u2029'],
  ['a right-to-left override', '\u202E'],
  ['a word joiner', '\u2060'],
  ['an isolate', '\u2066'],
  ['the end of an isolate', '\u2069'],
  ['a byte order mark', '\uFEFF'],
  ['a noncharacter', '\uFFFF'],
  ['half a surrogate pair', '\uD83D'],
  ['a private character', '\uE000'],
  ['a tag', '\u{E0041}'],
] as const;

describe('a text for users', () => {
  it.each(HOSTILE)('shows %s as U+FFFD', (_what, character) => {
    expect(printable(`a${character}b`)).toBe('a\uFFFDb');
    expect(messageOf(new Error(`a${character}b`, { cause: `${character}c` }))).toBe('a\uFFFDb: \uFFFDc');
    expect(described(`a${character}b`)).not.toContain(character);
  });

  it('keeps letters of every script, signs and emoji', () => {
    const text = 'no space left: 10 % of 3 µs, größer, 日本語, עברית, العربية, 🥲 "\\"';
    expect(printable(text)).toBe(text);
  });

  it('is shortened to one line without splitting a surrogate pair', () => {
    expect(shorten('🥲'.repeat(60), 100)).toMatch(/^[🥲\uFFFD … ]{1,100}$/u);
    expect(shorten('a\r\nb\u2028c\u0085\td', 100)).toBe('a; b; c; d');
  });

  it('is printable and within its limit for any input', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), fc.integer({ min: 20, max: 200 }), (text, length) => {
        const short = shorten(text, length);
        expect(short.length).toBeLessThanOrEqual(length + 3);
        expect(printable(short)).toBe(short);
      }),
    );
  });
});

describe('a line of JSON', () => {
  it.each(HOSTILE)('escapes %s so that it is parsed as the same character', (_what, character) => {
    const escaped = escapeInvisible(JSON.stringify({ text: `a${character}b` }));
    expect(escaped).toMatch(/^[ -~]+$/);
    expect(JSON.parse(escaped)).toEqual({ text: `a${character}b` });
  });
});
