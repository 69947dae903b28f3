import fc from 'fast-check';
import { NODE_GROUP_KIND } from './names.ts';
import * as s from './schema.ts';
import {
  canonical,
  hashOf,
  IGNORE_WAVES,
  isSecret,
  leavesOf,
  MAX_KEY,
  nestedOf,
  parseExact,
  sameValue,
  settingKey,
  settingValue,
  VERSION_LOCK,
} from './settings.ts';
import { record, setting } from './shadow.ts';

/** Names of the host's data model, and names that objects of JavaScript have already. */
const name = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_/-]{1,8}$/u),
  fc.stringMatching(/^[a-z]{1,4}\.[a-z/]{1,4}$/u),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'hasOwnProperty', '0', '12'),
);
const scalar = fc.oneof(fc.string(), fc.integer(), fc.boolean());
const value = fc.oneof(scalar, fc.array(fc.oneof(scalar, fc.dictionary(name, scalar))));
/** Nested settings as JSON carries them, so that `__proto__` is a name like any other. */
const nested = fc
  .letrec<{ tree: unknown }>((tie) => ({
    tree: fc.oneof({ maxDepth: 4 }, value, fc.dictionary(name, tie('tree'), { minKeys: 1, maxKeys: 4 })),
  }))
  .tree.filter((tree) => s.isFields(tree))
  .map((tree): unknown => JSON.parse(JSON.stringify(tree)));

it('splits nested settings into leaves and puts them together again', () => {
  fc.assert(
    fc.property(nested, (settings) => {
      const leaves = leavesOf(settings);
      expect(canonical(nestedOf(leaves))).toBe(canonical(settings));
      expect([...leaves.keys()].filter((key) => key.length <= MAX_KEY && !s.is(settingKey, key))).toEqual([]);
      expect([...leaves.values()].filter((text) => text.length <= 100 && !s.is(settingValue, text))).toEqual([]);
    }),
  );
});

it('changes no object of the program, whatever the names are', () => {
  const leaves = leavesOf(JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":1}}}'));
  expect([...leaves.keys()]).toEqual(['settings.__proto__.polluted', 'settings.constructor.prototype.polluted']);
  nestedOf(leaves);
  expect(Reflect.get({}, 'polluted')).toBeUndefined();
});

it.each<readonly [string, unknown, Record<string, string>]>([
  ['a text', { motd: 'hello' }, { 'settings.motd': '"hello"' }],
  ['a name with dots', { kernel: { sysctl: { 'vm.x': '1' } } }, { 'settings.kernel.sysctl."vm.x"': '"1"' }],
  ['a list, which is one value', { ntp: { 'time-servers': ['a', 'b'] } }, { 'settings.ntp.time-servers': '["a","b"]' }],
  ['a list of objects, with sorted names', { a: [{ c: 1, b: 2 }] }, { 'settings.a': '[{"b":2,"c":1}]' }],
  ['null, which the host takes as not given', { motd: null, ntp: { options: null } }, {}],
  ['an object without fields', { kubernetes: {} }, {}],
  [
    'parameters of the boot, by the names with which the host answers',
    { boot: { 'kernel-parameters': { 'a.b': ['1'] }, 'init-parameters': { c: [] }, 'reboot-to-reconcile': true } },
    {
      'settings.boot.kernel."a.b"': '["1"]',
      'settings.boot.init.c': '[]',
      'settings.boot.reboot-to-reconcile': 'true',
    },
  ],
])('takes the leaves of %s', (_what, settings, leaves) => {
  expect(Object.fromEntries(leavesOf(settings))).toEqual(leaves);
});

it.each([
  'motd',
  'settings',
  'settings.',
  'settings..motd',
  'settings.a b',
  'settings."a',
  'settings.""',
  'settings."a"b"',
  String.raw`settings."a\"b"`,
  'settings.a,settings.b',
  'settings.ä',
  'settings.a\n',
  `settings.${'a'.repeat(MAX_KEY)}`,
])('refuses the key %j', (key) => {
  expect(s.is(settingKey, key)).toBe(false);
});

it.each(['a"b', '', 'a b', 'a,b', 'a\nb', 'ä', 'a\\'])('makes no key of a field named %j', (field) => {
  expect([...leavesOf({ motd: { [field]: 1 } }).keys()].filter((key) => s.is(settingKey, key))).toEqual([]);
});

it.each(['', 'text', "'text'", ' "a"', '[1, 2]', '01', '1.0', '[{"b":1,"a":2}]', 'undefined', '9007199254740993'])(
  'refuses %j as a value, since it is not compact JSON',
  (text) => {
    expect(s.is(settingValue, text)).toBe(false);
  },
);

it.each(['null', '{}', '{"a":1}'])('refuses %s as a value: no leaf has it', (text) => {
  expect(s.is(settingValue, text)).toBe(false);
});

it.each([
  '9223372036854775807',
  '-9223372036854775808',
  '9007199254740993',
  '[18446744073709551615,1,"9223372036854775807"]',
  '9007199254740991',
  '-1',
  '0.5',
  '1e+21',
])('carries the number of a host as it is: %s', (number) => {
  const text = `{"a":{"b":${number}}}`;
  const leaves = leavesOf(parseExact(text));
  expect([...leaves]).toEqual([['settings.a.b', number]]);
  expect(canonical(nestedOf(leaves))).toBe(text);
});

it('gives equal values equal texts', () => {
  const object = fc.dictionary(name, fc.jsonValue());
  fc.assert(
    fc.property(object, (one) => {
      const shuffled = Object.fromEntries(Object.entries(one).toReversed());
      expect(canonical([shuffled])).toBe(canonical([one]));
    }),
  );
});

it.each<readonly [string, string | undefined, string | undefined, boolean]>([
  [VERSION_LOCK, '"v1.27.0"', '"1.27.0"', true],
  [VERSION_LOCK, '"1.27.0+build"', '"1.27.0"', true],
  [VERSION_LOCK, '"latest"', '"1.27.0"', false],
  [VERSION_LOCK, undefined, '"1.27.0"', false],
  [VERSION_LOCK, '1', '"1"', false],
  ['settings.motd', '"v1.27.0"', '"1.27.0"', false],
  ['settings.motd', undefined, undefined, true],
  [IGNORE_WAVES, 'true', 'true', true],
])('compares values of %s: %s and %s', (key, a, b, same) => {
  expect(sameValue(key, a, b)).toBe(same);
  expect(sameValue(key, b, a)).toBe(same);
});

it('has a hash that depends on keys and values, not on their order', () => {
  const leaves: [string, string][] = [
    ['settings.b', '"1"'],
    ['settings.a', '2'],
  ];
  expect(hashOf(leaves)).toMatch(/^[0-9a-f]{16}$/u);
  expect(hashOf(leaves.toReversed())).toBe(hashOf(leaves));
  expect(hashOf([['settings.b', '"1"']])).not.toBe(hashOf(leaves));
  expect(hashOf([['settings.b', '1"settings.a"2']])).not.toBe(hashOf(leaves));
});

it.each([
  ['settings.motd', 'settings.motd.x'],
  ['settings.motd.x', 'settings.motd'],
  ['settings.motd', 'settings.motd'],
])('refuses to put %s and %s together', (...keys) => {
  expect(() => nestedOf(keys.map((key) => [key, '1']))).toThrow(/^settings\.motd.*: another setting has a value/u);
});

it.each([
  'aws.config',
  'aws.credentials',
  'bootstrap-containers.x.user-data',
  'container-registry.credentials',
  'container-registry.credentials.x',
  'container-registry.creds',
  // A list in the place of an object.
  'aws',
  'host-containers.admin',
  'host-containers."my.admin".user-data',
  'host-containers.admin.user-data',
  'kubernetes.bootstrap-token',
  'kubernetes.server-key',
])('%s holds a secret', (key) => {
  expect(isSecret(`settings.${key}`)).toBe(true);
});

it.each(['aws.region', 'container-registry.mirrors', 'host-containers.admin.enabled', 'kubernetes.server-certificate'])(
  '%s holds no secret',
  (key) => {
    expect(isSecret(`settings.${key}`)).toBe(false);
  },
);

it('a group with the longest name may own settings', () => {
  const one = (owner: string): object => ({ key: 'settings.motd', value: '"hello"', owner });
  const owner = `${NODE_GROUP_KIND}/${'a'.repeat(63)}`;
  expect([s.is(setting, one(owner)), s.is(record, one(owner))]).toEqual([true, true]);
  expect(s.is(setting, one(`${owner}a`))).toBe(false);
});
