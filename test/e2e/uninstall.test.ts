import type { KubernetesObject } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import type { ControlPlane } from '../framework/control-plane/start.ts';
import { commandsOf, runCommands } from '../framework/commands.ts';
import { eventually } from '../framework/eventually.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { applyGroup } from '../framework/fleet/pools.ts';
import { untilSomeNodeIsToldTo } from '../framework/fleet/steps.ts';
import { NEW, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const UNINSTALL = commandsOf('docs/uninstall.md', 'Everything');

/** The documented query for shadows of hosts that still have settings of the operator. */
const LISTS_SETTINGS = `${UNINSTALL.split('\n')
  .filter((line) => /^ *(?:settings|left)=/u.test(line))
  .join('\n')}\necho "$left"`;

/** Where the chart or the operator creates objects outside its namespace. */
const CLUSTER_SCOPED = [
  '/apis/rbac.authorization.k8s.io/v1/clusterroles',
  '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings',
  '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles',
  '/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings',
  '/apis/rbac.authorization.k8s.io/v1/namespaces/kube-node-lease/roles',
  '/apis/rbac.authorization.k8s.io/v1/namespaces/kube-node-lease/rolebindings',
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies',
  '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings',
  '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
  '/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas',
  '/api/v1/namespaces',
];

async function ourObjects({ api }: ControlPlane): Promise<string[]> {
  const lists = CLUSTER_SCOPED.map(async (path) => {
    const { items } = await api.get<{ items: KubernetesObject[] }>(path);
    return items.map(({ metadata }) => `${path}/${metadata?.name}`);
  });
  return (await Promise.all(lists)).flat().filter((name) => name.includes('brupop'));
}

it('the documented uninstallation during an update leaves nothing in the cluster, on its Nodes and on the hosts', async () => {
  const config = {
    versions: { pin: NEW },
    drain: { taintWaitingNodes: true },
    loadBalancer: { exclusion: '1s' },
  };
  const values = { 'nodeMetadata.domains[0]': 'node-role.kubernetes.io' };
  await withFleet({ nodes: fleetNodes(3), config, values }, async ({ cluster, fleet }) => {
    const labels = { 'node-role.kubernetes.io/web': '' };
    await applyGroup({ cluster }, 'web', { nodeSelector: {}, nodeMetadata: { labels } });
    await untilSomeNodeIsToldTo(fleet, 'RebootedIntoUpdate');
    await eventually(() => expect(JSON.stringify(fleet.observer.nodes.list())).toContain('brupop-group-web'));
    expect(await ourObjects(cluster)).not.toEqual([]);
    const hosts = [...fleet.nodes.values()].map(({ host }) => host);
    expect(hosts.map(({ settings }) => settings.updates().versionLock)).toContain(NEW);

    expect(await runCommands(cluster, LISTS_SETTINGS)).toMatch(/^brs-\S+ \[\{.*version-lock/mu);
    const output = await runCommands(cluster, UNINSTALL, 180_000);
    expect(output).toContain('Shadows of hosts with settings of the operator: none\n');

    // Namespaces end in the background.
    await eventually(async () => expect(await ourObjects(cluster)).toEqual([]), { limitMs: 30_000 });
    expect(fleet.observer.leftovers()).toEqual([]);
    const nodes = await cluster.api.get('/api/v1/nodes');
    expect(JSON.stringify(nodes)).not.toMatch(
      /brupop\.bottlerocket\.aws\/|brupop-group|node-role.kubernetes.io\/web|"unschedulable"|exclude-from-external/u,
    );
    expect(hosts.map(({ settings }) => settings.updates().versionLock)).toEqual(['latest', 'latest', 'latest']);
    expect(hosts.map(({ model }) => model.partitions.nextVersion)).toEqual(hosts.map(({ version }) => version));
  });
});
