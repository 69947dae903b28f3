import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Connection } from './control-plane/connection.ts';
import { sectionOf } from './markdown.ts';

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
  const section = sectionOf(readFileSync(join(ROOT, page), 'utf8'), heading);
  const blocks = [...section.matchAll(/^ *```sh\n(?<block>.*?)^ *```$/gmsu)];
  if (blocks.length === 0) throw new Error(`${page} has no commands under "${heading}"`);
  return blocks.map(({ groups }) => groups?.['block'] ?? '').join('\n');
}
