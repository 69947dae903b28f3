/** Nodes that are slow to write, as behind an admission webhook that does not answer, with a real kube-apiserver. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import { WRITE_LIMIT_MS } from '../../../packages/shared/src/api/deadlines.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, newVersion, oldVersion, readShadow } from '../../framework/controller/agents.ts';
import { configure } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { presentCredentials } from '../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';
import { applyGroup, setPool } from '../../framework/fleet/pools.ts';

jest.setTimeout(120_000);

const TEAM = 'example.com/team';
const SLOW = ['gpu-0', 'gpu-1', 'gpu-2'];
const PATCH_OF_SLOW = { verbs: ['patch'], path: /\/nodes\/gpu-\d$/u } as const;

let cluster: ControlPlane;
let api: FaultyApi;
let replica: Replica | undefined;

beforeAll(async () => {
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  api = await FaultyApi.start(cluster);
  const dir = mkdtempSync(join(tmpdir(), 'brupop-slow-'));
  await presentCredentials(dir, { token: readFileSync(join(serviceAccountDir, 'token'), 'utf8'), ca: api.ca });
  await configure(cluster, { paused: true });
  replica = await startReplica(api, dir);
});

afterAll(async () => {
  await replica?.stop();
  await api.stop();
  await cluster.stop();
});

async function teamOf(node: string): Promise<string | undefined> {
  return (await cluster.api.get<V1Node>(`/api/v1/nodes/${node}`)).metadata?.labels?.[TEAM];
}

test('Nodes whose labels are slow to write delay neither updates nor the labels of others', async () => {
  for (const name of [...SLOW, 'gpu-fast']) {
    await createMember(cluster, name, oldVersion);
    await setPool({ cluster }, name, 'gpu');
  }
  await createMember(cluster, 'web-0', newVersion);
  api.set({ match: PATCH_OF_SLOW, answer: { kind: 'silent' } });
  await applyGroup({ cluster }, 'gpu', { nodeMetadata: { labels: { [TEAM]: 'ml' }, domains: ['example.com'] } });
  await eventually(() => expect(api.requests.filter(({ answer }) => answer !== undefined)).toHaveLength(SLOW.length));
  const silentSince = performance.now();

  await configure(cluster, {});
  await eventually(async () => expect((await readShadow(cluster, 'web-0')).spec.state).not.toBe('Idle'));
  await eventually(async () => expect(await teamOf('gpu-fast')).toBe('ml'));
  expect(performance.now() - silentSince).toBeLessThan(WRITE_LIMIT_MS);

  api.clear();
  for (const name of SLOW) await eventually(async () => expect(await teamOf(name)).toBe('ml'), { limitMs: 60_000 });
});
