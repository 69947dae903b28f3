import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';

/**
 * Ends the registered processes and removes the folder as soon as this process is gone, however it went: the watchdog reads
 * from a pipe whose other end the kernel closes even after a `kill -9`. It lives in a session of its own, so that a Ctrl-C meant
 * for us does not reach it.
 */
export interface Watchdog {
  /** Adds a process that leads a process group (spawned with `detached: true`). Call it right after the spawn. */
  add(pid: number): void;
  /** Forgets a process that has ended. Call it on the child's `exit`. */
  drop(pid: number): void;
  /** Ends what is still registered, removes the folder and resolves when both are done. */
  release(): Promise<void>;
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
  return {
    add: (pid) => void pipe.write(`add ${pid}\n`),
    drop: (pid) => void pipe.write(`drop ${pid}\n`),
    release: async () => {
      child.ref();
      pipe.end();
      await exited;
    },
  };
}
