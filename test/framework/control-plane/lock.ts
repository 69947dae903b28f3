import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export interface LockOptions {
  /** Called at first and then about every 250 ms while another process has the lock. */
  onWait?: (owner: number, waitedMs: number) => void;
  /** How long to wait, in ms; default 30 min. */
  limitMs?: number;
}

/**
 * Runs `work` while this process has the lock at `path`. A lock whose owner has ended is taken
 * over. Two processes that take it over at the same instant may both continue: that wastes work,
 * but is safe, because programs are renamed into place. Throws when the owner of the lock keeps it
 * longer than the limit.
 */
export async function withLock<T>(path: string, options: LockOptions, work: () => Promise<T>): Promise<T> {
  await acquire(path, options);
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

async function acquire(path: string, { onWait, limitMs = 30 * 60_000 }: LockOptions): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  const start = Date.now();
  for (;;) {
    if (tryAcquire(path)) return;
    const owner = ownerOf(path);
    if (owner === undefined) continue;
    if (!isSameProcess(owner)) {
      rmSync(path, { force: true });
      continue;
    }
    const waited = Date.now() - start;
    if (waited > limitMs) {
      throw new Error(
        `${path} is held by process ${owner.pid} for more than ${limitMs / 1000} s; end it or remove the file`,
      );
    }
    onWait?.(owner.pid, waited);
    await sleep(200 + Math.random() * 100);
  }
}

/** A link either makes the whole lock, with its owner in it, or fails. */
function tryAcquire(path: string): boolean {
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, JSON.stringify(identify(process.pid)));
  try {
    linkSync(mine, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(mine, { force: true });
  }
}

interface Owner {
  pid: number;
  /**
   * Distinguishes the process from a later one with the same ID; empty if the system does not
   * provide it.
   */
  started: string;
}

function ownerOf(path: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Owner;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    return { pid: 0, started: 'unreadable' };
  }
}

/** The process with this id, as it is now. */
export function identify(pid: number): Owner {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return { pid, started: `${boot} ${statOf(pid)[19]}` };
  } catch {
    return { pid, started: '' };
  }
}

/** The fields of /proc/PID/stat from the third, the state; the second, a name in parentheses, may contain spaces. */
function statOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function isSameProcess(owner: Owner): boolean {
  return isAlive(owner.pid) && identify(owner.pid).started === owner.started;
}

/** Whether a process with this id runs. One that has ended may wait for seconds until its parent asks how. */
export function isAlive(pid: number): boolean {
  if (pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return !hasEnded(pid);
}

function hasEnded(pid: number): boolean {
  try {
    return statOf(pid)[0] === 'Z';
  } catch {
    // With /proc, the process has gone since; without, only its end is unknown.
    return existsSync('/proc/self/stat');
  }
}
