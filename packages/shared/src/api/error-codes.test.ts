import { ERROR_CODES, isErrorCode } from './error-codes.ts';

test('error codes are a closed list', () => {
  expect(Object.keys(ERROR_CODES).every(isErrorCode)).toBe(true);
  expect([isErrorCode('toString'), isErrorCode('Other')]).toEqual([false, false]);
});
