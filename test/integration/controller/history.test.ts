/** History on a real API server: it keeps what the schema has, and there is no request for it. */
import { jest } from '@jest/globals';
import { readHistory } from '../../../packages/shared/src/api/history.ts';
import { AGENT, shadowName } from '../../../packages/shared/src/api/names.ts';
import { createWorkload } from '../../framework/apiserver/cluster.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  createMember,
  deleteMembers,
  newVersion,
  oldVersion,
  playAgents,
  readShadow,
} from '../../framework/controller/agents.ts';
import { configure, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

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
    const writes = requests.filter(
      ({ verb, name: of, resource }) =>
        verb === 'patch' && resource === 'bottlerocketshadows' && of === shadowName(name),
    );
    expect(writes).toHaveLength(4);
  }
  await deleteMembers(cluster, names);
});
