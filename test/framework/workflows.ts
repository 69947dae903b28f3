import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';

export const WORKFLOWS = join(import.meta.dirname, '../../.github/workflows');

export interface Step {
  readonly name?: string;
  readonly id?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly with?: Readonly<Record<string, unknown>>;
}

export interface Job {
  readonly permissions?: Readonly<Record<string, string>>;
  readonly strategy?: { readonly matrix: { readonly target: readonly string[] } };
  readonly steps: readonly Step[];
}

/** A workflow of GitHub, as far as tests look at it. */
export interface Workflow {
  readonly file: string;
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions?: object;
  readonly defaults?: object;
  readonly env?: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

export function readWorkflows(): Workflow[] {
  return readdirSync(WORKFLOWS).map((file) => ({
    ...(parse(readFileSync(join(WORKFLOWS, file), 'utf8')) as Omit<Workflow, 'file'>),
    file,
  }));
}

interface Run {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** What stands for each expression, such as `vars.OWNER`. */
  readonly values: Readonly<Record<string, string>>;
}

/**
 * Runs the scripts of a job in their order, as GitHub does, and returns the values with the outputs of the steps. The
 * actions of the job are not run.
 */
export async function runScripts(workflow: Workflow, name: string, run: Run): Promise<Record<string, string>> {
  const values = { ...run.values };
  for (const { id = '', run: script, env } of workflow.jobs[name]?.steps ?? []) {
    if (script === undefined) continue;
    const variables = { ...run.env, ...filled(workflow.env, values), ...filled(env, values) };
    for (const [output, value] of await outputsOf(script, { ...run, env: variables })) {
      values[`steps.${id}.outputs.${output}`] = value;
    }
  }
  return values;
}

function filled(env: Readonly<Record<string, string>> = {}, values: Run['values']): Record<string, string> {
  const fill = (text: string): string =>
    text.replaceAll(/\$\{\{ (?<expression>[^}]+) \}\}/gu, (_, expression: string) => {
      const value = values[expression];
      if (value === undefined) throw new Error(`expected a value for the expression ${expression}, found none`);
      return value;
    });
  return Object.fromEntries(Object.entries(env).map(([key, text]) => [key, fill(text)]));
}

async function outputsOf(script: string, { cwd, env }: Omit<Run, 'values'>): Promise<[string, string][]> {
  const folder = mkdtempSync(join(tmpdir(), 'brupop-step-'));
  try {
    const files = { GITHUB_OUTPUT: join(folder, 'output'), GITHUB_PATH: join(folder, 'path') };
    for (const file of Object.values(files)) writeFileSync(file, '');
    const args = ['--noprofile', '--norc', '-eo', 'pipefail', '-c', script];
    await promisify(execFile)('bash', args, { cwd, env: { ...env, ...files }, timeout: 300_000 });
    const lines = readFileSync(files.GITHUB_OUTPUT, 'utf8').matchAll(/^(?<name>\w+)=(?<value>.*)$/gmu);
    return [...lines].map(({ groups }) => [groups?.['name'] ?? '', groups?.['value'] ?? '']);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
