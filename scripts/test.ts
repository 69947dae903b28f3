/**
 * Runs the tests: gets the programs of the test control plane, builds the bundles, runs Jest for
 * one project after the other, and ends with a line such as `12 passed, 0 failed`, or `12 passed, 0
 * failed, 1 skipped`.
 *
 * `npm test -- [--projects unit,integration,e2e,connections,matrix] [arguments of Jest, such as
 * paths]`. `scripts/skew.ts` runs the project `skew`, which needs the programs of another release.
 *
 * The exit code is 0 when at least one test ran, none failed, Jest itself did not fail, and (with
 * CI=true) none was skipped. Without arguments every project but those of the matrix of faults
 * (connections and matrix), which take long, is run and must have run a test.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
/** Temporary folder of this run and its children. Removed at the end of the run. */
const folder = mkdtempSync(join(tmpdir(), 'brupop-test-'));
/** The operator's programs run as other users when this one is root. */
chmodSync(folder, 0o711);
const interrupted = new AbortController();
const allProjects = ['unit', 'integration', 'e2e', 'connections', 'matrix', 'skew'];
const usualProjects = ['unit', 'integration', 'e2e'];
/**
 * Suites that run in parallel; default 2. Suites with programs spend a third to a half of their time on waiting for them,
 * and those of the matrix most of it on waiting for time limits.
 */
const workers: Readonly<Partial<Record<string, number>>> = { integration: 4, e2e: 3, matrix: 4 };

interface Result {
  passed: number;
  failed: number;
  skipped: number;
}

/** Fields of Jest's JSON result. */
interface JestResult {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
  /** Files that failed before any of their tests ran. */
  numRuntimeErrorTestSuites: number;
  /** False also when Jest itself failed. */
  success: boolean;
}

/**
 * Runs a Node program of the repository and returns its exit code; one that is ended by a signal
 * counts as 1.
 */
async function node(
  args: readonly string[],
  onStart: (child: ChildProcess) => void = () => undefined,
): Promise<number> {
  if (interrupted.signal.aborted) return 1;
  const child = spawn(process.execPath, args, { cwd: root, stdio: 'inherit', env: { ...process.env, TMPDIR: folder } });
  const end = (): unknown => child.kill('SIGTERM');
  interrupted.signal.addEventListener('abort', end, { once: true });
  onStart(child);
  const [code] = (await once(child, 'close')) as [number | null];
  interrupted.signal.removeEventListener('abort', end);
  return code ?? 1;
}

/** Jest writes its results at its very end. */
const EXIT_LIMIT_MS = 60_000;
const LOOK_EVERY_MS = 5_000;

/**
 * Runs Jest and returns its exit code. A Node.js process may hang after its last line, in the clean-up of its handles, with
 * a processor in use: it is ended a while after it has written its results, which then say whether it succeeded.
 */
async function jest(args: readonly string[], outputFile: string): Promise<number> {
  let writtenMs = 0;
  let looks: NodeJS.Timeout | undefined;
  const code = await node(['--experimental-vm-modules', '--disable-warning=ExperimentalWarning', ...args], (child) => {
    looks = setInterval(() => {
      if (!existsSync(outputFile)) return;
      writtenMs += LOOK_EVERY_MS;
      if (writtenMs > EXIT_LIMIT_MS) child.kill('SIGKILL');
    }, LOOK_EVERY_MS);
  });
  clearInterval(looks);
  if (writtenMs <= EXIT_LIMIT_MS) return code;
  process.stderr.write(`Jest did not exit within ${EXIT_LIMIT_MS / 1000} s of its results, and was killed\n`);
  return (JSON.parse(readFileSync(outputFile, 'utf8')) as JestResult).success ? 0 : 1;
}

async function prepare(projects: readonly string[]): Promise<void> {
  const steps = [
    {
      script: 'test/framework/control-plane/cli.ts',
      args: ['obtain'],
      for: ['integration', 'e2e', 'connections', 'matrix', 'skew'],
    },
    { script: 'scripts/build.ts', args: [], for: ['integration', 'e2e', 'connections', 'matrix', 'skew'] },
  ];
  for (const step of steps.filter(({ for: needs }) => needs.some((project) => projects.includes(project)))) {
    if ((await node([step.script, ...step.args])) !== 0) throw new Error(`${step.script} failed, so no test was run`);
  }
}

async function runProject(project: string, jestArguments: readonly string[]): Promise<Result> {
  const outputFile = join(folder, `${project}.json`);
  const args = [
    'node_modules/jest/bin/jest.js',
    ...jestArguments,
    '--cacheDirectory=node_modules/.cache/jest',
    '--passWithNoTests',
    `--maxWorkers=${workers[project] ?? 2}`,
    '--json',
    `--outputFile=${outputFile}`,
    '--selectProjects',
    project,
  ];
  const code = await jest(args, outputFile);
  const result = existsSync(outputFile)
    ? countsOf(JSON.parse(readFileSync(outputFile, 'utf8')) as JestResult)
    : { passed: 0, failed: 0, skipped: 0 };
  if (code === 0 || result.failed > 0) return result;
  process.stderr.write(`Jest ended with ${code} in the project ${project}, which counts as a failure\n`);
  return { ...result, failed: 1 };
}

function countsOf(result: JestResult): Result {
  return {
    passed: result.numPassedTests,
    failed: result.numFailedTests + result.numRuntimeErrorTestSuites,
    skipped: result.numPendingTests + result.numTodoTests,
  };
}

/** Why the run failed; undefined if it succeeded. */
function faultOf(results: ReadonlyMap<string, Result>, total: Result, everything: boolean): string | undefined {
  const idle = [...results].filter(([, { passed, failed }]) => passed + failed === 0).map(([project]) => project);
  if (interrupted.signal.aborted) return 'it was interrupted';
  if (total.failed > 0) return 'tests failed';
  if (total.passed === 0) return 'no test was run';
  if (everything && idle.length > 0) return `no test was run in ${idle.join(', ')}`;
  if (process.env['CI'] === 'true' && total.skipped > 0) return 'tests were skipped, which CI does not allow';
  return undefined;
}

/** Takes `--projects a,b` out of the arguments. Throws when a project does not exist. */
function split(args: readonly string[]): { projects: string[]; jestArguments: string[] } {
  const at = args.indexOf('--projects');
  if (at === -1) return { projects: usualProjects, jestArguments: [...args] };
  const wanted = (args[at + 1] ?? '').split(',');
  if (wanted.some((project) => !allProjects.includes(project))) {
    throw new Error(`--projects: expected some of ${allProjects.join(',')}, found "${wanted.join(',')}"`);
  }
  return { projects: allProjects.filter((project) => wanted.includes(project)), jestArguments: args.toSpliced(at, 2) };
}

async function runAll(args: readonly string[]): Promise<Map<string, Result>> {
  const { projects, jestArguments } = split(args);
  await prepare(projects);
  const results = new Map<string, Result>();
  for (const project of projects) results.set(project, await runProject(project, jestArguments));
  return results;
}

function sum(results: Iterable<Result>): Result {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of results) {
    total.passed += passed;
    total.failed += failed;
    total.skipped += skipped;
  }
  return total;
}

const args = process.argv.slice(2);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interrupted.abort());
let results = new Map<string, Result>();
try {
  results = await runAll(args);
} catch (error) {
  process.stderr.write(`test: ${error instanceof Error ? error.message : String(error)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
}
const total = sum(results.values());
const fault = faultOf(results, total, args.length === 0);
if (fault !== undefined) process.stderr.write(`\nNot a success: ${fault}.\n`);
const skipped = total.skipped === 0 ? '' : `, ${total.skipped} skipped`;
process.stdout.write(`\n${total.passed} passed, ${total.failed} failed${skipped}\n`);
process.exitCode = fault === undefined ? 0 : 1;
