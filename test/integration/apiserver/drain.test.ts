import { jest } from '@jest/globals';
import type { DrainResult, SpecReference } from '../../../packages/shared/src/api/agent-protocol.ts';
import { DRAIN_PASS_LIMIT_MS } from '../../../packages/shared/src/api/deadlines.ts';
import { APISERVER, COMPONENT_LABEL } from '../../../packages/shared/src/api/names.ts';
import {
  type Agent,
  createAgent,
  createWorkload,
  ownerReference,
  uniqueName,
} from '../../framework/apiserver/cluster.ts';
import { createBudget, createPod, podNames } from '../../framework/apiserver/pods.ts';
import { wantReboot, wantState } from '../../framework/apiserver/shadow.ts';
import { useConfiguredApiserver } from '../../framework/apiserver/suite.ts';
import { createNamespace } from '../../framework/control-plane/namespaces.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

describe('a drain pass', () => {
  const suite = useConfiguredApiserver({ loadBalancer: { exclusion: '1m' } });
  let agent: Agent;
  let reference: SpecReference;
  let apps: string;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
    reference = await wantReboot(suite.cluster, suite.namespace, suite.apiserver.client, agent);
    apps = await createNamespace(suite.cluster, 'apps');
  });

  const drain = async (): Promise<DrainResult> => {
    const { status, body } = await suite.apiserver.client.act<DrainResult>(agent, 'drain', reference);
    if (status !== 200) throw new Error(`drain: ${status} ${JSON.stringify(body)}`);
    return body;
  };

  const pod = (options: object = {}): Promise<string> =>
    createPod(suite.cluster, { namespace: apps, node: agent.node, ...options });

  const daemonSet = async (): Promise<object> => {
    const { metadata } = await suite.cluster.api.create<{ metadata: { name: string; uid: string } }>(
      `/apis/apps/v1/namespaces/${apps}/daemonsets`,
      {
        metadata: { name: 'logs' },
        spec: {
          selector: { matchLabels: { app: 'logs' } },
          template: {
            metadata: { labels: { app: 'logs' } },
            spec: { nodeSelector: { nowhere: 'true' }, containers: [{ name: 'logs', image: 'logs' }] },
          },
        },
      },
    );
    return { apiVersion: 'apps/v1', kind: 'DaemonSet', name: metadata.name, uid: metadata.uid, controller: true };
  };

  it('cordons the node and evicts bare and finished pods', async () => {
    await pod();
    await pod({ terminates: '1s' });
    const finished = await pod();
    const path = `/api/v1/namespaces/${apps}/pods/${finished}/status`;
    await suite.cluster.api.patch(path, { status: { phase: 'Succeeded' } });
    expect(await drain()).toMatchObject({ done: true, evicted: 3, remaining: 0, blockedBy: [] });
    expect(await podNames(suite.cluster, apps)).toEqual([]);
    const { spec } = await suite.cluster.api.get<{ spec: { unschedulable?: boolean } }>(`/api/v1/nodes/${agent.node}`);
    expect(spec.unschedulable).toBe(true);
  });

  it('is done at once when no pod is left, also when it is repeated', async () => {
    const nothing = { done: true, evicted: 0, remaining: 0, blockedBy: [] };
    expect([await drain(), await drain()]).toMatchObject([nothing, nothing]);
  });

  it('exempts pods of a DaemonSet, mirror pods and pods of other nodes', async () => {
    const other = await createAgent(suite.cluster, suite.namespace);
    const owned = await pod({ ownerReferences: [await daemonSet()], labels: { app: 'logs' }, ready: false });
    const mirror = await pod({ annotations: { 'kubernetes.io/config.mirror': 'x' }, ready: false });
    const elsewhere = await createPod(suite.cluster, { namespace: apps, node: other.node });
    await pod();
    expect(await drain()).toMatchObject({ done: true, evicted: 1, remaining: 0, blockedBy: [] });
    const names = await podNames(suite.cluster, apps);
    expect(names).toEqual(expect.arrayContaining([elsewhere, mirror]));
    // The DaemonSet's own controller may remove its pod, since it does not want it there; we must not.
    expect(suite.apiserver.lines.filter((line) => line.includes(owned))).toEqual([]);
  });

  it('names the budget that blocks a pod, evicts the others, and continues when the budget is gone', async () => {
    const held = await pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, apps, 'web-budget', { app: 'web' });
    await pod();
    const began = performance.now();
    const result = await drain();
    expect(performance.now() - began).toBeLessThan(DRAIN_PASS_LIMIT_MS);
    expect(result).toMatchObject({ done: false, evicted: 1, remaining: 1 });
    expect(result.blockedBy).toMatchObject([{ pod: `${apps}/${held}`, reason: 'DisruptionBudget' }]);
    expect(result.blockedBy[0]?.message).toContain('web-budget');
    await suite.cluster.api.delete(`/apis/policy/v1/namespaces/${apps}/poddisruptionbudgets/web-budget`);
    expect(await drain()).toMatchObject({ done: true, evicted: 1 });
  });

  it('reports two budgets that cover one pod, which kube-apiserver cannot handle', async () => {
    const held = await pod({ labels: { app: 'web', tier: 'front' } });
    await createBudget(suite.cluster, apps, 'one', { app: 'web' });
    await createBudget(suite.cluster, apps, 'two', { tier: 'front' });
    const result = await drain();
    expect(result).toMatchObject({ done: false, evicted: 0, remaining: 1 });
    expect(result.blockedBy).toMatchObject([{ pod: `${apps}/${held}`, reason: 'MultipleDisruptionBudgets' }]);
    expect(await podNames(suite.cluster, apps)).toEqual([held]);
  });

  it('reports a forbidden eviction as a block', async () => {
    const held = await pod();
    await suite.cluster.api.patch(
      `/apis/rbac.authorization.k8s.io/v1/clusterroles/brupop-apiserver-${suite.namespace}`,
      {
        rules: suite.installation.rules.filter(({ resources }) => !resources.includes('pods/eviction')),
      },
    );
    try {
      const result = await eventually(async () => {
        const { blockedBy, ...rest } = await drain();
        expect(rest).toMatchObject({ done: false, evicted: 0, remaining: 1 });
        return blockedBy;
      });
      expect(result).toMatchObject([{ pod: `${apps}/${held}`, reason: 'Forbidden' }]);
    } finally {
      const { rules } = suite.installation;
      await suite.cluster.api.patch(
        `/apis/rbac.authorization.k8s.io/v1/clusterroles/brupop-apiserver-${suite.namespace}`,
        { rules },
      );
    }
  });

  it('ends in time while a pod terminates slowly, and names it', async () => {
    const slow = await pod({ terminates: '14s' });
    const began = performance.now();
    const result = await drain();
    expect(performance.now() - began).toBeLessThan(DRAIN_PASS_LIMIT_MS);
    expect(result).toMatchObject({ done: false, evicted: 1, remaining: 1 });
    expect(result.blockedBy).toMatchObject([{ pod: `${apps}/${slow}`, reason: 'Terminating' }]);
    expect(await drain()).toMatchObject({ done: true, evicted: 0 });
  });

  it('evicts pods with volumes one by one, after the others', async () => {
    const first = await pod({ name: 'a-with-volume', claim: 'a', terminates: '1s', ready: false });
    const second = await pod({ name: 'b-with-volume', claim: 'b', terminates: '1s', ready: false });
    const plain = await pod({ name: 'c-plain' });
    expect(await drain()).toMatchObject({ done: true, evicted: 3 });
    const evicted = suite.apiserver.lines
      .filter((line) => line.includes('requested an eviction') && line.includes(apps))
      .map((line) => JSON.parse(line) as { pod: string; time: string });
    expect(evicted.map((line) => line.pod.split('/')[1])).toEqual([plain, first, second]);
    const [, one, two] = evicted.map(({ time }) => Date.parse(time));
    expect((two ?? 0) - (one ?? 0)).toBeGreaterThanOrEqual(900);
  });

  it('is rejected for another spec, and when the spec does not call for it', async () => {
    const old = { ...reference, generation: reference.generation - 1 };
    expect((await suite.apiserver.client.act(agent, 'drain', old)).code).toBe('SpecChanged');
    const other = { ...reference, shadowUID: '11111111-2222-4333-8444-555555555555' };
    expect((await suite.apiserver.client.act(agent, 'drain', other)).code).toBe('SpecChanged');
    reference = await wantState(suite.cluster, suite.namespace, agent.node, 'MonitoringUpdate');
    expect((await suite.apiserver.client.act(agent, 'drain', reference)).code).toBe('SpecForbids');
    expect((await suite.apiserver.client.act(agent, 'load-balancer-exclusion', reference)).code).toBe('SpecForbids');
  });

  it('is rejected while another one for the node runs', async () => {
    await pod({ terminates: '2s' });
    const both = await Promise.all([1, 2].map(() => suite.apiserver.client.act(agent, 'drain', reference)));
    expect(both.map(({ code }) => code ?? 'done').toSorted((a, b) => (a < b ? -1 : 1))).toEqual(['Conflict', 'done']);
  });

  it.each([
    ['keeps all replicas on the node if none is bound to another node', false],
    ['evicts the replica that drains last if another one is bound to another node', true],
  ])('%s', async (_, isBound) => {
    const labels = { [COMPONENT_LABEL]: APISERVER };
    const { namespace } = suite;
    const workload = uniqueName(APISERVER);
    await createWorkload(suite.cluster, namespace, 'ReplicaSet', workload);
    const ownerReferences = [await ownerReference(suite.cluster, namespace, 'ReplicaSet', workload)];
    // No kubelet ends these pods.
    const common = { namespace, node: agent.node, labels, ownerReferences, ready: false, graceSeconds: 0 };
    const self = await createPod(suite.cluster, { ...common, name: `a-self-${isBound}` });
    const other = await createPod(suite.cluster, { ...common, name: `b-other-${isBound}` });
    const elsewhere = await createAgent(suite.cluster, namespace);
    if (isBound) await createPod(suite.cluster, { ...common, node: elsewhere.node });
    const plain = await pod();
    const own = await suite.start({ podName: self });
    const { body } = await own.client.act<DrainResult>(agent, 'drain', reference);
    expect(body).toMatchObject({ done: true, evicted: isBound ? 3 : 1, remaining: 0 });
    const evicted = own.lines
      .filter((line) => line.includes('requested an eviction'))
      .map((line) => (JSON.parse(line) as { pod: string }).pod);
    const replicas = isBound ? [`${namespace}/${other}`, `${namespace}/${self}`] : [];
    expect(evicted).toEqual([`${apps}/${plain}`, ...replicas]);
  });
});
