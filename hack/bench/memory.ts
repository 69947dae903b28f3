import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Memory {
  /** MiB. */
  readonly resident: number;
  /** Anonymous part of it, MiB. */
  readonly anonymous: number;
}

/** Memory of a process, from /proc. */
export async function memoryOf(pid: number): Promise<Memory> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'mu').exec(status)?.[1] ?? Number.NaN) / 1024;
  return { resident: field('VmRSS'), anonymous: field('RssAnon') };
}

/** Largest memory of several processes. */
export async function largest(pids: readonly number[]): Promise<Memory> {
  const all = await Promise.all(pids.map(memoryOf));
  return {
    resident: Math.max(...all.map(({ resident }) => resident)),
    anonymous: Math.max(...all.map(({ anonymous }) => anonymous)),
  };
}

/** Memory of a Node.js that does nothing, with the given flags. */
export async function bareNode(flags: readonly string[]): Promise<Memory> {
  const child = spawn(process.execPath, [...flags, '-e', 'setInterval(() => undefined, 1000)'], { stdio: 'ignore' });
  try {
    await sleep(1_500);
    return await memoryOf(child.pid ?? 0);
  } finally {
    child.kill('SIGKILL');
  }
}
