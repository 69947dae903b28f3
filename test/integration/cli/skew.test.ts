/** The plugin with an operator of another release, whose leader has written the status of the BrupopConfig. */
import { jest } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RELEASE } from '../../../packages/shared/src/runtime/build.ts';
import { Plugin, type Result } from '../../framework/cli/plugin.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { createMember, oldVersion, readShadow, report } from '../../framework/controller/agents.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { type Crd, installCrds } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const CONFIG = '/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs';
const DEFINITION =
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bottlerocketnodegroups.brupop.bottlerocket.aws';

let cluster: ControlPlane;
let plugin: Plugin;
let edit = '';

beforeAll(async () => {
  cluster = await startControlPlane();
  await installCrds(cluster);
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: releaseNamespace } });
  plugin = await Plugin.build(cluster);
  plugin.users['admin'] = { token: cluster.adminToken };
  await createMember(cluster, 'a');
  const apiVersion = 'brupop.bottlerocket.aws/v1alpha1';
  const config = { apiVersion, kind: 'BrupopConfig', metadata: { name: 'cluster' }, spec: {} };
  await cluster.api.create(CONFIG, config);
  edit = join(plugin.folder, 'edit.yaml');
  writeFileSync(edit, JSON.stringify(config));
});

afterAll(async () => {
  await cluster.stop();
  plugin.remove();
});

/** @param release - null: it reports none */
async function reports(release: string | null): Promise<void> {
  await cluster.api.patch(`${CONFIG}/cluster/status`, { status: { observedGeneration: 1, release } });
}

async function brupop(...args: string[]): Promise<Result> {
  return await plugin.runWith({ COLUMNS: '200' }, ...args);
}

const annotations = async (): Promise<unknown> => (await readShadow(cluster, 'a')).metadata.annotations;
const isPaused = async (): Promise<unknown> =>
  (await cluster.api.get<{ spec: { paused?: boolean } }>(`${CONFIG}/cluster`)).spec.paused;

const TOO_OLD = `the operator is older than 0.1.0, which is too old for kubectl brupop ${RELEASE}: upgrade the operator`;
const TOO_NEW = `the operator has the release 9.8.7, which is too new for kubectl brupop ${RELEASE}: install kubectl brupop 9.8.7`;

const READS: readonly string[][] = [
  ['status', '-o', 'json'],
  ['explain', 'a'],
  ['explain', 'a', '--gates'],
  ['plan'],
  ['plan', '--with', 'EDIT'],
  ['history'],
];

describe.each<[string, string | null, string]>([
  ['that reports no release', null, TOO_OLD],
  ['of 9.8.7', '9.8.7', TOO_NEW],
])('an operator %s', (_, release, sentence) => {
  beforeAll(async () => await reports(release));

  it('is a line of status, and one warning of each other command that reads', async () => {
    const { stdout, stderr } = await brupop('status');
    expect([stderr, stdout.split('\n').filter((line) => line.startsWith('Release: '))]).toEqual([
      '',
      [`Release: ${sentence}`],
    ]);
    for (const args of READS) {
      const found = await brupop(...args.map((arg) => (arg === 'EDIT' ? edit : arg)));
      expect([args, found.code, found.stderr]).toEqual([args, 0, `warning: ${sentence}\n`]);
    }
    expect(JSON.parse((await brupop('status', '-o', 'json')).stdout)).toMatchObject({ nodes: [{ node: 'a' }] });
  });

  it('gets no request that it may ignore', async () => {
    expect(await brupop('update-now', 'a')).toEqual({
      code: 1,
      stdout: '',
      stderr: `error: "update-now" was not sent: ${sentence}\n`,
    });
    await cluster.api.patch(`${CONFIG}/cluster`, { spec: {} });
    expect((await brupop('abort', 'a')).stderr).toBe(`error: "abort" was not sent: ${sentence}\n`);
    expect(await annotations()).toBeUndefined();
  });

  it('gets changes of fields that it knows, with the warning', async () => {
    const { code, stdout, stderr } = await brupop('pause', '--reason', 'freeze');
    expect([code, stderr, await isPaused()]).toEqual([0, `warning: ${sentence}\n`, true]);
    expect(stdout).toContain('The fleet is paused');
    await brupop('resume');
    expect(await isPaused()).toBe(false);
  });
});

it('an operator of a later patch release gets every request, and only its planner may differ', async () => {
  const [major, minor] = RELEASE.split('.');
  const later = `${major}.${minor}.99`;
  await reports(later);
  expect((await brupop('status')).stdout).not.toContain('Release:');
  expect((await brupop('explain', 'a')).stderr).toBe('');
  const planner = `the operator has the release ${later} and may plan otherwise than kubectl brupop ${RELEASE}`;
  for (const args of [
    ['explain', 'a', '--gates'],
    ['plan', '--with', edit],
  ])
    expect((await brupop(...args)).stderr).toBe(`warning: ${planner}: install kubectl brupop ${later}\n`);
  expect((await brupop('update-now', 'a')).stderr).toBe('');
  expect(await annotations()).toEqual({ 'brupop.bottlerocket.aws/update-now': '1.21.0' });
});

it('a configuration that no controller has seen gets no request that may be ignored', async () => {
  await cluster.api.patch(`${CONFIG}/cluster/status`, { status: { observedGeneration: 0, release: null } });
  await report(cluster, 'a', { current_version: oldVersion });
  expect((await brupop('update-now', 'a')).stderr).toContain('was not sent: no controller has reported');
  expect((await brupop('status')).stdout).not.toContain('Release:');
  expect((await brupop('retry', 'a')).stderr).toBe('');
});

it('a field that the definitions of the cluster do not know is refused, and nothing is changed', async () => {
  const groups = '/apis/brupop.bottlerocket.aws/v1alpha1/bottlerocketnodegroups';
  const kind = { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', kind: 'BottlerocketNodeGroup' };
  const spec = { nodeSelector: { matchLabels: { pool: 'web' } } };
  await cluster.api.create(groups, { ...kind, metadata: { name: 'web' }, spec });
  const definition = await cluster.api.get<Crd>(DEFINITION);
  const [version] = definition.spec.versions;
  delete version?.schema.openAPIV3Schema.properties?.['spec']?.properties?.['pauseReason'];
  await cluster.api.request('PUT', DEFINITION, definition, 'application/json');
  await eventually(
    async () => {
      const { code, stderr } = await brupop('pause', '--group', 'web', '--reason', 'freeze');
      expect([code, stderr]).toEqual([
        1,
        'error: context admin: nothing was changed: the operator of the cluster does not know the field spec.pauseReason, ' +
          `so it is too old for kubectl brupop ${RELEASE}: upgrade the operator\n`,
      ]);
      await cluster.api.patch(`${groups}/web`, { spec: { paused: null } });
    },
    { limitMs: 30_000 },
  );
  await brupop('pause', '--group', 'web', '--reason', 'freeze');
  expect((await cluster.api.get<{ spec: object }>(`${groups}/web`)).spec).toEqual(spec);
});
