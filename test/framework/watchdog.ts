import { type ChildProcess, spawn, type StdioNull } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';

/**
 * Ends the registered processes and removes the folder when this process has ended for any reason:
 * the watchdog reads from a pipe whose other end the kernel closes even after a `kill -9`. It runs
 * in its own session, so that it does not receive the Ctrl-C of this process.
 */
export interface Watchdog {
  /**
   * Starts a program in a process group of its own, registered before it runs, so that there is no
   * instant at which it could be left behind. A program that does not exist ends with 127.
   */
  spawn(program: string, args: readonly string[], options: SpawnOptions): ChildProcess;
  /**
   * Adds a process that leads a process group (spawned with `detached: true`). Call it right after
   * the spawn.
   */
  add(pid: number): void;
  /** Forgets a process that has ended. Call it on the child's `exit`. */
  drop(pid: number): void;
  /** Ends what is still registered, removes the folder and resolves when both are done. */
  release(): Promise<void>;
}

export interface SpawnOptions {
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Standard input, output and error. */
  stdio: [StdioNull, StdioNull | number, StdioNull | number] | ['ignore', 'pipe', 'pipe'];
}

const script = `
trap '' INT TERM HUP
pids=' '
while read -r verb pid; do
  case $verb in
    add) pids="$pids$pid " ;;
    drop) pids="\${pids%% $pid *} \${pids#* $pid }" ;;
  esac
done
for pid in $pids; do kill -s KILL -- "-$pid" "$pid" 2>/dev/null; done
for round in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf -- "$1" 2>/dev/null
  [ -e "$1" ] || exit 0
  sleep 0.2
done
exit 1
`;

/**
 * Registers itself through file 3, the watchdog's pipe, and becomes the program, which does not get
 * the pipe.
 */
const registered = 'echo "add $$" >&3; exec "$0" "$@" 3>&-';

/** Starts a watchdog for `folder`. Throws when `sh` cannot be started. */
export function startWatchdog(folder: string): Watchdog {
  const child = spawn('sh', ['-c', script, 'watchdog', folder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const exited = once(child, 'exit');
  exited.catch(() => undefined);
  const pipe = child.stdin as unknown as Socket;
  pipe.on('error', () => undefined);
  pipe.unref();
  child.unref();
  const drop = (pid: number): void => void pipe.write(`drop ${pid}\n`);
  return {
    spawn: (program, args, { cwd, env, stdio }) => {
      const started = spawn('sh', ['-c', registered, program, ...args], {
        cwd,
        env,
        detached: true,
        stdio: [...stdio, pipe],
      });
      started.once('exit', () => drop(started.pid ?? 0));
      return started;
    },
    add: (pid) => void pipe.write(`add ${pid}\n`),
    drop,
    release: async () => {
      child.ref();
      pipe.end();
      await exited;
    },
  };
}
