import { jest } from '@jest/globals';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { Reflector } from '../../../packages/shared/src/kube/reflector.ts';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(120_000);

interface ConfigMap extends KubernetesObject {
  readonly data?: Readonly<Record<string, string>>;
}

describe('a reflector', () => {
  const cluster = connectSharedControlPlane();
  let client: KubeClient;
  let namespace = '';
  const stop = new AbortController();

  beforeAll(async () => {
    namespace = await createNamespace(cluster, 'reflector');
    const access = cluster.accessAs('admin');
    client = await createKubeClient({
      userAgent: 'reflector-test',
      clock: systemClock,
      log: recordingLogger().log,
      access,
    });
  });

  afterAll(async () => {
    stop.abort();
    await client.close();
    await cluster.api.delete(`/api/v1/namespaces/${namespace}`);
    await cluster.close();
  });

  const path = (): string => `/api/v1/namespaces/${namespace}/configmaps`;

  const create = async (name: string): Promise<void> => {
    await cluster.api.create(path(), { metadata: { name, labels: { suite: 'reflector' } }, data: { value: '0' } });
  };

  const reflect = (slim: (raw: unknown) => ConfigMap = (raw) => raw as ConfigMap): Reflector<ConfigMap> => {
    const query = { labelSelector: 'suite=reflector' };
    const { log } = recordingLogger();
    const reflector = new Reflector({ client, path: path(), query, clock: systemClock, log, name: 'configmaps', slim });
    void reflector.run(stop.signal);
    return reflector;
  };

  const names = (reflector: Reflector<ConfigMap>): string[] =>
    reflector
      .list()
      .map(({ metadata }) => metadata.name)
      .toSorted();

  it('holds what a list of several pages returns, then follows every change', async () => {
    const many = Array.from({ length: 620 }, (_, index) => `many-${String(index).padStart(3, '0')}`);
    for (let at = 0; at < many.length; at += 40) await Promise.all(many.slice(at, at + 40).map(create));
    const reflector = reflect();
    await reflector.waitSynced(AbortSignal.timeout(20_000));
    expect(names(reflector)).toEqual(many);
    const seen: string[] = [];
    reflector.subscribe(({ type, object }) => seen.push(`${type} ${object.metadata.name}`));
    await create('one-more');
    await cluster.api.patch(`${path()}/many-000`, { data: { value: '1' } });
    await cluster.api.delete(`${path()}/many-001`);
    await eventually(() => expect(seen).toEqual(['Added one-more', 'Modified many-000', 'Deleted many-001']));
    expect(reflector.get('many-000', namespace)?.data).toEqual({ value: '1' });
  });

  it('removes a deleted object also when what is kept of it has no namespace', async () => {
    const reflector = reflect((raw) => {
      const { name, uid, resourceVersion } = (raw as ConfigMap).metadata;
      return { metadata: { name, uid, resourceVersion } };
    });
    await create('without-namespace');
    await eventually(() => expect(names(reflector)).toContain('without-namespace'));
    await cluster.api.delete(`${path()}/without-namespace`);
    await eventually(() => expect(names(reflector)).not.toContain('without-namespace'));
  });

  it('leaves an object out that cannot be read, and keeps the others', async () => {
    const reflector = reflect((raw) => {
      const object = raw as ConfigMap;
      if (object.metadata.name === 'many-002') throw new Error('cannot be read');
      return object;
    });
    await reflector.waitSynced(AbortSignal.timeout(20_000));
    expect(reflector.get('many-002', namespace)).toBeUndefined();
    expect(reflector.get('many-003', namespace)).toBeDefined();
  });
});
