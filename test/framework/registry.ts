import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { releaseCacheFolder } from './control-plane/cache.ts';
import { obtainPrograms } from './control-plane/obtain.ts';
import { freePorts } from './control-plane/ports.ts';
import { eventually } from './eventually.ts';
import { startWatchdog } from './watchdog.ts';

/** A registry of images and charts on the loopback interface, without TLS. */
export interface TestRegistry {
  /** Host and port. */
  readonly address: string;
  /** The path of the program with which clients push and pull images. */
  readonly program: string;
  /** Runs that program and returns what it wrote, without the line's end. */
  crane(...args: string[]): Promise<string>;
  stop(): Promise<void>;
}

/** Starts a registry that keeps what it gets in memory. The watchdog ends it when this process goes. */
export async function startRegistry(): Promise<TestRegistry> {
  const { crane: program } = await obtainPrograms({ wanted: ['crane'], cacheFolder: releaseCacheFolder() });
  const [port = 0] = await freePorts(1);
  const address = `127.0.0.1:${port}`;
  const folder = mkdtempSync(join(tmpdir(), 'brupop-registry-'));
  const watchdog = startWatchdog(folder);
  const env = { ...process.env, DOCKER_CONFIG: folder };
  const args = ['registry', 'serve', '--address', address];
  watchdog.spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'ignore'] });
  await eventually(async () => {
    const { status } = await fetch(`http://${address}/v2/`);
    if (status !== 200) throw new Error(`http://${address}/v2/: expected 200, found ${status}`);
  });
  return {
    address,
    program,
    crane: async (...words) => {
      const { stdout } = await promisify(execFile)(program, words, { env, timeout: 120_000 });
      return stdout.trim();
    },
    stop: async () => await watchdog.release(),
  };
}
