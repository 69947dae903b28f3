/**
 * Prints the size and the imports of each package, and fails on an import that runs upward or in a circle.
 *
 * A room is what lies directly below `packages/NAME/src`: a folder or a file. ROOMS lists them from the lowest to the highest.
 * An import, of a value or of a type, may only go to the same room or to a lower one, so the rooms can be read from the bottom up.
 * Tests and the `testing` folders are not part of the product: they may import everything, and nothing in the product imports them.
 *
 * `node scripts/structure.ts` prints the figures, `node scripts/structure.ts --check` prints only what is wrong.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, normalize } from 'node:path';

const root = join(import.meta.dirname, '..');

/** The rooms of each package from the lowest to the highest. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  shared: ['runtime', 'api', 'kube', 'node', 'drain'],
  agent: [
    'http',
    'limits.ts',
    'host',
    'apiserver',
    'action.ts',
    'state',
    'decide',
    'act.ts',
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
  controller: ['cluster', 'policy', 'plan', 'metrics.ts', 'apply', 'controller.ts', 'config.ts', 'main.ts'],
};

interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly lines: number;
  /** Paths below `src` of the files of the same package that it imports. */
  readonly imports: readonly string[];
  /** Imports of a `testing` folder of another package. */
  readonly doubles: readonly string[];
}

function productFiles(source: string): SourceFile[] {
  return readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !path.startsWith('testing/'))
    .toSorted()
    .map((path) => readSource(source, path));
}

function readSource(source: string, path: string): SourceFile {
  const text = readFileSync(join(source, path), 'utf8');
  const specifiers = [...text.matchAll(/(?:from|import\() ?'(?<specifier>[^']+)'/gu)].map(
    ({ groups }) => groups?.['specifier'] ?? '',
  );
  return {
    path,
    room: roomOf(path),
    lines: text.split('\n').length - 1,
    imports: specifiers.filter((one) => one.startsWith('.')).map((one) => normalize(join(path, '..', one))),
    doubles: specifiers.filter((one) => one.startsWith('@brupop/') && one.includes('/testing/')),
  };
}

function roomOf(path: string): string {
  return path.split('/')[0] ?? path;
}

/** What is wrong with the imports of a package, a line each. */
function problems(name: string, files: readonly SourceFile[]): string[] {
  const rooms = ROOMS[name] ?? [];
  const where = (path: string): string => `packages/${name}/src/${path}`;
  const unknown = [...new Set(files.map(({ room }) => room))].filter((room) => !rooms.includes(room));
  const upward = files.flatMap(({ path, room, imports, doubles }) => [
    ...imports
      .filter((to) => rooms.indexOf(roomOf(to)) > rooms.indexOf(room) || roomOf(to) === 'testing')
      .map((to) => `${where(path)} imports ${to}, which lies above it`),
    ...doubles.map((to) => `${where(path)} imports ${to}, which only tests may import`),
  ]);
  return [
    ...unknown.map(
      (room) => `${where(room)} is not in ROOMS of scripts/structure.ts: say there which rooms lie below it`,
    ),
    ...upward,
    ...circles(files).map((circle) => `${circle.map(where).join(' -> ')} is a circle of imports`),
  ];
}

/** One circle for each import that closes one, in a walk along the imports from every file. */
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

/** How many pairs of rooms there are of which one imports the other. */
function roomImports(files: readonly SourceFile[]): number {
  const pairs = files.flatMap(({ room, imports }) => imports.map((to) => `${room} ${roomOf(to)}`));
  return new Set(pairs.filter((pair) => pair.split(' ')[0] !== pair.split(' ')[1])).size;
}

function row(cells: readonly (string | number)[]): string {
  return cells.map((cell, index) => (index === 0 ? String(cell).padEnd(11) : String(cell).padStart(8))).join('');
}

function print(packages: readonly (readonly [string, readonly SourceFile[]])[]): void {
  const sum = (files: readonly SourceFile[]): number => files.reduce((total, { lines }) => total + lines, 0);
  const all = packages.flatMap(([, files]) => files);
  const rows = packages.map(([name, files]) => [
    name,
    files.length,
    sum(files),
    new Set(files.map(({ room }) => room)).size,
    roomImports(files),
    circles(files).length,
  ]);
  const lines = [['package', 'files', 'lines', 'rooms', 'imports', 'circles'], ...rows, ['all', all.length, sum(all)]];
  process.stdout.write(`${lines.map(row).join('\n')}\n`);
}

const packages = Object.keys(ROOMS).map((name) => [name, productFiles(join(root, 'packages', name, 'src'))] as const);
if (!process.argv.includes('--check')) print(packages);
const wrong = packages.flatMap(([name, files]) => problems(name, files));
for (const line of wrong) process.stderr.write(`${line}\n`);
process.exitCode = wrong.length === 0 ? 0 : 1;
