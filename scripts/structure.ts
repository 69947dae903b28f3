/**
 * Prints the size and the room imports of each package, and fails on an import cycle and on an
 * import that runs upward.
 *
 * A room is a folder, or a file directly in `packages/NAME/src`; a folder inside a folder is a room
 * of its own. ROOMS lists the rooms from the lowest to the highest. An import of a value or of a
 * type, static or dynamic, may only go to the same room or to a lower one. A service may import
 * `shared`, and no other package; the CLI also the planner of the controller. Tests and the `testing` folders are not part of the product: they
 * may import everything, and nothing in the product imports them.
 *
 * `node scripts/structure.ts [PACKAGE…]` prints the figures, and `--check` only the violations.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

/** The rooms of each package from the lowest to the highest. */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  shared: ['runtime', 'api', 'kube', 'node', 'drain'],
  agent: [
    'limits.ts',
    'settings',
    'http',
    'host',
    'apiserver',
    'actions.ts',
    'state',
    'decide',
    'release.ts',
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
  controller: [
    'policy',
    'cluster',
    'kept',
    'plan/facts',
    'plan/fleet',
    'plan/gates',
    'plan/specs',
    'plan',
    'upkeep',
    'report',
    'whole-plan.ts',
    'metrics-table.ts',
    'metrics.ts',
    'certificates',
    'notify',
    'silences',
    'upkeep/recovery',
    'apply',
    'upkeep/dependents',
    'controller.ts',
    'config.ts',
    'main.ts',
  ],
  cli: ['cluster', 'render', 'support', 'commands', 'program.ts', 'main.ts'],
};

interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly lines: number;
  /** Paths below `src` of the files of the same package that it imports. */
  readonly imports: readonly string[];
  /**
   * Imports of other workspaces and of files outside `src`, such as `@brupop/shared/kube/client`.
   */
  readonly outside: readonly string[];
}

/** What follows `from`, `import` or `import(`, in code and in types. */
const SPECIFIER = /\b(?:from|import)\s*\(?\s*['"`](?<specifier>[^'"`]+)['"`]/gu;

/** Reads the product files of the package `name` below `root`. */
export function readPackage(root: string, name: string): SourceFile[] {
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
  return path.includes('/') ? dirname(path) : path;
}

const topOf = (path: string): string => path.split('/')[0] ?? path;

/** What a package may import besides `shared`: the CLI runs the planner. */
const MORE: Readonly<Record<string, RegExp>> = { cli: /^@brupop\/controller\/(cluster|plan|policy)\// };

const isForeign = (name: string, to: string): boolean =>
  !(to.startsWith('@brupop/shared/') || MORE[name]?.test(to) === true) || to.includes('/testing/');

/** Returns a line for each violation in a package with these rooms. */
export function violations(name: string, files: readonly SourceFile[], rooms = ROOMS[name] ?? []): string[] {
  const where = (path: string): string => join('packages', name, 'src', path);
  const isUpward = (from: string, to: string): boolean =>
    topOf(to) === 'testing' || rooms.indexOf(roomOf(to)) > rooms.indexOf(from);
  const unknown = new Set(files.map(({ room }) => room).filter((room) => !rooms.includes(room)));
  return [
    ...[...unknown].map((room) => `${where(room)} is missing in ROOMS of scripts/structure.ts`),
    ...files.flatMap(({ path, room, imports, outside }) => [
      ...imports.filter((to) => isUpward(room, to)).map((to) => `${where(path)} imports ${to}, which lies above it`),
      ...outside
        .filter((to) => isForeign(name, to))
        .map((to) => `${where(path)} imports ${to}, which the product may not import`),
    ]),
    ...cycles(files).map((cycle) => `${cycle.map(where).join(' -> ')} is an import cycle`),
  ];
}

/** Returns a cycle for each import that closes one, found by a depth-first walk from every file. */
function cycles(files: readonly SourceFile[]): string[][] {
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

/** Counts the top-level rooms, the pairs of them of which one imports the other, and the cycles. */
function figures(files: readonly SourceFile[]): number[] {
  const pairs = files.flatMap(({ path, imports }) =>
    imports.flatMap((to) => (topOf(to) === topOf(path) ? [] : `${topOf(path)} ${topOf(to)}`)),
  );
  return [new Set(files.map(({ path }) => topOf(path))).size, new Set(pairs).size, cycles(files).length];
}

/** A folder inside of `room` counts as one place. Floors: the longest way down along imports. */
function insideOf(room: string, files: readonly SourceFile[]): Readonly<Record<string, number>> {
  const own = files.filter(({ path }) => path.startsWith(`${room}/`));
  const placeOf = (path: string): string =>
    path
      .split('/')
      .slice(0, room.split('/').length + 1)
      .join('/');
  const arrows = new Map<string, Set<string>>();
  for (const { path, imports } of own) {
    const to = imports.filter((one) => one.startsWith(`${room}/`)).map(placeOf);
    const known = arrows.get(placeOf(path)) ?? new Set<string>();
    arrows.set(placeOf(path), new Set([...known, ...to].filter((one) => one !== placeOf(path))));
  }
  const floors = new Map<string, number>();
  const floorOf = (place: string): number => {
    const known = floors.get(place);
    if (known !== undefined) return known;
    const floor = 1 + Math.max(0, ...[...(arrows.get(place) ?? [])].map(floorOf));
    floors.set(place, floor);
    return floor;
  };
  return {
    lines: own.reduce((sum, { lines }) => sum + lines, 0),
    files: own.length,
    floors: Math.max(...[...arrows.keys()].map(floorOf)),
    arrows: [...arrows.values()].reduce((sum, { size }) => sum + size, 0),
  };
}

/** The largest folder of the controller, which holds what nodes wait for, how the fleet counts and which step is next. */
const LIMITED = 'plan';
const LIMITS = { floors: 6, arrows: 30 };

/** Returns a line for each figure of a folder that exceeds its limit. */
export function excesses(
  room: string,
  files: readonly SourceFile[],
  limits: Readonly<Record<string, number>>,
): string[] {
  const found = insideOf(room, files);
  return Object.entries(limits).flatMap(([figure, limit]) => {
    const value = found[figure] ?? 0;
    return value > limit ? [`${room} has ${value} ${figure}, expected at most ${limit}`] : [];
  });
}

function print(packages: readonly (readonly [string, readonly SourceFile[]])[]): void {
  const size = (files: readonly SourceFile[]): number[] => [
    files.length,
    files.reduce((sum, { lines }) => sum + lines, 0),
  ];
  const rows = [
    ['package', 'files', 'lines', 'rooms', 'imports', 'cycles'],
    ...packages.map(([name, files]) => [name, ...size(files), ...figures(files)]),
    ['all', ...size(packages.flatMap(([, files]) => files))],
  ];
  for (const [name, ...cells] of rows)
    process.stdout.write(`${String(name).padEnd(11)}${cells.map((cell) => String(cell).padStart(8)).join('')}\n`);
  const controller = packages.find(([name]) => name === 'controller');
  if (controller === undefined) return;
  const inside = Object.entries(insideOf(LIMITED, controller[1])).map(([name, value]) => `${value} ${name}`);
  process.stdout.write(`controller/src/${LIMITED}: ${inside.join(', ')}\n`);
}

function main(args: readonly string[]): void {
  const root = join(import.meta.dirname, '..');
  const named = args.filter((argument) => argument !== '--check');
  const names = named.length === 0 ? Object.keys(ROOMS) : named;
  const packages = names.map((name) => [name, readPackage(root, name)] as const);
  if (!args.includes('--check')) print(packages);
  const found = packages.flatMap(([name, files]) => [
    ...violations(name, files),
    ...(name === 'controller' ? excesses(LIMITED, files, LIMITS) : []),
  ]);
  for (const line of found) process.stderr.write(`${line}\n`);
  process.exitCode = found.length === 0 ? 0 : 1;
}

if (import.meta.main) main(process.argv.slice(2));
