import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { excesses, readPackage, violations } from '../../scripts/structure.ts';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'brupop-structure-'));
});

afterEach(() => rmSync(root, { recursive: true }));

/** The violations in a package `one` with these files. */
function violationsOf(files: Readonly<Record<string, string>>, rooms: readonly string[] = ['low', 'high']): string[] {
  for (const [path, text] of Object.entries(files)) {
    const file = join(root, 'packages/one/src', path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  return violations('one', readPackage(root, 'one'), rooms);
}

it('imports of lower rooms and of shared are no violations', () => {
  const text = "import { a } from '../low/a.ts';\nimport { b } from '@brupop/shared/api/b';\n";
  expect(violationsOf({ 'low/a.ts': '', 'high/c.ts': text, 'high/c.test.ts': "import '../testing/d.ts';" })).toEqual(
    [],
  );
});

it.each([
  ['of a value', "import { b } from '../high/b.ts';"],
  ['of a type', "import type { B } from '../high/b.ts';"],
  ['inside a type', "type B = import('../high/b.ts').B;"],
  ['that is exported again', "export { type B } from '../high/b.ts';"],
  ['by the name of the package', "import { b } from '@brupop/one/high/b';"],
])('an upward import %s is a violation', (_, text) => {
  expect(violationsOf({ 'low/a.ts': text, 'high/b.ts': '' })).toEqual([
    'packages/one/src/low/a.ts imports high/b.ts, which lies above it',
  ]);
});

it.each([
  ['above its parent', ['low', 'low/inner'], 'packages/one/src/low/a.ts imports low/inner/c.ts, which lies above it'],
  ['below its parent', ['low/inner', 'low'], 'packages/one/src/low/inner/b.ts imports low/d.ts, which lies above it'],
])('a folder inside another one, listed %s, is a room of its own', (_, rooms, expected) => {
  const files = {
    'low/a.ts': "import type { C } from './inner/c.ts';",
    'low/inner/b.ts': "import type { D } from '../d.ts';",
    'low/inner/c.ts': '',
    'low/d.ts': '',
  };
  expect(violationsOf(files, rooms)).toEqual([expected]);
});

it('a folder inside another one that is not listed is a violation', () => {
  expect(violationsOf({ 'low/inner/a.ts': '' })).toEqual([
    'packages/one/src/low/inner is missing in ROOMS of scripts/structure.ts',
  ]);
});

it('a cycle of type imports is a violation', () => {
  const files = {
    'low/a.ts': "import type { B } from './b.ts';",
    'low/b.ts': "import type { C } from './c.ts';",
    'low/c.ts': "import type { A } from './a.ts';",
  };
  const [a, b, c] = Object.keys(files).map((path) => `packages/one/src/${path}`);
  expect(violationsOf(files)).toEqual([`${a} -> ${b} -> ${c} -> ${a} is an import cycle`]);
});

it.each([
  ['another service', '@brupop/two/main'],
  ['a test double', '../testing/fake.ts'],
  ['a test double of shared', '@brupop/shared/testing/fake'],
])('an import of %s is a violation', (_, specifier) => {
  expect(violationsOf({ 'low/a.ts': `import '${specifier}';` })).toHaveLength(1);
});

it('a room that is not listed is a violation', () => {
  expect(violationsOf({ 'new.ts': '' })).toEqual([
    'packages/one/src/new.ts is missing in ROOMS of scripts/structure.ts',
  ]);
});

it('a folder with more floors or arrows than its limits is a violation', () => {
  const files = {
    'plan/a.ts': "import './b/c.ts';\nimport './d.ts';",
    'plan/b/c.ts': "import '../d.ts';\nimport './e.ts';",
    'plan/b/e.ts': '',
    'plan/d.ts': '',
  };
  violationsOf(files, ['plan']);
  const read = readPackage(root, 'one');
  expect(excesses('plan', read, { floors: 3, arrows: 3 })).toEqual([]);
  expect(excesses('plan', read, { floors: 2, arrows: 2 })).toEqual([
    'plan has 3 floors, expected at most 2',
    'plan has 3 arrows, expected at most 2',
  ]);
});
