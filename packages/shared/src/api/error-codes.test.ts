import { ERROR_CODES, isErrorCode, messageOf, OperationError } from './error-codes.ts';

describe('the text of an error', () => {
  it('includes its causes', () => {
    const error = new OperationError('PrepareFailed', 'prepare failed', { cause: new Error('no space') });
    expect(messageOf(error)).toBe('prepare failed: no space');
  });

  it('exists for whatever is thrown', () => {
    expect([messageOf('text'), messageOf(undefined), messageOf(new TypeError(''))]).toEqual([
      'text',
      'undefined',
      'TypeError',
    ]);
  });
});

describe('error codes', () => {
  it('are a closed list', () => {
    expect(Object.keys(ERROR_CODES).every(isErrorCode)).toBe(true);
    expect([isErrorCode('toString'), isErrorCode('Other')]).toEqual([false, false]);
  });
});
