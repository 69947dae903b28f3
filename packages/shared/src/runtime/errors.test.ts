import { ConfigError } from './env.ts';
import { messageOf } from './errors.ts';

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
