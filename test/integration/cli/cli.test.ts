import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { RELEASE } from '../../../packages/shared/src/runtime/build.ts';
import { rfc3339Micro } from '../../../packages/shared/src/runtime/clock.ts';
import { Plugin, type Result } from '../../framework/cli/plugin.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';
import { fullShadow } from '../../framework/example-shadow.ts';

jest.setTimeout(180_000);

const CRS = '/apis/brupop.bottlerocket.aws';
const CONFIG = `${CRS}/v1alpha1/brupopconfigs`;
const GROUPS = `${CRS}/v1alpha1/bottlerocketnodegroups`;
const NAMESPACE = 'brupop';

let cluster: ControlPlane;
let plugin: Plugin;

beforeAll(async () => {
  cluster = await startControlPlane();
  plugin = await Plugin.build(cluster);
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: NAMESPACE } });
  plugin.users['admin'] = { token: cluster.adminToken };
  plugin.users['nobody'] = { token: cluster.tokens.unprivileged };
  plugin.users['expired'] = { token: 'expired' };
});

afterAll(async () => {
  await cluster.stop();
  plugin.remove();
});

async function brupop(...args: string[]): Promise<Result> {
  return await plugin.run(...args);
}

const shadowOf = (node: string): string => `${CRS}/v2/namespaces/${NAMESPACE}/bottlerocketshadows/brs-${node}`;

async function addNode(name: string): Promise<void> {
  const labels = { 'bottlerocket.aws/updater-interface-version': '2.0.0' };
  const { metadata } = await createNode(cluster, { name, labels, bootID: 'a' });
  const path = `${CRS}/v2/namespaces/${NAMESPACE}/bottlerocketshadows`;
  const owner = { apiVersion: 'v1', kind: 'Node', name, uid: metadata?.uid };
  await cluster.api.create(path, {
    apiVersion: 'brupop.bottlerocket.aws/v2',
    kind: 'BottlerocketShadow',
    metadata: { name: `brs-${name}`, ownerReferences: [owner] },
    spec: { state: 'Idle' },
  });
  await cluster.api.patch(`${path}/brs-${name}/status`, {
    status: {
      current_state: 'Idle',
      current_version: '1.20.0',
      target_version: '1.21.0',
      crash_count: 0,
      observedGeneration: 1,
      bootID: 'a',
    },
  });
}

it('says that the operator is not installed', async () => {
  const { code, stderr } = await brupop('status');
  expect(stderr).toBe(
    'error: context admin: the cluster does not know brupop.bottlerocket.aws: the operator is not installed, or has another release\n',
  );
  expect(code).toBe(1);
});

describe('with the operator', () => {
  beforeAll(async () => {
    await installCrds(cluster);
    await plugin.grant('brupop-view', NAMESPACE);
    await plugin.grant('brupop-operate', NAMESPACE);
    await cluster.api.create(CONFIG, {
      apiVersion: 'brupop.bottlerocket.aws/v1alpha1',
      kind: 'BrupopConfig',
      metadata: { name: 'cluster' },
      spec: { concurrency: { maxUpdating: 2 } },
    });
    // As the leader of the controllers of this release does.
    await cluster.api.patch(`${CONFIG}/cluster/status`, { status: { observedGeneration: 1, release: RELEASE } });
    for (const name of ['node-a', 'node-b', 'node-c']) await addNode(name);
  });

  const spec = async (): Promise<unknown> => (await cluster.api.get<{ spec: unknown }>(`${CONFIG}/cluster`)).spec;

  it.each(['admin', 'brupop-view', 'brupop-operate'])('the user %s sees the fleet', async (context) => {
    const { stdout, stderr } = await brupop('--context', context, 'status');
    expect(stderr).toBe('');
    expect(stdout).toContain('0 of 3 up to date');
    expect(stdout).toMatch(/node-a +Unknown +1\.20\.0/u);
  });

  it('says when no controller leads, to a user who may read the Lease', async () => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases`;
    const silent = 'no controller has led since 2026-01-02T03:04:05Z: reports are from before';
    const metadata = { name: 'brupop-controller' };
    await cluster.api.create(leases, {
      metadata,
      spec: { holderIdentity: 'a_b', renewTime: rfc3339Micro(Date.now()) },
    });
    expect((await brupop('status')).stdout).not.toContain('no controller has led');
    // A leader whose clock is two minutes late renews it.
    const late = { spec: { renewTime: rfc3339Micro(Date.now() - 120_000) } };
    await cluster.api.patch(`${leases}/brupop-controller`, late);
    expect((await brupop('status')).stdout).not.toContain('no controller has led');
    const written = { manager: 'a', operation: 'Update', apiVersion: 'coordination.k8s.io/v1', fieldsType: 'FieldsV1' };
    const fieldsV1 = { 'f:spec': { 'f:renewTime': {} } };
    await cluster.api.patch(`${leases}/brupop-controller`, {
      metadata: { managedFields: [{ ...written, fieldsV1, time: '2026-01-02T03:04:05Z' }] },
    });
    const wide = { COLUMNS: '300' };
    expect((await plugin.runWith(wide, 'status')).stdout).toContain(`Controller: ${silent}`);
    for (const args of [['status', '-o', 'json'], ['explain', 'node-c'], ['plan'], ['retry', 'node-c']])
      expect((await plugin.runWith(wide, ...args)).stderr).toContain(`warning: ${silent}`);
    const { code, stdout, stderr } = await plugin.runWith(wide, '--context', 'brupop-view', 'status');
    expect([code, stderr, stdout]).toEqual([0, '', expect.not.stringContaining('no controller has led')]);
    await cluster.api.delete(`${leases}/brupop-controller`);
  });

  it('shows JSON and YAML', async () => {
    const { nodes } = JSON.parse((await brupop('status', '-o', 'json')).stdout) as { nodes: { node: string }[] };
    expect(nodes.map(({ node }) => node)).toEqual(['node-a', 'node-b', 'node-c']);
    expect((await brupop('explain', 'node-a', '-o', 'yaml')).stdout).toContain('target: 1.21.0');
  });

  it.each([
    ['nobody', 'brupop-view', ['status'], 'list brupopconfigs.brupop.bottlerocket.aws in the cluster'],
    ['brupop-view', 'brupop-operate', ['pause'], 'patch brupopconfigs.brupop.bottlerocket.aws in the cluster'],
    ['brupop-operate', 'No role', ['skip', 'node-a'], 'patch nodes in the cluster'],
  ])('the user %s learns what is missing and that %s has it', async (context, role, args, missing) => {
    const { code, stderr } = await brupop('--context', context, ...args);
    expect(stderr).toContain(`missing permission: ${missing}`);
    expect(stderr).toContain(role);
    expect(code).toBe(1);
  });

  it('says that a token is invalid, and which contexts there are', async () => {
    expect((await brupop('--context', 'expired', 'status')).stderr).toContain('credentials are expired or invalid');
    expect((await brupop('--context', 'none', 'status')).stderr).toContain('expected one of admin, nobody, expired');
  });

  it('pauses and resumes, and changes nothing else', async () => {
    await brupop('--context', 'brupop-operate', 'pause', '--reason', 'freeze');
    expect(await spec()).toEqual({ concurrency: { maxUpdating: 2 }, paused: true, pauseReason: 'freeze' });
    expect((await brupop('status')).stdout).toContain('Paused: freeze');
    await brupop('--context', 'brupop-operate', 'resume');
    expect(await spec()).toEqual({ concurrency: { maxUpdating: 2 }, paused: false });
  });

  it('pauses without the mode and the reason of an earlier pause, and keeps those of a pause that holds', async () => {
    const { concurrency } = (await spec()) as { concurrency: object };
    const incident = { pauseMode: 'Interrupt', pauseReason: 'incident' };
    const group = { kind: 'BottlerocketNodeGroup', metadata: { name: 'web' }, spec: { nodeSelector: {} } };
    await cluster.api.create(GROUPS, { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', ...group });
    for (const [path, base, args] of [
      [`${CONFIG}/cluster`, { concurrency }, []],
      [`${GROUPS}/web`, { nodeSelector: {} }, ['--group', 'web']],
    ] as const) {
      const found = async (): Promise<unknown> => (await cluster.api.get<{ spec: unknown }>(path)).spec;
      await cluster.api.patch(path, { spec: { ...incident, paused: false } });
      expect((await brupop('pause', ...args)).stdout).toContain('Updates under way finish.');
      expect(await found()).toEqual({ ...base, paused: true });
      await cluster.api.patch(path, { spec: incident });
      const again = await plugin.runWith({ COLUMNS: '200' }, 'pause', ...args);
      expect(again.stdout).toContain('It was paused before, with pauseMode Interrupt: updates whose host was not yet');
      expect(await found()).toEqual({ ...base, ...incident, paused: true });
      await brupop('pause', '--reason', 'later', ...args);
      expect(await found()).toEqual({ ...base, pauseMode: 'Interrupt', pauseReason: 'later', paused: true });
      await brupop('resume', ...args);
    }
    await cluster.api.delete(`${GROUPS}/web`);
  });

  it('pauses and resumes the nodes of a group only', async () => {
    const nodeSelector = { matchLabels: { pool: 'web' } };
    const group = { kind: 'BottlerocketNodeGroup', metadata: { name: 'web' }, spec: { nodeSelector } };
    await cluster.api.create(GROUPS, { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', ...group });
    const ofGroup = async (): Promise<unknown> => (await cluster.api.get<{ spec: unknown }>(`${GROUPS}/web`)).spec;
    expect((await brupop('pause', '--group', 'web', '--reason', 'freeze')).stderr).toBe('');
    expect(await ofGroup()).toEqual({ nodeSelector, paused: true, pauseReason: 'freeze' });
    await brupop('resume', '--group', 'web');
    expect(await ofGroup()).toEqual({ nodeSelector, paused: false });
    expect(await spec()).not.toMatchObject({ paused: true });
    expect((await brupop('pause', '--group', 'none')).stderr).toContain('bottlerocketnodegroups');
    const { stderr } = await brupop('approve', '1.21.0', '--group', 'web');
    expect(stderr).toContain('the group web has no approval of its own');
    await cluster.api.patch(`${GROUPS}/web`, { spec: { rollout: { approval: 'Required' } } });
    const { stdout } = await brupop('--context', 'brupop-operate', 'approve', '1.21.0', '--group', 'web');
    expect(stdout).toBe('1.21.0 is approved for the group web.\n');
    expect(await ofGroup()).toMatchObject({ rollout: { approval: 'Required', approvedVersion: '1.21.0' } });
    expect(await spec()).not.toMatchObject({ rollout: { approvedVersion: '1.21.0' } });
    await cluster.api.delete(`${GROUPS}/web`);
  });

  it('approves a version, and accepts failures', async () => {
    const warningOf = async (version: string): Promise<string> =>
      (await plugin.runWith({ COLUMNS: '200' }, 'approve', version)).stderr;
    expect(await warningOf('1.21.0')).toBe(
      'warning: spec.rollout.approval is not Required, so no version needs an approval of the fleet\n',
    );
    await cluster.api.patch(`${CONFIG}/cluster`, { spec: { rollout: { approval: 'Required' } } });
    const versions = [
      { version: '1.21.0', running: 0, offered: 3 },
      { version: '1.20.0', running: 3, offered: 0 },
    ];
    await cluster.api.patch(`${CONFIG}/cluster/status`, { status: { versions } });
    expect(await warningOf('1.20.0')).toBe('warning: no host offers 1.20.0; they offer 1.21.0\n');
    expect(await warningOf('1.21.0')).toBe('');
    await cluster.api.patch(`${CONFIG}/cluster/status`, { status: { versions: versions.slice(1) } });
    expect(await warningOf('1.21.0')).toBe('warning: no host offers 1.21.0, or any other version\n');
    await cluster.api.patch(`${CONFIG}/cluster`, { spec: { rollout: { approval: null } } });
    const { stderr } = await brupop('resume', '--failures');
    expect(stderr).toBe('');
    const rollout = { approvedVersion: '1.21.0', resume: expect.stringMatching(/Z$/u) as string };
    expect(await spec()).toMatchObject({ concurrency: { maxUpdating: 2 }, rollout });
  });

  it('refuses a name with which the API server would be asked for something else', async () => {
    const group = { kind: 'BottlerocketNodeGroup', metadata: { name: 'web' }, spec: { nodeSelector: {} } };
    await cluster.api.create(GROUPS, { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', ...group });
    for (const args of [
      ['pause', '--group', 'web/status'],
      ['resume', '--failures', '--group', '..'],
      ['approve', '1.21.0', '--group', ''],
      ['skip', 'node-a/status'],
      ['unskip', 'node/node-a'],
    ]) {
      const { code, stdout, stderr } = await brupop(...args);
      expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('expected the name of an object')]);
    }
    await cluster.api.delete(`${GROUPS}/web`);
  });

  it('retries, skips and unskips a node', async () => {
    const annotations = async (path: string): Promise<unknown> =>
      (await cluster.api.get<{ metadata: { annotations?: unknown } }>(path)).metadata.annotations;
    expect((await brupop('retry', 'node-a')).stderr).toBe('');
    expect(await annotations(`${CRS}/v2/namespaces/${NAMESPACE}/bottlerocketshadows/brs-node-a`)).toEqual({
      'brupop.bottlerocket.aws/retry': '1.21.0',
    });
    const skip = { 'brupop.bottlerocket.aws/skip': 'disk is slow' };
    await brupop('skip', 'node-a', '--reason', 'disk is slow');
    expect(await annotations('/api/v1/nodes/node-a')).toMatchObject(skip);
    const explained = await brupop('explain', 'node-a');
    expect([explained.stderr, explained.stdout]).toEqual(['', expect.stringMatching(/^Skipped: .*skip=disk is/mu)]);
    const withoutNodes = await brupop('--context', 'brupop-view', 'explain', 'node-a');
    expect([withoutNodes.code, withoutNodes.stderr]).toEqual([0, '']);
    expect(withoutNodes.stdout).not.toContain('Skipped');
    await brupop('unskip', 'node-a');
    expect(await annotations('/api/v1/nodes/node-a')).not.toMatchObject(skip);
    expect((await brupop('retry', 'node-x')).stderr).toContain('expected a BottlerocketShadow brs-node-x, found none');
  });

  describe('a node', () => {
    beforeEach(async () => await addNode('asked'));

    afterEach(async () => {
      await cluster.api.delete(shadowOf('asked'));
      await cluster.api.delete('/api/v1/nodes/asked');
    });

    const annotationsOf = async (node: string): Promise<unknown> =>
      (await cluster.api.get<{ metadata: { annotations?: unknown } }>(shadowOf(node))).metadata.annotations ?? {};
    const set = async (node: string, body: object): Promise<void> => {
      const { spec: next, status, metadata } = body as { spec?: object; status?: object; metadata?: object };
      await cluster.api.patch(shadowOf(node), { ...(next && { spec: next }), ...(metadata && { metadata }) });
      await cluster.api.patch(`${shadowOf(node)}/status`, { status });
    };

    it('is asked to update now, to the version that the host offers', async () => {
      const asked = { 'brupop.bottlerocket.aws/update-now': '1.21.0' };
      expect((await brupop('update-now', 'asked', '--version', '1.22.0')).stderr).toBe(
        'error: node asked: expected --version 1.21.0, which its host offers, found 1.22.0\n',
      );
      expect(await annotationsOf('asked')).toEqual({});
      for (const args of [[], ['--version', '1.21.0'], ['--version', 'v1.21.0']]) {
        const { stdout, stderr } = await brupop('--context', 'brupop-operate', 'update-now', 'asked', ...args);
        expect([stderr, stdout]).toEqual(['', expect.stringContaining('asked updates to 1.21.0 before other nodes')]);
        expect(await annotationsOf('asked')).toEqual(asked);
      }
      expect((await brupop('explain', 'asked')).stdout).toMatch(/^Requested: +update-now=1\.21\.0$/mu);
      await set('asked', { metadata: { annotations: null }, status: { current_version: '1.21.0' } });
      expect((await brupop('update-now', 'asked')).stderr).toContain('it runs 1.21.0, and is offered no other');
    });

    it('retries the version that its group pins, as it is not to run that of the fleet', async () => {
      const spec = { nodeSelector: {}, versions: { pin: '1.21.3' } };
      const group = { kind: 'BottlerocketNodeGroup', metadata: { name: 'web' }, spec };
      await cluster.api.create(GROUPS, { apiVersion: 'brupop.bottlerocket.aws/v1alpha1', ...group });
      await set('asked', { status: { group: 'web' } });
      expect((await brupop('retry', 'asked')).stdout).toContain('asked retries 1.21.3');
      expect(await annotationsOf('asked')).toEqual({ 'brupop.bottlerocket.aws/retry': '1.21.3' });
      await cluster.api.delete(`${GROUPS}/web`);
    });

    it('is not asked to retry what is up to date, goes on or is to end, as the request would be followed later', async () => {
      const upToDate = { type: 'Progressing', status: 'False', reason: 'UpToDate', message: 'Runs 1.21.0' };
      const conditions = [{ ...upToDate, observedGeneration: 1, lastTransitionTime: '2026-11-22T10:00:00Z' }];
      await set('asked', { status: { current_version: '1.21.0', conditions } });
      expect((await brupop('retry', 'asked')).stderr).toBe(
        'error: node asked: it is up to date with 1.21.0, so there is nothing to retry\n',
      );
      await set('asked', {
        spec: { state: 'StagedAndPerformedUpdate', version: '1.21.0' },
        status: { current_version: '1.20.0', conditions: null },
      });
      expect((await brupop('retry', 'asked')).stderr).toBe(
        'error: node asked: expected a node at rest, found an update to 1.21.0\n',
      );
      expect(await annotationsOf('asked')).toEqual({});
      const abort = { 'brupop.bottlerocket.aws/abort': 'true' };
      await set('asked', {
        metadata: { annotations: abort },
        status: { current_state: 'StagedAndPerformedUpdate', observedGeneration: 2 },
      });
      expect((await brupop('retry', 'asked')).stderr).toContain('its update is to end first: retry it when it shows');
      expect(await annotationsOf('asked')).toEqual(abort);
      await set('asked', { metadata: { annotations: null }, status: {} });
      expect((await brupop('retry', 'asked')).stderr).toContain('expected a node at rest');
      expect(await annotationsOf('asked')).toEqual({});
    });

    it('is asked to abort its update, before the reboot only', async () => {
      const none = 'error: node asked: expected an update that is under way, found none\n';
      expect((await brupop('abort', 'asked')).stderr).toBe(none);
      const step = (operation: string): object => {
        const at = '2026-11-22T10:00:00Z';
        return { operation, state: 'Processing', version: '1.21.0', bootID: 'a', startTime: at, lastUpdateTime: at };
      };
      const underWay = { state: 'RebootedIntoUpdate', version: '1.21.0' };
      await set('asked', { spec: underWay, status: { lastOperation: step('Reboot') } });
      expect((await brupop('abort', 'asked')).stderr).toContain('expected an update before its reboot');
      expect((await brupop('update-now', 'asked')).stderr).toContain('found an update to 1.21.0');
      expect(await annotationsOf('asked')).toEqual({});
      await set('asked', { status: { lastOperation: step('Drain') } });
      const { stdout, stderr } = await brupop('--context', 'brupop-operate', 'abort', 'asked');
      expect([stderr, stdout]).toEqual(['', expect.stringContaining('The update of asked to 1.21.0 is to end')]);
      expect(await annotationsOf('asked')).toEqual({ 'brupop.bottlerocket.aws/abort': 'true' });
      expect((await brupop('explain', 'asked')).stdout).toMatch(/^Requested: +abort=true$/mu);
      const aborted = { aborted: { version: '1.21.0', at: '2026-11-22T10:00:00Z' } };
      const times = { start: '2026-11-22T09:58:00Z', end: '2026-11-22T10:00:00Z' };
      const past = { ...times, from: '1.20.0', to: '1.21.0', outcome: 'Aborted', attempt: 1, seconds: {} };
      const annotations = {
        'brupop.bottlerocket.aws/record': JSON.stringify(aborted),
        'brupop.bottlerocket.aws/history-0': JSON.stringify(past),
        'brupop.bottlerocket.aws/abort': null,
      };
      await set('asked', { metadata: { annotations }, spec: { state: 'Idle', version: null }, status: {} });
      expect((await brupop('history', 'asked')).stdout).toMatch(/asked +1\.20\.0 +1\.21\.0 +2m +Aborted/u);
      expect((await brupop('explain', 'asked')).stdout).toMatch(/^Aborted: +the update to 1\.21\.0, by a user/mu);
    });

    it.each([['abort'], ['update-now']])('is left alone without the right that %s needs', async (verb) => {
      await set('asked', {
        spec: { state: verb === 'abort' ? 'StagedAndPerformedUpdate' : 'Idle', version: '1.21.0' },
        status: {},
      });
      const { code, stderr } = await brupop('--context', 'brupop-view', verb, 'asked');
      expect(stderr).toContain(
        `missing permission: patch bottlerocketshadows.brupop.bottlerocket.aws in the namespace "${NAMESPACE}"`,
      );
      expect(stderr).toContain('The ClusterRole brupop-operate has it');
      expect(code).toBe(1);
    });
  });

  it('shows what an edit would change, and nothing after it was applied', async () => {
    const file = join(plugin.folder, 'edit.yaml');
    const edit = { kind: 'BrupopConfig', metadata: { name: 'cluster' }, spec: { concurrency: { maxUpdating: 1 } } };
    writeFileSync(file, JSON.stringify({ apiVersion: 'brupop.bottlerocket.aws/v1alpha1', ...edit }));
    const { stdout, stderr } = await brupop('plan', '--with', file);
    expect(stderr).toBe('');
    expect(stdout).toMatch(/node-b +Started 1\.21\.0 +WaitingForCapacity/u);
    expect(stdout).toContain('Nothing was applied.');
    await cluster.api.patch(`${CONFIG}/cluster`, edit);
    const gates = (await brupop('explain', 'node-b', '--gates')).stdout;
    expect(gates).toMatch(/^paused +passes$/mu);
    expect(gates).toMatch(/^capacity +WaitingForCapacity/mu);
    expect(gates.indexOf('notSkipped')).toBeLessThan(gates.indexOf('capacity'));
    const nothing = 'The edit changes nothing for any node now.\n';
    expect((await brupop('plan', '--with', file)).stdout).toBe(nothing);
    // As from a pipe whose first program takes longer to start.
    const late = await plugin.runWithInput(readFileSync(file, 'utf8'), 2_000, 'plan', '--with', '-');
    expect([late.stderr, late.stdout]).toEqual(['', nothing]);
  });

  it('asks the gates at the time of the API server', async () => {
    const maintenance = { windows: [{ schedule: '0 0 29 2 *', duration: '24h' }] };
    await cluster.api.patch(`${CONFIG}/cluster`, { spec: { maintenance } });
    // A clock at 2028-02-29T00:30:00Z, when the window is open.
    const ahead = '--import=data:text/javascript,Date.now=()=>1835397000000';
    const { stdout } = await plugin.runWith({ NODE_OPTIONS: ahead }, 'explain', 'node-b', '--gates');
    expect(stdout).toMatch(/^windowOpen +OutsideMaintenanceWindow/mu);
    await cluster.api.patch(`${CONFIG}/cluster`, { spec: { maintenance: null } });
  });

  it('shows an object of another release, which has no status', async () => {
    await cluster.api.create(`${CRS}/v2/namespaces/${NAMESPACE}/bottlerocketshadows`, {
      apiVersion: 'brupop.bottlerocket.aws/v2',
      kind: 'BottlerocketShadow',
      metadata: { name: 'brs-old' },
      spec: { state: 'Idle' },
    });
    expect((await brupop('status')).stdout).toMatch(/^old +Unknown$/mu);
  });

  it('shows a fleet of 1,000 nodes', async () => {
    const path = `${CRS}/v2/namespaces/${NAMESPACE}/bottlerocketshadows`;
    const names = Array.from({ length: 1000 }, (_, index) => `brs-many-${index}`);
    const { metadata: _, spec: __, status, ...kind } = fullShadow;
    for (let index = 0; index < names.length; index += 50) {
      const some = names.slice(index, index + 50);
      await Promise.all(
        some.map(async (name) => {
          await cluster.api.create(path, { ...kind, metadata: { name }, spec: { state: 'Idle' } });
          await cluster.api.patch(`${path}/${name}/status`, { status });
        }),
      );
    }
    const startedAt = performance.now();
    expect((await brupop('status')).stdout).toMatch(/^many-999 +Failed +Paused/mu);
    // It takes 0.6 s on a machine that does nothing else.
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    const explained = JSON.parse((await brupop('explain', 'many-0', '-o', 'json')).stdout) as unknown;
    expect(explained).toMatchObject({ node: 'many-0', drain: status?.drain });
  });
});
