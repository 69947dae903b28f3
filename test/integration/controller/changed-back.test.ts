/** Admission that changes what the controller writes on Nodes, with a real kube-apiserver. */
import { mkdtempSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember } from '../../framework/controller/agents.ts';
import { configure } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { presentCredentials } from '../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../framework/faulty-api/faulty-api.ts';

jest.setTimeout(120_000);

const NODE = 'guarded';
const MINUTE = 60_000;

let cluster: ControlPlane;
let api: FaultyApi;
let replica: Replica | undefined;

beforeAll(async () => {
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  api = await FaultyApi.start(cluster);
  const dir = mkdtempSync(join(tmpdir(), 'brupop-changed-back-'));
  await presentCredentials(dir, { token: readFileSync(join(serviceAccountDir, 'token'), 'utf8'), ca: api.ca });
  await removeTaints();
  replica = await startReplica(api, dir);
});

afterAll(async () => {
  await replica?.stop();
  await api.stop();
  await cluster.stop();
});

/** Admission removes all taints of Nodes, and accepts each write. */
async function removeTaints(): Promise<void> {
  const apiVersion = 'admissionregistration.k8s.io/v1';
  const metadata = { name: 'no-taints' };
  const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['nodes'] };
  const expression = '[JSONPatch{op: "remove", path: "/spec/taints"}]';
  await cluster.api.create(`/apis/${apiVersion}/mutatingadmissionpolicies`, {
    apiVersion,
    kind: 'MutatingAdmissionPolicy',
    metadata,
    spec: {
      failurePolicy: 'Fail',
      reinvocationPolicy: 'Never',
      matchConstraints: { resourceRules: [rule] },
      matchConditions: [{ name: 'has-taints', expression: 'has(object.spec.taints)' }],
      mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression } }],
    },
  });
  await cluster.api.create(`/apis/${apiVersion}/mutatingadmissionpolicybindings`, {
    apiVersion,
    kind: 'MutatingAdmissionPolicyBinding',
    metadata,
    spec: { policyName: metadata.name },
  });
}

test('a taint that admission removes is written less and less often', async () => {
  await createMember(cluster, NODE);
  await configure(cluster, { drain: { taintWaitingNodes: true } });
  const writes = (): number => api.count('patch', new RegExp(`/nodes/${NODE}$`, 'u'));
  await eventually(() => expect(writes()).toBeGreaterThan(0));
  await sleep(MINUTE / 2);
  const before = writes();
  await sleep(MINUTE / 2);
  expect(writes() - before).toBeLessThanOrEqual(5);
});
