/**
 * Prints the size and the room imports of each package, and fails on an import that runs upward or in a circle.
 *
 * A room is what lies directly below `packages/NAME/src`: a folder or a file. ROOMS lists the rooms from the lowest to the highest.
 * An import of a value or of a type, static or dynamic, may only go to the same room or to a lower one, so the rooms can be read from
 * the bottom up. A service may import `shared`, and no other package. Tests and the `testing` folders are not part of the product:
 * they may import everything, and nothing in the product imports them.
 *
 * `node scripts/structure.ts [PACKAGE…]` prints the figures, `node scripts/structure.ts --check [PACKAGE…]` prints only violations.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';

const root = join(import.meta.dirname, '..');

/** The rooms of each package from the lowest to the highest. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  shared: ['runtime', 'api', 'kube', 'node', 'drain'],
  agent: [
    'limits.ts',
    'http',
    'host',
    'apiserver',
    'actions.ts',
    'state',
    'decide',
    'agent.ts',
    'config.ts',
    'main.ts',
  ],
  apiserver: [
    'errors.ts',
    'metrics.ts',
    'http',
    'auth',
    'nodes',
    'shadows',
    'drain',
    'readiness.ts',
    'routes.ts',
    'app.ts',
    'config.ts',
    'main.ts',
  ],
  controller: ['policy', 'cluster', 'plan', 'metrics.ts', 'apply', 'controller.ts', 'config.ts', 'main.ts'],
};

interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly lines: number;
  /** Paths below `src` of the files of the same package that it imports. */
  readonly imports: readonly string[];
  /** Imports of other workspaces and of files outside `src`, such as `@brupop/shared/kube/client`. */
  readonly outside: readonly string[];
}

/** What follows `from`, `import` or `import(`, in code and in types. */
const SPECIFIER = /\b(?:from|import)\s*\(?\s*['"`](?<specifier>[^'"`]+)['"`]/gu;

function readPackage(name: string): SourceFile[] {
  const source = join(root, 'packages', name, 'src');
  return readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.startsWith('testing/'))
    .toSorted()
    .map((path) => {
      const text = readFileSync(join(source, path), 'utf8');
      const own = `@brupop/${name}/`;
      const specifiers = [...text.matchAll(SPECIFIER)].map(({ groups }) => groups?.['specifier'] ?? '');
      const local = specifiers.flatMap((one) => {
        if (one.startsWith(own)) return [`${one.slice(own.length)}.ts`];
        return one.startsWith('.') ? [normalize(join(path, '..', one))] : [];
      });
      return {
        path,
        room: roomOf(path),
        lines: text.split('\n').length - 1,
        imports: local.filter((to) => !to.startsWith('..')),
        outside: [
          ...local.filter((to) => to.startsWith('..')),
          ...specifiers.filter((one) => one.startsWith('@brupop/') && !one.startsWith(own)),
        ],
      };
    });
}

function roomOf(path: string): string {
  return path.split('/')[0] ?? path;
}

const isForeign = (to: string): boolean => !to.startsWith('@brupop/shared/') || to.includes('/testing/');

/** A line for each violation in a package. */
function violations(name: string, files: readonly SourceFile[]): string[] {
  const rooms = ROOMS[name] ?? [];
  const where = (path: string): string => join('packages', name, 'src', path);
  const isUpward = (from: string, to: string): boolean =>
    roomOf(to) === 'testing' || rooms.indexOf(roomOf(to)) > rooms.indexOf(from);
  const unknown = new Set(files.map(({ room }) => room).filter((room) => !rooms.includes(room)));
  return [
    ...[...unknown].map((room) => `${where(room)} is missing in ROOMS of scripts/structure.ts`),
    ...files.flatMap(({ path, room, imports, outside }) => [
      ...imports.filter((to) => isUpward(room, to)).map((to) => `${where(path)} imports ${to}, which lies above it`),
      ...outside.filter(isForeign).map((to) => `${where(path)} imports ${to}, which the product may not import`),
    ]),
    ...circles(files).map((circle) => `${circle.map(where).join(' -> ')} is a circle of imports`),
  ];
}

/** A circle for each import that closes one, found by a depth-first walk from every file. */
function circles(files: readonly SourceFile[]): string[][] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const done = new Set<string>();
  const found: string[][] = [];
  const visit = (path: string, trail: readonly string[]): void => {
    if (trail.includes(path)) found.push([...trail.slice(trail.indexOf(path)), path]);
    if (done.has(path) || trail.includes(path)) return;
    for (const next of byPath.get(path)?.imports ?? []) visit(next, [...trail, path]);
    done.add(path);
  };
  for (const { path } of files) visit(path, []);
  return found;
}

/** Rooms, pairs of rooms of which one imports the other, and circles. */
function figures(files: readonly SourceFile[]): number[] {
  const pairs = files.flatMap(({ room, imports }) =>
    imports.flatMap((to) => (roomOf(to) === room ? [] : `${room} ${roomOf(to)}`)),
  );
  return [new Set(files.map(({ room }) => room)).size, new Set(pairs).size, circles(files).length];
}

function print(packages: readonly (readonly [string, readonly SourceFile[]])[]): void {
  const size = (files: readonly SourceFile[]): number[] => [
    files.length,
    files.reduce((sum, { lines }) => sum + lines, 0),
  ];
  const rows = [
    ['package', 'files', 'lines', 'rooms', 'imports', 'circles'],
    ...packages.map(([name, files]) => [name, ...size(files), ...figures(files)]),
    ['all', ...size(packages.flatMap(([, files]) => files))],
  ];
  for (const [name, ...cells] of rows)
    process.stdout.write(`${String(name).padEnd(11)}${cells.map((cell) => String(cell).padStart(8)).join('')}\n`);
}

const names = process.argv.slice(2).filter((argument) => argument !== '--check');
const packages = (names.length === 0 ? Object.keys(ROOMS) : names).map((name) => [name, readPackage(name)] as const);
if (!process.argv.includes('--check')) print(packages);
const found = packages.flatMap(([name, files]) => violations(name, files));
for (const line of found) process.stderr.write(`${line}\n`);
process.exitCode = found.length === 0 ? 0 : 1;
