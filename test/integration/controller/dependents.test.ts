/** Dependents that users scale at the same time as the leader, on a real kube-apiserver. */
import type { V1Deployment } from '@kubernetes/client-node';
import { createMetrics } from '../../../packages/controller/src/metrics.ts';
import { aDependent, configWith } from '../../../packages/controller/src/testing/scaled-world.ts';
import { Dependents } from '../../../packages/controller/src/upkeep/dependents/dependents.ts';
import { DEPENDENT_REPLICAS_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createLogger } from '../../../packages/shared/src/runtime/log.ts';
import { createRegistry } from '../../../packages/shared/src/runtime/metrics.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { eventually } from '../../framework/eventually.ts';

const cluster = connectSharedControlPlane();
const { signal } = new AbortController();
const log = createLogger({ level: 'error', write: () => undefined });
let client: KubeClient;
let path = '';
/** What users do right before the next patch of the leader. */
let meanwhile = async (): Promise<unknown> => await Promise.resolve();
let lost = false;
let leader: Dependents;

beforeAll(async () => {
  client = await createKubeClient({ userAgent: 'test', clock: systemClock, log, access: cluster.accessAs('admin') });
});

beforeEach(async () => {
  const namespace = await createNamespace(cluster, 'dependents');
  const dependent = aDependent('autoscaler', 0, 0, { namespace });
  const deployments = `/apis/apps/v1/namespaces/${namespace}/deployments`;
  path = `${deployments}/autoscaler`;
  const labels = { app: 'autoscaler' };
  const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'registry.example/app:1' }] } };
  const spec = { replicas: 2, selector: { matchLabels: labels }, template };
  await cluster.api.create(deployments, { metadata: { name: 'autoscaler' }, spec });
  const view = { config: configWith(), dependents: [dependent], problem: undefined, isUnsure: false };
  const loss = (): object => ({ lost, isChanging: false, since: undefined, counted: 4, expired: 0 });
  leader = new Dependents({
    client: {
      find: client.find.bind(client),
      mergePatch: async (...request) => {
        const once = meanwhile;
        meanwhile = async () => await Promise.resolve();
        await once();
        return await client.mergePatch(...request);
      },
    },
    cluster: { dependents: () => ({ ...view, loss: loss() as never }), onChange: () => () => undefined },
    targets: [dependent],
    clock: systemClock,
    log,
    metrics: createMetrics(createRegistry('test')),
    events: { record: () => undefined },
    onReport: () => undefined,
  });
});

afterAll(async () => {
  await client.close();
  await cluster.close();
});

const scaleTo = async (replicas: number): Promise<unknown> => await cluster.api.patch(path, { spec: { replicas } });

async function passAs(isLost: boolean): Promise<string> {
  lost = isLost;
  await leader.check(signal);
  const { metadata, spec } = await cluster.api.get<V1Deployment>(path);
  return `${spec?.replicas} (${metadata?.annotations?.[DEPENDENT_REPLICAS_ANNOTATION]})`;
}

/** Kubernetes writes the status of a Deployment meanwhile, which is a change as well. */
async function untilPassAs(isLost: boolean, scale: string): Promise<void> {
  await eventually(async () => {
    const found = await passAs(isLost);
    if (found !== scale) throw new Error(`expected ${scale}, found ${found}`);
  });
}

it('a target that a user scales between the read and the patch keeps its number: it is read again', async () => {
  meanwhile = async () => await scaleTo(5);
  expect(await passAs(true)).toBe('5 (undefined)');
  await untilPassAs(true, '0 (5)');
  meanwhile = async () => await scaleTo(3);
  expect(await passAs(false)).toBe('3 (5)');
  await untilPassAs(false, '3 (undefined)');
});

it('one that is deleted and made again in between is not scaled by the record of the former one', async () => {
  await untilPassAs(true, '0 (2)');
  meanwhile = async () => {
    const { spec } = await cluster.api.get<{ readonly spec: object }>(path);
    await cluster.api.delete(path);
    await cluster.api.create(path.replace('/autoscaler', ''), {
      metadata: { name: 'autoscaler' },
      spec: { ...spec, replicas: 4 },
    });
  };
  expect(await passAs(false)).toBe('4 (undefined)');
});
