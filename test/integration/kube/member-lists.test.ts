/** What a kubelet can create fills no list of the members of a quorum. */
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import {
  MemberPodsLookup,
  type MembersToList,
  membersKey,
} from '../../../packages/controller/src/cluster/member-pods.ts';
import { createKubeClient, type KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { mirrorPod } from '../../framework/fleet/compromised-node.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(120_000);

/** More than a set may have. */
const FORGED = 301;
const NODE = 'compromised';
const VOTER = 'voter';

const cluster = connectSharedControlPlane();
const { log } = recordingLogger();
let client: KubeClient;
let namespace = '';
let pods = '';

function staticPod(node: V1Node, name: string): object {
  const { metadata, spec } = mirrorPod(node, { namespace });
  return { metadata: { ...(metadata as object), name, labels: { app: 'db' } }, spec };
}

async function createPod(name: string, phase: 'Running' | 'Failed'): Promise<void> {
  const spec = { nodeName: VOTER, containers: [{ name: 'a', image: 'a' }] };
  await cluster.api.create(pods, { metadata: { name, labels: { app: 'db' } }, spec });
  await cluster.api.patch(`${pods}/${name}/status`, { status: { phase } });
}

beforeAll(async () => {
  client = await createKubeClient({ userAgent: 'members', clock: systemClock, log, access: cluster.accessAs('admin') });
  namespace = await createNamespace(cluster, 'members');
  pods = `/api/v1/namespaces/${namespace}/pods`;
  const kubelet = cluster.api.as(cluster.tokens['kubelet-of-compromised']);
  const node = await createNode(cluster, { name: NODE });
  const forged = Array.from({ length: FORGED }, (_, i) => staticPod(node, `forged-${i}`));
  for (let i = 0; i < FORGED; i += 50)
    await Promise.all(forged.slice(i, i + 50).map(async (pod) => await kubelet.create(pods, pod)));
  await cluster.api.create(pods, staticPod(await createNode(cluster, { name: VOTER }), 'static'));
  await createPod('db-0', 'Running');
  await createPod('db-1', 'Failed');
});

afterAll(async () => {
  await client.close();
  await cluster.api.delete(`/api/v1/namespaces/${namespace}`);
  for (const name of [NODE, VOTER]) await cluster.api.delete(`/api/v1/nodes/${name}`);
  await cluster.close();
});

async function listed(of: Pick<MembersToList, 'nodeSelector' | 'staticOn'>) {
  const set = { namespace, podSelector: { matchLabels: { app: 'db' }, matchExpressions: [] }, ...of };
  const lookup = new MemberPodsLookup({ client, clock: systemClock, log });
  const answer = new Promise<void>((resolve) => void lookup.answers.subscribe(resolve));
  lookup.look({ list: [set], keep: new Set([membersKey(set)]) }, new AbortController().signal);
  await answer;
  const { pods: found = [], problem } = lookup.view.get(membersKey(set)) ?? {};
  return { found: found.map(({ metadata: { name } }) => name).toSorted(), problem };
}

const nodeSelector = { matchLabels: { 'node-restriction.kubernetes.io/db': '' }, matchExpressions: [] };

it('neither do mirror pods nor pods that have finished where no static pod counts', async () => {
  expect(await listed({ nodeSelector: undefined, staticOn: [] })).toEqual({ found: ['db-0'], problem: undefined });
});

it('a static pod is found on a node where it counts, whatever another kubelet forges', async () => {
  expect(await listed({ nodeSelector, staticOn: [VOTER] })).toEqual({ found: ['db-0', 'static'], problem: undefined });
});

it('a node that counts can fill its own list, and then nothing is known', async () => {
  const { problem } = await listed({ nodeSelector, staticOn: [VOTER, NODE] });
  expect(problem).toContain(`the static pods on ${NODE}: `);
  expect(problem).toContain('expected at most 300 objects, found more');
});

it('static pods on more than 100 nodes are not listed', async () => {
  const staticOn = Array.from({ length: 101 }, (_, i) => `node-${i}`);
  expect((await listed({ nodeSelector, staticOn })).problem).toContain('selects 101 nodes');
});
