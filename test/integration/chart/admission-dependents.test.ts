/** The chart's admission policy of dependents on a real kube-apiserver, which installs it with Helm. */
import { jest } from '@jest/globals';
import { CONTROLLER, DEPENDENT_REPLICAS_ANNOTATION } from '@brupop/shared/api/names';
import {
  downPatch,
  type RawTarget,
  readTarget,
  upPatch,
} from '../../../packages/controller/src/upkeep/dependents/target.ts';
import { helm, IMAGE, releaseNamespace } from '../../framework/chart.ts';
import type { Api, ApiError } from '../../framework/control-plane/api.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const POLICY = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/brupop-dependents';
const DEPLOYMENTS = '/apis/apps/v1/namespaces/default/deployments';
const REPLICAS = DEPENDENT_REPLICAS_ANNOTATION;
const TARGET = '{"kind":"Deployment","namespace":"default","name":"autoscaler"}';

let cluster: ControlPlane;
/** RBAC permits this account everything here. */
let controller: Api;

const labels = { app: 'autoscaler' };
const template = { metadata: { labels }, spec: { containers: [{ name: 'app', image: 'registry.example/app:1' }] } };
const spec = { replicas: 3, selector: { matchLabels: labels }, template };

beforeAll(async () => {
  cluster = await startControlPlane();
  // Without pods: no kubelet would end them.
  const nowhere = ['--set', 'apiserver.nodeSelector.runs=nowhere,controller.nodeSelector.runs=nowhere'];
  const release = ['--namespace', releaseNamespace, '--create-namespace', ...nowhere];
  await helm(
    cluster,
    'install',
    'brupop',
    chartDir,
    ...IMAGE,
    ...release,
    '--set-json',
    `dependents.targets=[${TARGET}]`,
  );
  const path = `/api/v1/namespaces/${releaseNamespace}/serviceaccounts/${CONTROLLER}/token`;
  const { status } = await cluster.api.create<{ status: { token: string } }>(path, { spec: {} });
  controller = cluster.api.as(status.token);
  await cluster.api.create('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
    metadata: { name: 'everything' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: CONTROLLER, namespace: releaseNamespace }],
  });
  await cluster.api.create(DEPLOYMENTS, { metadata: { name: 'probe' }, spec: { ...spec, replicas: 0 } });
  // A policy takes effect some moments after it was created.
  await eventually(
    async () => {
      const change = controller.patch(`${DEPLOYMENTS}/probe?dryRun=All`, { metadata: { labels: { a: 'b' } } });
      if ((await denial(change)) === '') throw new Error('the policy is not in effect yet');
    },
    { limitMs: 30_000 },
  );
});

afterAll(async () => await cluster.stop());

/** The message of a request that a policy denied; empty when it was accepted. */
async function denial(request: Promise<unknown>): Promise<string> {
  const error = await request.then(
    () => undefined,
    (reason: unknown) => reason as ApiError,
  );
  if (error === undefined) return '';
  if (error.status === 403 && error.message.includes('ValidatingAdmissionPolicy')) return error.message;
  throw error;
}

describe.each([
  ['Deployment', DEPLOYMENTS, spec],
  ['StatefulSet', '/apis/apps/v1/namespaces/default/statefulsets', { ...spec, serviceName: 'app' }],
] as const)('of a %s', (_, path, made) => {
  const object = `${path}/autoscaler`;
  const patch = async (body: object): Promise<string> => await denial(controller.patch(object, body));
  const scale = async (replicas: number, record: string | null): Promise<string> =>
    await patch({ metadata: { annotations: { [REPLICAS]: record } }, spec: { replicas } });
  const set = async (replicas: number, record: string | null): Promise<unknown> =>
    await cluster.api.patch(object, { metadata: { annotations: { [REPLICAS]: record } }, spec: { replicas } });

  beforeEach(async () => {
    await cluster.api.create(path, { metadata: { name: 'autoscaler', labels: { a: 'b' } }, spec: made });
  });
  afterEach(async () => await cluster.api.delete(object));

  it('lets the controller scale it to 0 with its replicas recorded, and back', async () => {
    const read = async () => readTarget(await cluster.api.get<RawTarget>(object));
    // The controllers of Kubernetes write the status meanwhile.
    await eventually(async () => expect(await patch(downPatch(await read()))).toBe(''));
    expect(await read()).toMatchObject({ state: 'Down', replicas: 0, restored: 3 });
    await eventually(async () => expect(await patch(upPatch(await read()))).toBe(''));
    expect(await read()).toMatchObject({ state: 'Up', replicas: 3 });
  });

  it('does not scale what has changed since it was read', async () => {
    const read = async () => readTarget(await cluster.api.get<RawTarget>(object));
    for (const [before, patchOf] of [
      [null, downPatch],
      ['3', upPatch],
    ] as const) {
      await set(before === null ? 3 : 0, before);
      const body = patchOf(await read());
      await set(5, before);
      await expect(controller.patch(object, body)).rejects.toMatchObject({ status: 409 });
      expect(await read()).toMatchObject({ replicas: 5 });
    }
  });

  it('lets it bring one replica back when the record cannot be read, and remove the record of one that others scaled', async () => {
    await set(0, 'many');
    expect(await scale(3, null)).toContain('back to these');
    expect(await scale(1, null)).toBe('');
    // As the controller reads them.
    for (const [record, restored] of [
      ['2147483647', 2_147_483_647],
      ['2147483648', 1],
    ] as const) {
      await set(0, record);
      const { metadata, spec: back } = upPatch(readTarget(await cluster.api.get<RawTarget>(object)));
      expect(back).toEqual({ replicas: restored });
      const body = { metadata: { annotations: metadata.annotations }, spec: back };
      expect(await denial(controller.patch(`${object}?dryRun=All`, body))).toBe('');
    }
    await set(5, '3');
    expect(await scale(3, null)).toContain('back to these');
    expect(await patch({ metadata: { annotations: { [REPLICAS]: null } } })).toBe('');
  });

  it('denies it every other number, and a record that is not that of the replicas', async () => {
    for (const [replicas, record] of [
      [0, null],
      [0, '2'],
      [2, '3'],
      [2, null],
      [9, null],
    ] as const)
      expect(await scale(replicas, record)).toContain('only to 0');
    await set(0, '3');
    for (const [replicas, record] of [
      [2, null],
      [0, null],
      [0, '4'],
      [3, '3'],
    ] as const)
      expect(await scale(replicas, record)).toContain('back to these');
  });

  it('denies it every other change, also together with one that it may make, and leaves others alone', async () => {
    const down = { metadata: { annotations: { [REPLICAS]: '3' } }, spec: { replicas: 0 } };
    const changes = [
      { metadata: { ...down.metadata, labels: { a: 'c' } }, spec: down.spec },
      { metadata: { annotations: { ...down.metadata.annotations, other: 'x' } }, spec: down.spec },
      { ...down, spec: { ...down.spec, template: { spec: { serviceAccountName: 'admin' } } } },
      { ...down, spec: { ...down.spec, minReadySeconds: 5 } },
      { metadata: { ...down.metadata, finalizers: ['a.example/b'] }, spec: down.spec },
    ];
    for (const change of changes) expect(await patch(change)).toContain('only spec.replicas');
    expect(await denial(controller.patch(`${object}/scale`, { spec: { replicas: 0 } }))).toContain('only');
    for (const change of changes) expect(await denial(cluster.api.patch(`${object}?dryRun=All`, change))).toBe('');
  });
});

it('has no expression that the API server warns of', async () => {
  await eventually(
    async () => {
      const { status } = await cluster.api.get<{ status?: { typeChecking?: object } }>(POLICY);
      expect(status?.typeChecking).toEqual({});
    },
    { limitMs: 30_000 },
  );
});
