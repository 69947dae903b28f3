import { is } from 'valibot';
import { isLater, isVersion, sameVersion, version } from './version.ts';

const versions: Record<string, [string, boolean]> = {
  'three numbers are a version': ['1.20.0', true],
  'a v in front, as a version lock may have it, is allowed': ['v1.20.0', true],
  'a pre-release is a version': ['1.20.0-rc.1', true],
  'two numbers are none': ['1.20', false],
  'a leading zero is none': ['1.020.0', false],
  'nothing is none': ['', false],
};
test.each(Object.entries(versions))('%s', (_, [text, expected]) => expect(isVersion(text)).toBe(expected));

const pairs: Record<string, [string | undefined, string | undefined, boolean]> = {
  'the same text is the same release': ['1.20.0', '1.20.0', true],
  'a v makes no difference': ['v1.20.0', '1.20.0', true],
  'build metadata makes no difference': ['1.20.0+a', '1.20.0+b', true],
  'a pre-release is another release': ['1.20.0-rc.1', '1.20.0', false],
  'an older release is another one': ['1.20.0', '1.19.0', false],
  'texts that are no versions differ when they differ': ['x', 'y', false],
  'the lock that is no version equals itself': ['latest', 'latest', true],
  'an absent version equals nothing': [undefined, undefined, false],
};
test.each(Object.entries(pairs))('%s', (_, [a, b, expected]) => expect(sameVersion(a, b)).toBe(expected));

test('objects and messages take no version with a v in front, and none that is too long', () => {
  expect(
    ['1.20.0', '1.20.0+x', 'v1.20.0', `1.20.0-${'a'.repeat(122)}`, null].map((value) => is(version, value)),
  ).toEqual([true, true, false, false, false]);
});

const orders: Record<string, [string, string, boolean]> = {
  'numbers are compared as numbers': ['1.10.0', '1.9.9', true],
  'an earlier release is not later': ['1.9.9', '1.10.0', false],
  'a release is not later than itself': ['1.20.0', 'v1.20.0+a', false],
  'a release is later than its pre-release': ['1.20.0', '1.20.0-rc.1', true],
  'a pre-release is not later than its release': ['1.20.0-rc.1', '1.20.0', false],
  'what is no version is not later': ['latest', '1.20.0', false],
  'nothing is later than what is no version': ['1.20.0', 'latest', false],
};
test.each(Object.entries(orders))('%s', (_, [a, b, expected]) => expect(isLater(a, b)).toBe(expected));
