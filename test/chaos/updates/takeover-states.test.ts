/** `scripts/takeover.sh` and the commands of docs/takeover.md on the Rust operator's objects, with both majors of Helm. */
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { V1Deployment, V1Node, V1Secret, V1Service } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import {
  CORDONED_ANNOTATION,
  GROUP,
  MANAGED_LABEL,
  MANAGED_LABEL_VALUE,
  SHADOW_PLURAL,
} from '@brupop/shared/api/names';
import { helm, IMAGE, releaseNamespace } from '../../framework/chart.ts';
import { commandsOf, runCommands } from '../../framework/commands.ts';
import { helm3CacheFolder } from '../../framework/control-plane/cache.ts';
import type { Connection } from '../../framework/control-plane/connection.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { obtainPrograms } from '../../framework/control-plane/obtain.ts';
import { startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir, type Crd } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';
import { installAfterPrepare } from '../../framework/rust-operator/install-after.ts';
import {
  createShadow,
  definition,
  installRustOperator,
  report,
  rustOperator,
  shadows,
  type State,
} from '../../framework/rust-operator/rust-operator.ts';

// Helm 3 may have to be built.
jest.setTimeout(1_200_000);

const PAGE = 'docs/takeover.md';
const RELEASE = 'bottlerocket-update-operator';
const EXCLUSION = 'node.kubernetes.io/exclude-from-external-load-balancers';
const NAMESPACED = `/namespaces/${releaseNamespace}`;

type Major = 3 | 4;

interface Setup extends Connection {
  /** A folder of the test; the backup is in it. */
  readonly folder: string;
  readonly major: Major;
}

/** Runs `body` on a cluster with the Rust operator and these nodes. */
async function withRustOperator(
  major: Major,
  nodes: readonly string[],
  body: (setup: Setup) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'brupop-takeover-'));
  try {
    const programs = join(folder, 'programs');
    mkdirSync(programs);
    const path = join(programs, 'helm');
    if (major === 3)
      symlinkSync((await obtainPrograms({ wanted: ['helm3'], cacheFolder: helm3CacheFolder() })).helm3, path);
    const cluster = await startControlPlane();
    try {
      const assets = major === 3 ? { ...cluster.assets, helm: path } : cluster.assets;
      const env = { ...cluster.env, PATH: [programs, cluster.env['PATH']].join(delimiter) };
      const setup = { ...cluster, assets, env, folder, major };
      await cluster.api.create('/api/v1/namespaces', { metadata: { name: releaseNamespace } });
      const labels = { [MANAGED_LABEL]: MANAGED_LABEL_VALUE };
      await Promise.all(nodes.map(async (name) => await createNode(cluster, { name, labels })));
      await installRustOperator(setup);
      await body(setup);
    } finally {
      await cluster.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function takeover({ folder }: Setup, command: string, timeout = 60): string {
  return `scripts/takeover.sh ${command} --backup ${folder}/brupop-backup --timeout ${timeout}`;
}

async function prepare(setup: Setup, options = ''): Promise<string> {
  return await runCommands(setup, `${takeover(setup, 'prepare')} ${options}`);
}

/** The commands of the page, as they are for the charts, the folder and the Helm of this test. */
function documented(setup: Setup, heading: string): string {
  const text = commandsOf(PAGE, heading)
    .replace(/^helm repo add .*\n/mu, '')
    .replaceAll('brupop-backup', `${setup.folder}/brupop-backup`)
    .replaceAll('brupop/bottlerocket-shadow', join(rustOperator, 'crd'))
    .replaceAll('brupop/bottlerocket-update-operator', join(rustOperator, 'operator'));
  return forHelm(setup, text);
}

/** Helm 3 has no option --force-conflicts. */
function forHelm({ major }: Setup, text: string): string {
  return major === 3 ? text.replaceAll(' --force-conflicts', '') : text;
}

async function install(setup: Setup): Promise<void> {
  await installAfterPrepare(setup, setup.folder, undefined, (command) => forHelm(setup, command));
}

async function uidsOfShadows({ api }: Setup): Promise<unknown[]> {
  const list = async (): Promise<{ items: { metadata: { uid: string } }[] }> => await api.get(shadows);
  const { items } = await eventually(list);
  return items.map(({ metadata }) => metadata.uid);
}

async function versionsOf({ api }: Setup): Promise<string[]> {
  return (await api.get<Crd>(definition)).spec.versions.map(({ name }) => name);
}

async function selectorOf({ api }: Setup): Promise<unknown> {
  const { spec } = await api.get<V1Service>(`/api/v1${NAMESPACED}/services/brupop-apiserver`);
  return spec?.selector?.['brupop.bottlerocket.aws/component'];
}

async function deploymentsOf({ api }: Setup): Promise<unknown[]> {
  const { items } = await api.get<{ items: V1Deployment[] }>(`/apis/apps/v1${NAMESPACED}/deployments`);
  return items.map(({ metadata }) => metadata?.name);
}

async function cordon({ api }: Setup, name: string): Promise<void> {
  await api.patch(`/api/v1/nodes/${name}`, { spec: { unschedulable: true } });
  await eventually(async () => {
    const { spec } = await api.get<V1Node>(`/api/v1/nodes/${name}`);
    expect(spec?.taints).toContainEqual(expect.objectContaining({ key: 'node.kubernetes.io/unschedulable' }));
  });
}

/** As the controller of this operator does where no agent has reported. */
async function writeConditions(setup: Setup, node: string): Promise<void> {
  const times = { lastTransitionTime: '2026-01-01T00:00:00Z' };
  const condition = { type: 'Progressing', status: 'False', reason: 'UpToDate', message: 'Up to date', ...times };
  const user = `--as=system:serviceaccount:${releaseNamespace}:brupop-controller --as-group=system:masters`;
  const patch = JSON.stringify({ status: { conditions: [condition] } });
  const of = `brs brs-${node} -n ${releaseNamespace} --subresource status --type merge`;
  await runCommands(setup, `kubectl patch ${of} ${user} -p '${patch}'`);
}

/** As the agent of the Rust operator does after a failure. */
async function recover({ api }: Setup, node: string): Promise<void> {
  await eventually(
    async () => {
      const { spec } = await api.get<{ spec: { state: State } }>(`${shadows}/brs-${node}`);
      expect(spec.state).toBe('Idle');
    },
    { limitMs: 60_000 },
  );
  await report(api, node, 'Idle');
}

/** The nodes whose cordon the next agent removes. */
async function adopted({ api }: Setup): Promise<unknown[]> {
  const { items } = await api.get<{ items: V1Node[] }>('/api/v1/nodes');
  const marked = items.filter(({ metadata }) => metadata?.annotations?.[CORDONED_ANNOTATION] !== undefined);
  return marked.map(({ metadata }) => metadata?.name);
}

describe.each([4, 3] as const)('with Helm %i', (major) => {
  it('the takeover, the way back before the installation, and the takeover again keep the shadows', async () => {
    await withRustOperator(major, ['node-1'], async (setup) => {
      await createShadow(setup, 'node-1', 'Idle', 'Idle');
      const uids = await uidsOfShadows(setup);
      await prepare(setup);
      for (const chart of ['crd', 'operator'])
        expect(readFileSync(join(setup.folder, `brupop-backup/${chart}-version.txt`), 'utf8')).toBe('1.0.0\n');

      const crd = ['brupop-crd', join(rustOperator, 'crd'), '--namespace', 'default'];
      const outcome = await helm(setup, 'install', ...crd, '--take-ownership').catch(String);
      expect(outcome).toContain(major === 4 ? '.spec.conversion' : 'STATUS: deployed');
      await expect(helm(setup, 'install', ...crd)).rejects.toThrow(/cannot re-?use a name/);
      await runCommands(setup, 'kubectl delete secret -n default -l owner=helm,name=brupop-crd,status=deployed');
      await runCommands(setup, documented(setup, 'With Helm'));
      expect(await versionsOf(setup)).toEqual(['v2', 'v1']);
      expect(await uidsOfShadows(setup)).toEqual(uids);
      expect(await deploymentsOf(setup)).toContain('brupop-controller-deployment');

      await prepare(setup);
      await install(setup);
      expect(await versionsOf(setup)).toEqual(['v2']);
      expect(await selectorOf(setup)).toBe('brupop-apiserver');
      expect(await uidsOfShadows(setup)).toEqual(uids);
      await expect(runCommands(setup, takeover(setup, 'prepare'))).rejects.toThrow('nothing was changed');
    });
  });

  it('an installation beside the Rust operator is refused, and what one left is removed', async () => {
    await withRustOperator(major, ['node-1', 'tainted'], async (setup) => {
      await createShadow(setup, 'node-1', 'StagedAndPerformedUpdate', 'Idle');
      await createShadow(setup, 'tainted', 'Idle', undefined);
      await expect(install(setup)).rejects.toThrow('scripts/takeover.sh prepare');
      expect(await helm(setup, 'list', '--namespace', releaseNamespace, '--short')).toBe('');

      const earlier = join(setup.folder, 'chart');
      cpSync(chartDir, earlier, { recursive: true });
      rmSync(join(earlier, 'templates/rust-operator.yaml'));
      const options = [
        '--namespace',
        releaseNamespace,
        '--take-ownership',
        ...(major === 4 ? ['--force-conflicts'] : []),
      ];
      await expect(helm(setup, 'install', RELEASE, earlier, ...IMAGE, ...options)).rejects.toThrow(
        'field is immutable',
      );
      expect(await selectorOf(setup)).toBe('brupop-apiserver');
      // Helm 3 compares an adopted CustomResourceDefinition with the chart, so it left the definition as it was.
      if (major === 4) await writeConditions(setup, 'tainted');
      expect(await versionsOf(setup)).toEqual(major === 4 ? ['v2'] : ['v2', 'v1']);

      expect(await runCommands(setup, takeover(setup, 'check'))).toContain('deployment.apps/brupop-controller ');
      await expect(runCommands(setup, takeover(setup, 'prepare', 1))).rejects.toThrow(
        'still under way: node-1(StagedAndPerformedUpdate);',
      );
      // The agents of the Rust operator can finish their steps now.
      expect(await selectorOf(setup)).toBe('apiserver');
      expect(await deploymentsOf(setup)).toEqual(['brupop-apiserver', 'brupop-controller-deployment']);
      await report(setup.api, 'node-1', 'StagedAndPerformedUpdate');

      await prepare(setup);
      expect(await helm(setup, 'list', '--all-namespaces', '--short')).toBe('');
      await install(setup);
      expect(await selectorOf(setup)).toBe('brupop-apiserver');
      expect(await versionsOf(setup)).toEqual(['v2']);
    });
  });
});

/** What anyone may write who may write Secrets and Deployments in a namespace. */
async function pretendRelease({ api }: Setup, namespace: string, manifest: string): Promise<void> {
  const { metadata, type, data } = await api.get<V1Secret>(
    '/api/v1/namespaces/default/secrets/sh.helm.release.v1.brupop.v1',
  );
  const text = Buffer.from(Buffer.from(data?.['release'] ?? '', 'base64').toString(), 'base64');
  const record = JSON.parse(gunzipSync(text).toString()) as { manifest: string };
  const changed = { ...record, namespace, manifest: `${record.manifest}\n---\n${manifest}` };
  const release = Buffer.from(gzipSync(JSON.stringify(changed)).toString('base64')).toString('base64');
  const { name, labels } = metadata ?? {};
  await api.create('/api/v1/namespaces', { metadata: { name: namespace } });
  await api.create(`/api/v1/namespaces/${namespace}/secrets`, { metadata: { name, labels }, type, data: { release } });
  const selector = { app: 'other' };
  await api.create(`/apis/apps/v1/namespaces/${namespace}/deployments`, {
    metadata: { name: 'other', labels: { 'app.kubernetes.io/part-of': 'bottlerocket-update-operator' } },
    spec: {
      selector: { matchLabels: selector },
      template: { metadata: { labels: selector }, spec: { containers: [{ name: 'other', image: 'other' }] } },
    },
  });
}

describe('prepare', () => {
  it('uninstalls nothing that users of other namespaces have recorded, nor waits for them', async () => {
    await withRustOperator(4, ['node-1'], async (setup) => {
      const { api } = setup;
      await createShadow(setup, 'node-1', 'Idle', 'Idle');
      await api.create('/api/v1/namespaces/kube-system/configmaps', { metadata: { name: 'of-the-cluster' } });
      const own = 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: of-the-cluster\n  namespace: kube-system\n';
      await pretendRelease(setup, 'tenant', own);
      await pretendRelease(setup, 'another', `${own}---\nmetadata:\n  name: ${SHADOW_PLURAL}.${GROUP}\n`);
      expect(await runCommands(setup, takeover(setup, 'check'))).toContain('of the operator: brupop default\n');
      await prepare(setup);
      await api.get('/api/v1/namespaces/kube-system/configmaps/of-the-cluster');
      expect(await helm(setup, 'list', '--namespace', 'default', '--short')).toBe('');
      expect(readFileSync(join(setup.folder, 'brupop-backup/crd-release.txt'), 'utf8')).toBe('brupop-crd default\n');
    });
  });

  it('changes nothing with another namespace than that of the Rust operator', async () => {
    await withRustOperator(4, [], async (setup) => {
      const wrong = `${takeover(setup, 'prepare')} --namespace default`;
      await expect(runCommands(setup, wrong)).rejects.toThrow(
        `is in the namespace ${releaseNamespace} and not in default`,
      );
      await expect(runCommands(setup, wrong)).rejects.toThrow('nothing was changed');
      expect(await versionsOf(setup)).toEqual(['v2', 'v1']);
      expect(await deploymentsOf(setup)).toContain('brupop-controller-deployment');
    });
  });

  it('removes the Rust operator from a larger release, and nothing else of it', async () => {
    await withRustOperator(4, [], async (setup) => {
      const chart = join(setup.folder, 'cluster-addons');
      mkdirSync(join(chart, 'templates'), { recursive: true });
      writeFileSync(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: cluster-addons\nversion: 1.0.0\n');
      writeFileSync(join(chart, 'templates/other.yaml'), 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n');
      cpSync(join(rustOperator, 'operator'), join(chart, 'charts/bottlerocket-update-operator'), { recursive: true });
      await helm(setup, 'uninstall', 'brupop', '--namespace', 'default');
      await helm(setup, 'install', 'addons', chart, '--namespace', 'default');
      expect(await runCommands(setup, takeover(setup, 'check'))).toContain('addons in default (chart cluster-addons)');
      expect(await prepare(setup)).toMatch(
        /^Upgrade .* before step 2.*: addons in default \(chart cluster-addons\)$/mu,
      );
      expect(await deploymentsOf(setup)).toEqual([]);
      expect(await helm(setup, 'list', '--namespace', 'default', '--short')).toBe('addons\n');
      await setup.api.get('/api/v1/namespaces/default/configmaps/other');

      // Helm deletes what a release no longer has by its name, also what another installation has created since.
      rmSync(join(chart, 'charts'), { recursive: true });
      await helm(setup, 'upgrade', 'addons', chart, '--namespace', 'default');
      await install(setup);
      await helm(setup, 'upgrade', 'addons', chart, '--namespace', 'default');
      expect(await deploymentsOf(setup)).toEqual(['brupop-apiserver', 'brupop-controller']);
      await setup.api.get(`/apis/apps/v1${NAMESPACED}/daemonsets/brupop-agent`);
    });
  });

  it('adopts only the cordons that the steps under way made', async () => {
    const nodes = ['rust', 'staged', 'before', 'kubectl', 'done', 'late'];
    await withRustOperator(4, nodes, async (setup) => {
      await createShadow(setup, 'rust', 'RebootedIntoUpdate', 'ErrorReset');
      await createShadow(setup, 'staged', 'StagedAndPerformedUpdate', 'StagedAndPerformedUpdate');
      await createShadow(setup, 'before', 'RebootedIntoUpdate', 'ErrorReset', '2999-01-01T00:00:00+00:00');
      await createShadow(setup, 'kubectl', 'RebootedIntoUpdate', 'ErrorReset');
      await createShadow(setup, 'done', 'MonitoringUpdate', 'MonitoringUpdate');
      await createShadow(setup, 'late', 'RebootedIntoUpdate', 'ErrorReset');
      for (const name of ['rust', 'staged', 'before', 'done']) await cordon(setup, name);
      await runCommands(setup, 'kubectl cordon kubectl');
      await expect(runCommands(setup, takeover(setup, 'prepare', 3))).rejects.toThrow('still under way');

      // A user, after the step and between two runs.
      await cordon(setup, 'late');
      for (const name of ['rust', 'before', 'kubectl', 'late']) await recover(setup, name);
      const said = await prepare(setup);
      expect(await adopted(setup)).toEqual(['rust']);
      for (const name of nodes.slice(1)) expect(said).toContain(`kubectl uncordon ${name}\n`);
      expect(said).not.toContain('kubectl uncordon rust');
    });
  });

  it.each(['the documented way back', 'no way back'])(
    'adopts no cordon of a user after an abandoned attempt and %s',
    async (way) => {
      await withRustOperator(4, ['node-1'], async (setup) => {
        const { api } = setup;
        await createShadow(setup, 'node-1', 'RebootedIntoUpdate', 'ErrorReset');
        await cordon(setup, 'node-1');
        await api.patch('/api/v1/nodes/node-1', { metadata: { labels: { [EXCLUSION]: 'True' } } });
        await Promise.all([prepare(setup), recover(setup, 'node-1')]);
        expect(await adopted(setup)).toEqual(['node-1']);

        await installRustOperator(setup, ['--take-ownership', '--force-conflicts']);
        if (way === 'no way back') await api.patch('/api/v1/nodes/node-1', { spec: { unschedulable: null } });
        else await runCommands(setup, documented(setup, 'Before the installation'));
        await eventually(async () => {
          const { spec } = await api.get<V1Node>('/api/v1/nodes/node-1');
          expect(spec?.taints ?? []).toEqual([]);
        });
        await cordon(setup, 'node-1');
        expect(await prepare(setup)).toContain('kubectl uncordon node-1');
        expect(await adopted(setup)).toEqual([]);
      });
    },
  );

  it('waits for no agent of a node that is left out', async () => {
    await withRustOperator(4, ['node-1'], async (setup) => {
      const { api } = setup;
      const labels = { [MANAGED_LABEL]: MANAGED_LABEL_VALUE };
      await api.create('/api/v1/nodes', { metadata: { name: 'down', labels } });
      await createShadow(setup, 'node-1', 'Idle', 'Idle');
      await createShadow(setup, 'down', 'RebootedIntoUpdate', 'StagedAndPerformedUpdate');
      await cordon(setup, 'down');
      await api.create(`/api/v1${NAMESPACED}/pods`, {
        metadata: { name: 'brupop-agent-x', labels: { 'brupop.bottlerocket.aws/component': 'agent' } },
        spec: { nodeName: 'down', containers: [{ name: 'brupop', image: 'rust-operator' }] },
      });
      await expect(runCommands(setup, takeover(setup, 'prepare', 1))).rejects.toThrow('still under way: down');
      await report(api, 'down', 'RebootedIntoUpdate');
      await expect(runCommands(setup, takeover(setup, 'prepare', 1))).rejects.toThrow('brupop-agent-x(down)');
      await expect(prepare(setup, '--leave-out dwon')).rejects.toThrow('there is no Node dwon');
      await prepare(setup, '--leave-out down');
      expect(await adopted(setup)).toEqual(['down']);
      await install(setup);
    });
  });

  it('can be killed at each of its commands', async () => {
    await withRustOperator(4, ['node-1', 'node-2'], async (setup) => {
      const { folder, assets } = setup;
      await createShadow(setup, 'node-1', 'RebootedIntoUpdate', 'ErrorReset');
      await createShadow(setup, 'node-2', 'Idle', 'Idle');
      for (const name of ['node-1', 'node-2']) await cordon(setup, name);
      const uids = await uidsOfShadows(setup);
      const agent = recover(setup, 'node-1');

      const count = join(folder, 'count');
      for (const [name, path] of Object.entries({ kubectl: assets.kubectl, helm: assets.helm })) {
        const lines = [
          '#!/bin/sh',
          `n=$(($(cat ${count}) + 1)); echo $n >${count}`,
          '[ $n -lt "$KILLED_AT" ] || kill -9 0',
          `exec ${path} "$@"`,
        ];
        writeFileSync(join(folder, 'programs', name), lines.join('\n'));
        chmodSync(join(folder, 'programs', name), 0o755);
      }
      let killedAt = 3;
      for (; killedAt < 200; killedAt += 4) {
        writeFileSync(count, '0');
        const command = `KILLED_AT=${killedAt} setsid --wait ${takeover(setup, 'prepare')}`;
        const isDone = await runCommands(setup, command).then(
          () => true,
          () => false,
        );
        if (isDone) break;
      }
      await agent;
      expect(readFileSync(count, 'utf8')).not.toBe('0');
      expect(killedAt).toBeLessThan(200);
      expect(killedAt).toBeGreaterThan(40);
      expect(await adopted(setup)).toEqual(['node-1']);
      expect(await deploymentsOf(setup)).toEqual([]);
      expect(await uidsOfShadows(setup)).toEqual(uids);
      await install({ ...setup, env: { ...setup.env, KILLED_AT: '1000000' } });
      expect(await versionsOf(setup)).toEqual(['v2']);
    });
  });
});
