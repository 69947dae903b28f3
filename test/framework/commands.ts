import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Connection } from './control-plane/connection.ts';
import { fencesOf, sectionOf } from './markdown.ts';

const ROOT = join(import.meta.dirname, '..', '..');

/**
 * Runs shell commands in the repository's folder as a user of the cluster does, and returns what they
 * wrote. Throws with their error output if one fails, or after `limitMs`.
 */
export async function runCommands({ env }: Connection, text: string, limitMs = 120_000): Promise<string> {
  const args = ['-euo', 'pipefail', '-c', text];
  const { stdout } = await promisify(execFile)('bash', args, { cwd: ROOT, env, timeout: limitMs });
  return stdout;
}

/** The commands of a section of a page: all its blocks that are marked as `sh`. */
export function commandsOf(page: string, heading: string): string {
  return blocksOf(page, heading, 'sh').join('\n');
}

/** The single commands of a block, each with the lines that continue it and with the text that it is fed. */
export function splitCommands(text: string): string[] {
  const commands = text.matchAll(/^(?:[^\n]*<<'?EOF'?\n.*?^EOF|(?:[^\n]*[\\|]\n)*[^\n]+)$/gmsu);
  return [...commands].map(([command]) => command);
}

/** The blocks of a section of a page that are marked as of a language. Throws if there is none. */
export function blocksOf(page: string, heading: string, language: 'sh' | 'yaml'): string[] {
  const section = sectionOf(readFileSync(join(ROOT, page), 'utf8'), heading);
  const blocks = fencesOf(section)
    .filter(({ info }) => info === language)
    .map(({ text }) => text);
  if (blocks.length === 0) throw new Error(`${page} has no ${language} under "${heading}"`);
  return blocks;
}

/** Runs `body` with the path of a file that has `text`. */
export async function withFile(name: string, text: string, body: (path: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'brupop-docs-'));
  try {
    const path = join(folder, name);
    await writeFile(path, text);
    await body(path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
