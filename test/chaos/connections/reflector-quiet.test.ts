import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import { CONFIG_PLURAL } from '../../../packages/shared/src/api/names.ts';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { configPath } from '../../../packages/shared/src/kube/paths.ts';
import { Reflector } from '../../../packages/shared/src/kube/reflector.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';
import { configure } from '../../framework/controller/configuration.ts';
import { eventually } from '../../framework/eventually.ts';
import { accessThrough, presentCredentials } from '../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(240_000);

/** Bookmarks come once a minute. */
const TWO_BOOKMARKS_MS = 135_000;
const MOST_BETWEEN_BOOKMARKS_MS = 75_000;
const IDLE_LIMIT_MS = 1_000;

describe('a reflector of a collection without changes, with the default settings of etcd', () => {
  const stop = new AbortController();
  const dir = mkdtempSync(join(tmpdir(), 'brupop-quiet-'));
  const { log, lines } = recordingLogger();
  let cluster: ControlPlane;
  let clients: KubeClient[] = [];
  let proxies: FaultyApi[] = [];

  beforeAll(async () => {
    cluster = await startControlPlane();
    await installCrds(cluster);
  });

  afterAll(async () => {
    stop.abort();
    await Promise.all(clients.map(async (client) => await client.close()));
    await Promise.all(proxies.map(async (proxy) => await proxy.stop()));
    await cluster.stop();
    rmSync(dir, { recursive: true, force: true });
  });

  async function reflect(limits: { readonly idleLimitMs?: number; readonly progressLimitMs?: number } = {}): Promise<{
    reflector: Reflector<KubernetesObject>;
    api: FaultyApi;
  }> {
    const api = await FaultyApi.start(cluster);
    const credentials = mkdtempSync(join(dir, 'credentials-'));
    await presentCredentials(credentials, { token: cluster.adminToken, ca: api.ca });
    const access = accessThrough(api, credentials);
    const client = await createKubeClient({ userAgent: 'quiet', clock: systemClock, log, access });
    clients = [...clients, client];
    proxies = [...proxies, api];
    const path = configPath();
    const slim = (raw: unknown): KubernetesObject => raw as KubernetesObject;
    const reflector = new Reflector({ client, path, slim, clock: systemClock, log, name: CONFIG_PLURAL, ...limits });
    void reflector.run(stop.signal);
    await eventually(() => expect(api.openWatches).toBe(1));
    return { reflector, api };
  }

  async function longestDoubt(reflector: Reflector<KubernetesObject>, forMs: number): Promise<number> {
    let longest = 0;
    for (const end = performance.now() + forMs; performance.now() < end; await sleep(100))
      longest = Math.max(longest, reflector.idleForMs());
    return longest;
  }

  it('gets a bookmark every minute after one read', async () => {
    const { reflector, api } = await reflect();
    expect(await longestDoubt(reflector, TWO_BOOKMARKS_MS)).toBeLessThan(MOST_BETWEEN_BOOKMARKS_MS);
    expect(api.requests.map(({ verb }) => verb)).toEqual(['list', 'watch', 'list']);
    expect(lines).toEqual([]);
  });

  it('keeps its watch open after a check, and is stale while the server hangs', async () => {
    const { reflector, api } = await reflect({ idleLimitMs: IDLE_LIMIT_MS });
    expect(await longestDoubt(reflector, 8_000)).toBeLessThan(8 * IDLE_LIMIT_MS);
    const watches = api.requests.filter(({ verb }) => verb === 'watch').map(({ query }) => query.get('timeoutSeconds'));
    expect(watches.slice(1)).toEqual(watches.slice(1).map(() => '2'));
    expect(watches.length).toBeGreaterThan(2);
    expect(lines).toEqual([]);
    await cluster.components.apiserver.kill('SIGSTOP');
    await sleep(6_000);
    expect(reflector.idleForMs()).toBeGreaterThan(5_000);
    await cluster.components.apiserver.kill('SIGCONT');
    await eventually(() => expect(reflector.idleForMs()).toBeLessThan(4 * IDLE_LIMIT_MS));
  });

  it('is not kept current by the bookmarks of a kube-apiserver that is cut off from etcd', async () => {
    const { reflector } = await reflect({ progressLimitMs: 0 });
    await configure(cluster, {});
    await eventually(() => expect(reflector.list()).toHaveLength(1));
    await cluster.components.etcd.kill('SIGSTOP');
    const stoppedAt = performance.now();
    await sleep(MOST_BETWEEN_BOOKMARKS_MS);
    const silentMs = performance.now() - stoppedAt;
    await cluster.components.etcd.kill('SIGCONT');
    expect(reflector.idleForMs()).toBeGreaterThanOrEqual(silentMs);
  });
});
