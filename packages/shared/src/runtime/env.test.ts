import { ConfigError, integer, oneOf, requiredText, text } from './env.ts';

describe('reading settings', () => {
  const range = { min: 1, max: 10, fallback: 3 };

  it('returns a value that is set', () => {
    const env = { NAME: 'x', COUNT: '7', KIND: 'b' };
    expect([requiredText(env, 'NAME'), integer(env, 'COUNT', range), oneOf(env, 'KIND', ['a', 'b'], 'a')]).toEqual([
      'x',
      7,
      'b',
    ]);
  });

  it('returns the default for an absent and for an empty value', () => {
    expect([text({}, 'A', 'd'), text({ A: '' }, 'A', 'd'), integer({ A: '' }, 'A', range)]).toEqual(['d', 'd', 3]);
  });

  it.each(['0', '11', '1.5', 'ten', '1e9'])('rejects the number %p and says what it expects', (value) => {
    expect(() => integer({ COUNT: value }, 'COUNT', range)).toThrow(
      new ConfigError(`COUNT: expected a whole number from 1 to 10, found "${value}"`),
    );
  });

  it('rejects a required setting that is empty', () => {
    expect(() => requiredText({ NAME: '' }, 'NAME')).toThrow(/NAME: expected a value, found none/u);
  });

  it('rejects a value outside a list', () => {
    expect(() => oneOf({ KIND: 'c' }, 'KIND', ['a', 'b'], 'a')).toThrow('KIND: expected one of a, b, found "c"');
  });
});
