import { pinRecords } from '../../../packages/shared/src/testing/settings.ts';
import { jest } from '@jest/globals';
import type { CoreV1EventList } from '@kubernetes/client-node';
import type { AgentShadow } from '../../../packages/shared/src/api/agent-protocol.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { type Agent, createAgent, createAgentPod } from '../../framework/apiserver/cluster.ts';
import { ensureShadow, FAILED_STAGE, idleStatus, shadowPath } from '../../framework/apiserver/shadow.ts';
import { useApiserver } from '../../framework/apiserver/suite.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

describe('an apiserver that keeps shadows', () => {
  const suite = useApiserver();
  let agent: Agent;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
  });

  /** The shadow as its agent reads it. */
  const ensure = async (): Promise<AgentShadow> => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    return (await suite.apiserver.client.act<AgentShadow>(agent, 'shadow')).body;
  };

  const live = async (): Promise<BottlerocketShadow> =>
    await suite.cluster.api.get<BottlerocketShadow>(shadowPath(suite.namespace, agent.node));

  const report = async (shadowUID: string, changes = {}): ReturnType<typeof suite.apiserver.client.act<AgentShadow>> =>
    await suite.apiserver.client.act<AgentShadow>(agent, 'shadow/status', { shadowUID, status: idleStatus(changes) });

  describe('PUT shadow', () => {
    it('returns the shadow that the controller has created', async () => {
      const uid = await ensureShadow(suite.cluster, suite.namespace, agent.node);
      const { status, body } = await suite.apiserver.client.act<AgentShadow>(agent, 'shadow');
      expect([status, body]).toEqual([200, { uid, generation: 1, spec: { state: 'Idle' } }]);
    });

    it('creates no shadow, and its error names the controller', async () => {
      const { code, body } = await suite.apiserver.client.act(agent, 'shadow');
      expect(code).toBe('NotFound');
      expect(JSON.stringify(body)).toContain('the controller creates it');
      await expect(live()).rejects.toMatchObject({ status: 404 });
    });

    it('neither returns nor changes the shadow of an earlier Node of the same name', async () => {
      const owner = { apiVersion: 'v1', kind: 'Node', name: agent.node, uid: '11111111-2222-4333-8444-555555555555' };
      const stale = await suite.cluster.api.create<BottlerocketShadow>(shadowPath(suite.namespace), {
        apiVersion: 'brupop.bottlerocket.aws/v2',
        kind: 'BottlerocketShadow',
        metadata: { name: `brs-${agent.node}`, ownerReferences: [owner] },
        spec: { state: 'Idle' },
      });
      // Garbage collection deletes it meanwhile.
      expect(['Conflict', 'NotFound']).toContain((await suite.apiserver.client.act(agent, 'shadow')).code);
      const left = await live().catch(() => stale);
      expect(left.metadata.uid).toBe(stale.metadata.uid);
    });

    it('rejects a Node that is not managed, and names the label that it needs', async () => {
      agent = await createAgent(suite.cluster, suite.namespace, {});
      const { status, body } = await suite.apiserver.client.act(agent, 'shadow');
      expect(status).toBe(403);
      expect(JSON.stringify(body)).toContain('bottlerocket.aws/updater-interface-version=2.0.0');
    });

    it('rejects the token of a pod on an earlier Node of the same name', async () => {
      await suite.cluster.api.delete(`/api/v1/nodes/${agent.node}`);
      await createNode(suite.cluster, {
        name: agent.node,
        labels: { 'bottlerocket.aws/updater-interface-version': '2.0.0' },
      });
      await ensureShadow(suite.cluster, suite.namespace, agent.node);
      const { status } = await suite.apiserver.client.act(agent, 'shadow');
      expect(status).toBe(403);
      const path = `/api/v1/namespaces/${suite.namespace}/events?fieldSelector=involvedObject.name=brs-${agent.node}`;
      await eventually(async () => {
        const { items } = await suite.cluster.api.get<CoreV1EventList>(path);
        expect(items.map(({ reason, message }) => `${reason}: ${message}`)).toEqual([
          expect.stringMatching(
            /^AgentTokenOutdated: The token of pod \S+ is for an earlier Node .*kubectl delete pod/u,
          ),
        ]);
      });
      agent = await createAgentPod(suite.cluster, suite.namespace, agent.node);
      await ensureShadow(suite.cluster, suite.namespace, agent.node);
      expect((await suite.apiserver.client.act(agent, 'shadow')).status).toBe(200);
    });

    it.each([
      [249, 200, 'uid'],
      [250, 400, 'at most 249 characters'],
      [253, 400, 'at most 249 characters'],
    ])('for a Node with a name of %i characters has the status %i', async (length, status, text) => {
      const name = `${agent.node}-`.padEnd(length, 'x');
      // Values of labels are shorter.
      const labels = { 'bottlerocket.aws/updater-interface-version': '2.0.0', 'kubernetes.io/hostname': 'long' };
      await createNode(suite.cluster, { name, labels });
      agent = await createAgentPod(suite.cluster, suite.namespace, name);
      if (status === 200) await ensureShadow(suite.cluster, suite.namespace, name);
      const { body, ...answer } = await suite.apiserver.client.act(agent, 'shadow');
      expect(answer.status).toBe(status);
      expect(JSON.stringify(body)).toContain(text);
    });

    it('reports a Node that does not exist', async () => {
      await suite.cluster.api.delete(`/api/v1/nodes/${agent.node}`);
      expect((await suite.apiserver.client.act(agent, 'shadow')).code).toBe('NotFound');
    });
  });

  describe('PUT shadow/status', () => {
    const operation = { ...FAILED_STAGE, message: 'no space' };

    it('writes what the agent reports and keeps the conditions of the controller', async () => {
      const { uid } = await ensure();
      const conditions = [
        {
          type: 'Progressing',
          status: 'False',
          reason: 'Paused',
          message: 'paused',
          lastTransitionTime: '2026-01-02T03:04:05Z',
        },
      ];
      await suite.cluster.api.patch(`${shadowPath(suite.namespace, agent.node)}/status`, { status: { conditions } });
      const changes = {
        crash_count: 1,
        state_transition_failure_timestamp: '2026-01-02T03:05:05Z',
        lastOperation: operation,
      };
      const { status, body } = await report(uid, changes);
      expect([status, body.status]).toEqual([200, idleStatus(changes as object)]);
      expect((await live()).status).toEqual({ ...idleStatus(changes as object), conditions });
    });

    it('removes what the next report leaves out', async () => {
      const { uid } = await ensure();
      await report(uid, { state_transition_failure_timestamp: '2026-01-02T03:05:05Z', lastOperation: operation });
      await report(uid);
      const { status } = await live();
      expect(status).toEqual({ ...idleStatus(), state_transition_failure_timestamp: null });
    });

    it('writes and removes what was done for host settings, and keeps the fields of the controller', async () => {
      const { uid } = await ensure();
      await suite.cluster.api.patch(`${shadowPath(suite.namespace, agent.node)}/status`, {
        status: { waitingFor: 'Paused' },
      });
      const done = {
        bootTime: '2026-01-02T03:04:05Z',
        settings: {
          records: pinRecords({ versionLock: '1.21.0', ignoreWaves: true }),
          message: 'the host refuses them',
        },
      };
      expect((await report(uid, done)).body.status).toMatchObject(done);
      expect((await live()).status).toMatchObject({ ...done, waitingFor: 'Paused' });
      const records = pinRecords({ versionLock: '1.21.0' });
      await report(uid, { settings: { records } });
      expect((await live()).status?.settings).toEqual({ records });
      const { body } = await report(uid);
      expect(body.status).not.toHaveProperty('settings');
      expect(body.status).not.toHaveProperty('waitingFor');
      const { status } = await live();
      expect(status).toEqual({ ...idleStatus(), state_transition_failure_timestamp: null, waitingFor: 'Paused' });
    });

    it('clears a failure time that an older release wrote', async () => {
      const { uid } = await ensure();
      const status = { state_transition_failure_timestamp: '2025-01-02T03:05:05Z' };
      await suite.cluster.api.patch(`${shadowPath(suite.namespace, agent.node)}/status`, { status });
      await report(uid);
      expect((await live()).status?.state_transition_failure_timestamp).toBeNull();
    });

    it('changes nothing when the same report is sent again', async () => {
      const { uid } = await ensure();
      await report(uid);
      const { metadata } = await live();
      expect((await report(uid)).status).toBe(200);
      expect((await live()).metadata.resourceVersion).toBe(metadata.resourceVersion);
    });

    it('writes while the controller writes at the same time', async () => {
      const { uid } = await ensure();
      const path = shadowPath(suite.namespace, agent.node);
      const writes = Array.from({ length: 8 }, async (_, number) => {
        await suite.cluster.api.patch(path, { metadata: { annotations: { number: String(number) } } });
        return (await report(uid, { crash_count: number })).status;
      });
      expect(new Set(await Promise.all(writes))).toEqual(new Set([200]));
    });

    it('rejects a report for an earlier shadow of the same name', async () => {
      const { uid } = await ensure();
      await suite.cluster.api.delete(shadowPath(suite.namespace, agent.node));
      const second = await ensure();
      expect((await report(uid)).code).toBe('SpecChanged');
      expect((await live()).status).toBeUndefined();
      expect((await report(second.uid)).status).toBe(200);
    });

    it('creates no shadow when there is none', async () => {
      expect((await report('11111111-2222-4333-8444-555555555555')).code).toBe('NotFound');
      await expect(live()).rejects.toMatchObject({ status: 404 });
    });

    it.each([
      ['an unknown field', { surprise: 1 }, 'body.status.surprise'],
      ['a state that does not exist', { current_state: 'Rebooting' }, 'body.status.current_state'],
      ['a text that is no version', { current_version: 'latest' }, 'body.status.current_version'],
      ['an unknown error code', { lastOperation: { ...operation, errorCode: 'Oops' } }, 'errorCode'],
      ['a failure without a code', { lastOperation: { ...operation, errorCode: undefined } }, 'errorCode'],
    ])('rejects %s and names it', async (_what, changes, named) => {
      const { uid } = await ensure();
      const { status, body } = await report(uid, changes);
      expect(status).toBe(400);
      expect(JSON.stringify(body)).toContain(named);
    });
  });
});
