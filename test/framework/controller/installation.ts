import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { releaseNamespace, renderChart, type Rendered } from '../chart.ts';
import type { Connection } from '../control-plane/connection.ts';
import { installCrds } from '../crds.ts';

const paths: Readonly<Record<string, string>> = {
  ServiceAccount: '/api/v1/namespaces/NAMESPACE/serviceaccounts',
  Role: '/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/roles',
  RoleBinding: '/apis/rbac.authorization.k8s.io/v1/namespaces/NAMESPACE/rolebindings',
  ClusterRole: '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  ClusterRoleBinding: '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
};

/**
 * Installs what a controller needs of the chart: definitions, service accounts and exactly the
 * chart's permissions, but no workloads. Returns a folder with `token` and `ca.crt` of the
 * controller's service account.
 * @param args - of Helm, such as `--set`, `checks.enabled=true`
 */
export async function installForController(cluster: Connection, ...args: string[]): Promise<string> {
  await installCrds(cluster);
  await cluster.api.create('/api/v1/namespaces', { metadata: { name: releaseNamespace } });
  for (const object of await renderChart(cluster, ...args)) await create(cluster, object);
  return await accountOfController(cluster);
}

/** Returns a folder with `token` and `ca.crt` of the controller's service account, which exists. */
export async function accountOfController(cluster: Connection): Promise<string> {
  const account = `/api/v1/namespaces/${releaseNamespace}/serviceaccounts/brupop-controller/token`;
  const { status } = await cluster.api.create<{ status: { token: string } }>(account, {
    spec: { audiences: [cluster.issuer] },
  });
  const dir = mkdtempSync(join(tmpdir(), 'brupop-controller-'));
  writeFileSync(join(dir, 'token'), status.token, { mode: 0o600 });
  writeFileSync(join(dir, 'ca.crt'), cluster.ca);
  return dir;
}

async function create({ api }: Connection, object: Rendered): Promise<void> {
  const path = paths[object.kind];
  if (path === undefined) return;
  await api.create(path.replace('NAMESPACE', object.metadata.namespace ?? releaseNamespace), object);
}
