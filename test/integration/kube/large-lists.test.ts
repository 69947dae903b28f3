import { jest } from '@jest/globals';
import { createKubeClient } from '../../../packages/shared/src/kube/client.ts';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import { readList } from '../../../packages/shared/src/kube/list.ts';
import { PodLookups } from '../../../packages/controller/src/cluster/pods.ts';
import { aNode } from '../../../packages/controller/src/testing/objects.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(120_000);

/** More than one response may have. */
const PODS = 24;
const MIB = 1024 * 1024;
const NODE = 'crowded';

describe('pods of a node with one megabyte each', () => {
  const cluster = connectSharedControlPlane();
  const { log } = recordingLogger();
  let namespace = '';

  beforeAll(async () => {
    namespace = await createNamespace(cluster, 'large');
    const env = [{ name: 'LARGE', value: 'x'.repeat(MIB) }];
    const spec = { nodeName: NODE, containers: [{ name: 'a', image: 'a', env }] };
    for (let i = 0; i < PODS; i += 1)
      await cluster.api.create(`/api/v1/namespaces/${namespace}/pods`, { metadata: { name: `large-${i}` }, spec });
  });

  afterAll(async () => {
    await cluster.api.delete(`/api/v1/namespaces/${namespace}`);
    await cluster.close();
  });

  const connect = () =>
    createKubeClient({ userAgent: 'large', clock: systemClock, log, access: cluster.accessAs('admin') });

  it('are too large for one response, and the error says so', async () => {
    const client = await connect();
    const request = client.request({ method: 'GET', path: `/api/v1/namespaces/${namespace}/pods` });
    await expect(request).rejects.toMatchObject({ reason: 'ResponseTooLarge' });
    await client.close();
  });

  it('are all listed in smaller pages', async () => {
    const client = await connect();
    const slim = (raw: unknown): string => (raw as KubernetesObject).metadata.name;
    const path = `/api/v1/namespaces/${namespace}/pods`;
    expect(new Set((await readList(client, { path, slim })).items).size).toBe(PODS);
    await client.close();
  });

  it('are known to the controller, reduced to the fields that a drain depends on', async () => {
    const client = await connect();
    const lookups = new PodLookups({ client, clock: systemClock, logOf: () => log });
    const answered = new Promise<void>((resolve) => lookups.answers.subscribe(resolve));
    lookups.look([aNode({ name: NODE })], new AbortController().signal);
    await answered;
    const known = lookups.known.get(NODE);
    expect(known?.problem).toBeUndefined();
    expect(known?.pods).toHaveLength(PODS);
    expect(JSON.stringify(known?.pods).length).toBeLessThan(MIB);
    await client.close();
  });
});
