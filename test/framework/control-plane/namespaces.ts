import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from './api.ts';
import type { Connection } from './connection.ts';

/**
 * Creates a namespace with a unique name, waits until pods can be created in it (at most 20 s) and
 * returns its name.
 */
export async function createNamespace(cluster: Pick<Connection, 'api'>, prefix: string): Promise<string> {
  const name = `${prefix}-${randomBytes(4).toString('hex')}`;
  await cluster.api.create('/api/v1/namespaces', { metadata: { name } });
  const deadline = Date.now() + 20_000;
  for (;;) {
    try {
      await cluster.api.get(`/api/v1/namespaces/${name}/serviceaccounts/default`);
      return name;
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404) || Date.now() > deadline) throw error;
    }
    await sleep(20);
  }
}
