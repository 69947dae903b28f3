/** History on a real API server: it keeps what the schema has, and there is no request for it. */
import { jest } from '@jest/globals';
import { readHistory } from '../../../packages/shared/src/api/history.ts';
import { AGENT, shadowName } from '../../../packages/shared/src/api/names.ts';
import { readRecord } from '../../../packages/shared/src/api/record.ts';
import { createWorkload } from '../../framework/apiserver/cluster.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  createMember,
  deleteMembers,
  newVersion,
  managedLabel,
  oldVersion,
  playAgents,
  readShadow,
  shadowsPath,
} from '../../framework/controller/agents.ts';
import { configure, HEALTHY_AT_ONCE, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { Plugin } from '../../framework/cli/plugin.ts';

jest.setTimeout(120_000);

let cluster: ControlPlane;
let serviceAccountDir = '';

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster);
  await createWorkload(cluster, releaseNamespace, 'DaemonSet', AGENT);
});

afterAll(async () => {
  await cluster.stop();
});

it('of an update is on the shadow, and of the rollout on the configuration, without a request of its own', async () => {
  // The status is written once a second.
  await configure(cluster, { monitoring: { healthyFor: '2s' } });
  const names = ['one', 'two'];
  await Promise.all(names.map((name) => createMember(cluster, name)));
  const position = await auditPosition(cluster.auditLogPath);
  const agents = playAgents(cluster);
  const replica = await startReplica(cluster, serviceAccountDir);
  try {
    await eventually(async () => {
      const { status } = await readBrupopConfig(cluster);
      expect(status?.rollouts).toMatchObject([{ version: newVersion, nodes: 2, failures: 0 }]);
      expect(status?.rollouts?.[0]?.endTime).toBeDefined();
    });
  } finally {
    await agents.stop();
    await replica.stop();
  }
  const requests = await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
  for (const name of names) {
    const { metadata } = await readShadow(cluster, name);
    expect(readHistory(metadata)).toMatchObject([
      { from: oldVersion, to: newVersion, outcome: 'Succeeded', attempt: 1 },
    ]);
    // The status may change between a plan and its write, which is then repeated.
    const writes = requests.filter(
      ({ verb, name: of, resource, status }) =>
        verb === 'patch' && resource === 'bottlerocketshadows' && of === shadowName(name) && status !== 409,
    );
    expect(writes).toHaveLength(4);
  }
  await deleteMembers(cluster, names);
});

async function setManaged(node: string, isManaged: boolean): Promise<void> {
  const labels = Object.fromEntries(
    Object.entries(managedLabel).map(([key, value]) => [key, isManaged ? value : null]),
  );
  await cluster.api.patch(`/api/v1/nodes/${node}`, { metadata: { labels } });
}

async function waitForShadow(node: string, isThere: boolean): Promise<void> {
  await eventually(async () => {
    const { items } = await cluster.api.get<{ items: { metadata: { name: string } }[] }>(shadowsPath);
    expect(items.some(({ metadata }) => metadata.name === shadowName(node))).toBe(isThere);
  });
}

it('survives the label being removed and set again, also twice, and nothing is left on the Node', async () => {
  await configure(cluster, HEALTHY_AT_ONCE);
  const plugin = await Plugin.build(cluster);
  await plugin.grant('brupop-view', releaseNamespace, 'viewer');
  await createMember(cluster, 'three');
  const agents = playAgents(cluster);
  const replica = await startReplica(cluster, serviceAccountDir);
  try {
    await eventually(async () => {
      expect(readHistory((await readShadow(cluster, 'three')).metadata)).toHaveLength(1);
    });
    const [before] = readHistory((await readShadow(cluster, 'three')).metadata);
    for (let time = 0; time < 2; time += 1) {
      await setManaged('three', false);
      await waitForShadow('three', false);
      const node = await cluster.api.get<{ metadata: { annotations?: object } }>('/api/v1/nodes/three');
      expect(JSON.stringify(node.metadata.annotations ?? {})).not.toContain('history');
      await setManaged('three', true);
      await waitForShadow('three', true);
      const { metadata } = await readShadow(cluster, 'three');
      expect(readHistory(metadata)).toEqual([before]);
      expect(readRecord(metadata)).toEqual({ history: { count: 1, seconds: {} } });
    }
    const { stdout } = await plugin.run('history', 'three', '-o', 'json');
    expect(JSON.parse(stdout)).toMatchObject([
      { node: 'three', from: oldVersion, to: newVersion, outcome: 'Succeeded' },
    ]);
  } finally {
    plugin.remove();
    await agents.stop();
    await replica.stop();
  }
  await deleteMembers(cluster, ['three']);
});
