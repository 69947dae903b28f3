import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { V1DaemonSet } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import {
  ABORT_ANNOTATION,
  AGENT,
  APISERVER,
  CONFIG_NAME,
  CONFIG_OBJECT,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  CONTROLLER,
  GROUP,
  RETRY_ANNOTATION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
  UPDATE_NOW_ANNOTATION,
} from '@brupop/shared/api/names';
import { RELEASE } from '@brupop/shared/api/release';
import { helm, IMAGE, releaseNamespace } from '../../framework/chart.ts';
import { blocksOf, commandsOf, runCommands } from '../../framework/commands.ts';
import type { Api, ApiError } from '../../framework/control-plane/api.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { chartDir, type Crd } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';
import { fullShadow } from '../../framework/example-shadow.ts';

jest.setTimeout(120_000);

const definition = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${SHADOW_PLURAL}.${GROUP}`;
const shadows = `/apis/${GROUP}/${SHADOW_VERSION}/namespaces/${releaseNamespace}/${SHADOW_PLURAL}`;

let cluster: ControlPlane;
let folder = '';

beforeAll(async () => {
  cluster = await startControlPlane();
  // As hardened clusters do, so that service accounts have only what the chart grants.
  await cluster.api.delete(
    '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:service-account-issuer-discovery',
  );
  folder = mkdtempSync(join(tmpdir(), 'brupop-chart-'));
});

afterAll(async () => {
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
});

/**
 * The chart as an earlier version may have been: its definition of shadows lacks `status.bootID`.
 */
function earlierChart(): string {
  const copy = join(folder, 'earlier');
  cpSync(chartDir, copy, { recursive: true });
  const path = join(copy, 'templates/crds/bottlerocketshadows.yaml');
  const text = readFileSync(path, 'utf8').replace(/^ {16}bootID:\n(?: {18}.*\n)+/m, '');
  writeFileSync(path, text);
  return copy;
}

async function hasBootID(): Promise<boolean> {
  const crd = await cluster.api.get<Crd>(definition);
  return crd.spec.versions[0]?.schema.openAPIV3Schema.properties?.['status']?.properties?.['bootID'] !== undefined;
}

/** The permissions of a service account, as lines of `kubectl auth can-i --list`. */
async function rightsOf(account: string, namespace = releaseNamespace): Promise<string[]> {
  const user = `system:serviceaccount:${releaseNamespace}:${account}`;
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${releaseNamespace}`, 'system:authenticated'];
  const impersonate = [`--as=${user}`, ...groups.map((group) => `--as-group=${group}`)];
  const args = ['auth', 'can-i', '--list', '--no-headers', `--namespace=${namespace}`, ...impersonate];
  const { stdout } = await promisify(execFile)(cluster.assets.kubectl, args, { env: cluster.env, timeout: 30_000 });
  return stdout
    .split('\n')
    .map((line) => withSortedVerbs(line.trim().replaceAll(/ +/g, ' ')))
    .toSorted();
}

/** The verbs of several rules come in the order in which the API server has found their roles. */
function withSortedVerbs(right: string): string {
  return right.replace(/\[([^\]]*)\]$/u, (_, verbs: string) => `[${verbs.split(' ').toSorted().join(' ')}]`);
}

const release = ['--namespace', releaseNamespace];

describe('a release of the chart', () => {
  it('is installed, upgraded with its definitions, uninstalled without losing shadows, and installed again', async () => {
    await helm(cluster, 'install', 'brupop', earlierChart(), ...IMAGE, ...release, '--create-namespace');
    expect(await hasBootID()).toBe(false);

    await helm(cluster, 'upgrade', 'brupop', chartDir, ...IMAGE, ...release);
    expect(await hasBootID()).toBe(true);

    const account = `/api/v1/namespaces/${releaseNamespace}/serviceaccounts/${CONTROLLER}/token`;
    const { status } = await cluster.api.create<{ status: { token: string } }>(account, { spec: {} });
    await cluster.api.as(status.token).create(shadows, { ...fullShadow, status: undefined });
    await helm(cluster, 'uninstall', 'brupop', ...release);
    expect(await cluster.api.get(`${shadows}/${fullShadow.metadata.name}`)).toMatchObject({ spec: fullShadow.spec });

    await helm(cluster, 'install', 'brupop', chartDir, ...IMAGE, ...release);
  });

  it('may have a version with build metadata, as Flux and pipelines add it, and links to the tag without it', async () => {
    const version = `${RELEASE}+a96eff73a282d408a960086d978ca97a0a1fb2ef`;
    const versions = ['--version', version, '--app-version', version];
    await helm(cluster, 'package', chartDir, ...versions, '--destination', folder);
    const archive = join(folder, `bottlerocket-update-operator-${version}.tgz`);
    // Which tag was pushed is not known.
    await expect(helm(cluster, 'template', archive, ...IMAGE)).rejects.toThrow('set image.tag or image.digest');
    const output = await helm(cluster, 'upgrade', 'brupop', archive, ...IMAGE, '--set', 'image.tag=v9', ...release);
    const [, notes = ''] = output.split('\nNOTES:');
    expect(notes).toContain(`/blob/v${RELEASE}/docs/`);
    expect(notes).not.toContain('+');

    const daemonSet = `/apis/apps/v1/namespaces/${releaseNamespace}/daemonsets/${AGENT}`;
    const { metadata } = await cluster.api.get<V1DaemonSet>(daemonSet);
    expect(metadata?.labels).toMatchObject({
      'app.kubernetes.io/version': version.replace('+', '_'),
      'helm.sh/chart': `bottlerocket-update-operator-${version.replace('+', '_')}`.slice(0, 63),
    });
  });

  it('can be upgraded after its uninstallation failed, by the documented commands', async () => {
    const targets = JSON.stringify([{ kind: 'Deployment', namespace: 'default', name: 'autoscaler' }]);
    const upgrade = ['upgrade', 'brupop', chartDir, ...IMAGE, ...release];
    await helm(cluster, ...upgrade, '--set-json', `dependents.targets=${targets}`);
    // The pod of the Job finds no node.
    await expect(helm(cluster, 'uninstall', 'brupop', ...release, '--timeout', '3s')).rejects.toThrow(
      'brupop-restore-dependents',
    );
    await expect(helm(cluster, ...upgrade)).rejects.toThrow('has no deployed releases');

    const documented = commandsOf('docs/uninstall.md', 'If the Job failed');
    await runCommands(cluster, documented.replaceAll('bottlerocket-update-operator', 'brupop'));
    await helm(cluster, ...upgrade);
    const jobs = `/apis/batch/v1/namespaces/${releaseNamespace}/jobs`;
    expect(await cluster.api.get(jobs)).toMatchObject({ items: [] });
  });

  it('adopts the BrupopConfig of the controller for extraObjects only with --take-ownership, and keeps it if annotated', async () => {
    const configs = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;
    const object = { ...CONFIG_OBJECT, metadata: { name: CONFIG_NAME } };
    const install = ['upgrade', '--install', '--create-namespace', 'brupop', chartDir, ...IMAGE, ...release];
    await helm(cluster, ...install);
    await eventually(async () => await cluster.api.create(configs, { ...object, spec: {} }));

    const annotations = { 'helm.sh/resource-policy': 'keep' };
    const own = { ...object, metadata: { ...object.metadata, annotations }, spec: { concurrency: { maxUpdating: 3 } } };
    const withConfig = [...install, '--set-json', `extraObjects=${JSON.stringify([own])}`];
    await expect(helm(cluster, ...withConfig)).rejects.toThrow('invalid ownership metadata');
    await helm(cluster, ...withConfig, '--take-ownership');
    await helm(cluster, ...install, '--reset-values');
    expect(await cluster.api.get(`${configs}/${CONFIG_NAME}`)).toMatchObject({ spec: own.spec });
    await cluster.api.delete(`${configs}/${CONFIG_NAME}`);
  });

  it('gives agents nothing beyond what every service account has', async () => {
    const baseline = await rightsOf('baseline');
    expect(baseline).toContainEqual(expect.stringContaining('selfsubjectreviews'));
    expect(await rightsOf(AGENT)).toEqual(baseline);
  });

  it('gives the controller exactly these permissions', async () => {
    const baseline = await rightsOf('baseline');
    expect((await rightsOf(CONTROLLER)).filter((right) => !baseline.includes(right))).toEqual(
      [
        'bottlerocketnodegroups.brupop.bottlerocket.aws [] [] [list watch patch]',
        'bottlerocketnodegroups.brupop.bottlerocket.aws/status [] [] [patch]',
        'bottlerocketshadows.brupop.bottlerocket.aws [] [] [list watch create patch delete]',
        'bottlerocketshadows.brupop.bottlerocket.aws/status [] [] [patch]',
        'brupopconfigs.brupop.bottlerocket.aws [] [] [list watch create]',
        'brupopconfigs.brupop.bottlerocket.aws/status [] [] [patch]',
        'configmaps [] [] [create get patch]',
        'configmaps [] [brupop-ca] [get update]',
        'daemonsets.apps [] [brupop-agent] [get]',
        'events [] [] [create]',
        'leases.coordination.k8s.io [] [] [create]',
        'leases.coordination.k8s.io [] [brupop-controller] [get list watch update]',
        'nodes [] [] [get list watch patch]',
        'poddisruptionbudgets.policy [] [] [list watch]',
        'pods [] [] [list]',
        'secrets [] [] [create]',
        'secrets [] [brupop-apiserver-tls] [get update]',
        'secrets [] [brupop-ca] [get update]',
      ].map(withSortedVerbs),
    );
    expect(await rightsOf(CONTROLLER, 'default')).toContain('events [] [] [create]');
  });

  it('gives the apiserver exactly these permissions, also where not every service account may verify tokens', async () => {
    const baseline = await rightsOf('baseline');
    expect((await rightsOf(APISERVER)).filter((right) => !baseline.includes(right))).toEqual(
      [
        '[/.well-known/openid-configuration] [] [get]',
        '[/openid/v1/jwks] [] [get]',
        'bottlerocketnodegroups.brupop.bottlerocket.aws [] [] [list watch]',
        'bottlerocketshadows.brupop.bottlerocket.aws [] [] [get list watch]',
        'bottlerocketshadows.brupop.bottlerocket.aws/status [] [] [patch]',
        'brupopconfigs.brupop.bottlerocket.aws [] [] [list watch]',
        'daemonsets.apps [] [] [get]',
        'events [] [] [create]',
        'nodes [] [] [get list watch patch]',
        'persistentvolumeclaims [] [] [get]',
        'persistentvolumes [] [] [get]',
        'poddisruptionbudgets.policy [] [] [list]',
        'pods [] [] [get list watch]',
        'pods/eviction [] [] [create]',
        'tokenreviews.authentication.k8s.io [] [] [create]',
        'volumeattachments.storage.k8s.io [] [] [list watch]',
      ].map(withSortedVerbs),
    );
  });

  it('lets the apiserver delete pods only if a value says so', async () => {
    await helm(cluster, 'upgrade', 'brupop', chartDir, ...IMAGE, ...release, '--set', 'drain.allowForce=true');
    expect(await rightsOf(APISERVER)).toContain('pods [] [] [delete get list watch]');
    await helm(cluster, 'upgrade', 'brupop', chartDir, ...IMAGE, ...release, '--reset-values');
    expect(await rightsOf(APISERVER)).toContain('pods [] [] [get list watch]');
  });

  it('lets viewers read and administrators configure and repeat updates, and grants editors no more than viewers', async () => {
    const ours = async (role: string): Promise<string[]> => {
      const { rules } = await cluster.api.get<{
        rules: { apiGroups?: string[]; resources: string[]; verbs: string[] }[];
      }>(`/apis/rbac.authorization.k8s.io/v1/clusterroles/${role}`);
      const matching = rules.filter(({ apiGroups }) => apiGroups?.includes(GROUP));
      const rights = matching.flatMap(({ resources, verbs }) =>
        resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}`)),
      );
      return [...new Set(rights)].toSorted();
    };
    const steering = ['bottlerocketnodegroups', 'brupopconfigs'];
    const rights = (verbs: readonly string[], resources: readonly string[]): string[] =>
      verbs.flatMap((verb) => resources.map((resource) => `${verb} ${resource}`)).toSorted();
    const read = rights(['get', 'list', 'watch'], [...steering, 'bottlerocketshadows']);
    const write = rights(['create', 'delete', 'patch', 'update'], steering);
    await eventually(async () => {
      expect(await ours('view')).toEqual(read);
      expect(await ours('edit')).toEqual(read);
      expect(await ours('admin')).toEqual([...read, ...write, 'patch bottlerocketshadows'].toSorted());
    });
  });
});

describe('the annotations that steer the update of one node', () => {
  const shadow = `${shadows}/${fullShadow.metadata.name}`;
  const accounts = `/api/v1/namespaces/${releaseNamespace}/serviceaccounts`;
  const userOf = async (account: string): Promise<Api> => {
    const { status } = await cluster.api.create<{ status: { token: string } }>(`${accounts}/${account}/token`, {
      spec: {},
    });
    return cluster.api.as(status.token);
  };

  /** A user with a role in the namespace of the operator. */
  const memberWith = async (role: string): Promise<Api> => {
    const name = `user-${role}`;
    await cluster.api.create(accounts, { metadata: { name } });
    await cluster.api.create(`/apis/rbac.authorization.k8s.io/v1/namespaces/${releaseNamespace}/rolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
      subjects: [{ kind: 'ServiceAccount', name, namespace: releaseNamespace }],
    });
    return await userOf(name);
  };

  it('are set by those who may operate, and by no editor, viewer, program or kubelet', async () => {
    const users: Record<string, Api> = {
      kubelet: cluster.api.as(cluster.tokens['kubelet-of-compromised']),
      [AGENT]: await userOf(AGENT),
      [APISERVER]: await userOf(APISERVER),
    };
    for (const role of ['view', 'edit', 'admin', 'brupop-operate']) users[role] = await memberWith(role);
    for (const annotation of [RETRY_ANNOTATION, ABORT_ANNOTATION, UPDATE_NOW_ANNOTATION]) {
      const body = { metadata: { annotations: { [annotation]: '1.21.0' } } };
      const found = Object.entries(users).map(async ([name, api]): Promise<string> => {
        const set = api.patch(shadow, body);
        return await set.then(
          () => `${name} may`,
          (error: ApiError) => `${name} ${error.status}`,
        );
      });
      const expected = ['admin may', 'brupop-agent 403', 'brupop-apiserver 403', 'brupop-operate may'];
      const others = ['edit 403', 'kubelet 403', 'view 403'];
      expect([annotation, (await Promise.all(found)).toSorted()]).toEqual([annotation, [...expected, ...others]]);
    }
  });
});

describe('the definitions that an uninstalled release left', () => {
  const other = ['--namespace', 'updates', '--create-namespace'];
  const ownerOf = async (): Promise<unknown> => (await cluster.api.get<Crd>(definition)).metadata.annotations;

  beforeEach(async () => await helm(cluster, 'uninstall', 'brupop', ...release, '--ignore-not-found'));
  afterEach(async () => await helm(cluster, 'uninstall', 'updates', ...other.slice(0, 2)));
  afterAll(async () => await helm(cluster, 'install', 'brupop', chartDir, ...IMAGE, ...release, '--take-ownership'));

  it('are kept from a release of another name or namespace, unless it takes them over', async () => {
    const refused = helm(cluster, 'install', 'updates', chartDir, ...IMAGE, ...other);
    await expect(refused).rejects.toThrow('meta.helm.sh/release-name" must equal "updates": current value is "brupop"');
    await helm(cluster, 'uninstall', 'updates', ...other.slice(0, 2), '--ignore-not-found');

    await helm(cluster, 'install', 'updates', chartDir, ...IMAGE, ...other, '--take-ownership');
    expect(await ownerOf()).toMatchObject({
      'meta.helm.sh/release-name': 'updates',
      'meta.helm.sh/release-namespace': 'updates',
      'helm.sh/resource-policy': 'keep',
    });
    expect(await cluster.api.get(`${shadows}/${fullShadow.metadata.name}`)).toMatchObject({ spec: fullShadow.spec });
  });

  it('are adopted by a release that their annotations name', async () => {
    const crds = [SHADOW_PLURAL, CONFIG_PLURAL].map((plural) => `crd/${plural}.${GROUP}`);
    const names = ['meta.helm.sh/release-name=updates', 'meta.helm.sh/release-namespace=updates'];
    const annotate = ['annotate', '--overwrite', ...crds, ...names];
    await promisify(execFile)(cluster.assets.kubectl, annotate, { env: cluster.env, timeout: 30_000 });
    await helm(cluster, 'install', 'updates', chartDir, ...IMAGE, ...other);
    expect(await ownerOf()).toMatchObject({ 'meta.helm.sh/release-name': 'updates' });
  });
});

it('a definition with the conversion webhook of the Rust operator is taken over with its objects', async () => {
  await helm(cluster, 'uninstall', 'brupop', ...release);
  const webhook = {
    clientConfig: {
      service: { name: 'brupop-apiserver', namespace: releaseNamespace, path: '/crdconvert', port: 443 },
    },
    conversionReviewVersions: ['v2', 'v1'],
  };
  const { spec } = await cluster.api.get<Crd>(definition);
  const v1 = { ...spec.versions[0], name: 'v1', storage: false };
  await cluster.api.patch(definition, {
    spec: { conversion: { strategy: 'Webhook', webhook }, versions: [...spec.versions, v1] },
  });
  await cluster.api.patch(`${definition}/status`, { status: { storedVersions: ['v1', 'v2'] } });

  const withoutWebhook = [{ op: 'replace', path: '/spec/conversion', value: { strategy: 'None' } }];
  await cluster.api.request('PATCH', definition, withoutWebhook, 'application/json-patch+json');
  await cluster.api.patch(`${definition}/status`, { status: { storedVersions: ['v2'] } });
  await helm(cluster, 'install', 'brupop', chartDir, ...IMAGE, ...release, '--take-ownership', '--force-conflicts');

  const taken = await cluster.api.get<Crd>(definition);
  expect(taken.spec.versions.map(({ name }) => name)).toEqual([SHADOW_VERSION]);
  expect(await cluster.api.get(`${shadows}/${fullShadow.metadata.name}`)).toMatchObject({ spec: fullShadow.spec });
});

it('what a namespace that was deleted first leaves is removed by the documented commands', async () => {
  for (const name of ['brupop-agents', 'brupop-checks'])
    await cluster.api.create('/api/v1/namespaces', { metadata: { name } });
  const outside =
    'agent.namespace=brupop-agents,checks.enabled=true,flowSchema.enabled=true,networkPolicy.enabled=true';
  await helm(cluster, 'upgrade', 'brupop', chartDir, ...IMAGE, ...release, '--set', outside);
  await runCommands(cluster, `kubectl delete namespace ${releaseNamespace}`);
  await expect(helm(cluster, 'uninstall', 'brupop', ...release)).rejects.toThrow('release: not found');
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: releaseNamespace } });
  const create = async (): Promise<unknown> => await cluster.api.create(shadows, { ...fullShadow, status: undefined });
  await expect(create()).rejects.toThrow('only the account brupop-controller creates shadows');

  const [commands = ''] = blocksOf('docs/uninstall.md', 'After the operator was removed too early', 'sh');
  await runCommands(cluster, commands);
  await eventually(create);
  const kinds = '$(kubectl api-resources --verbs=list,delete -o name | paste -sd, -)';
  const labelled = '-A -l app.kubernetes.io/part-of=bottlerocket-update-operator -o name';
  expect(await runCommands(cluster, `kubectl get ${kinds} ${labelled}`)).toBe('');
});
