import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Finds `count` different loopback ports that are free now. They lie below the range that systems
 * take for outgoing connections (32768 and up on Linux), so that a restarted program finds its port
 * still free. Throws after 200 tries.
 */
export async function freePorts(count: number): Promise<number[]> {
  const found = new Set<number>();
  for (let tries = 0; tries < 200 && found.size < count; tries += 1) {
    const port = randomInt(20_000, 32_000);
    if (await isFree(port)) found.add(port);
  }
  if (found.size < count) throw new Error(`no ${count} free loopback ports found between 20000 and 32000`);
  return [...found];
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
