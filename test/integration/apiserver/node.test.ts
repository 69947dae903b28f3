import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { ExclusionResult, RestoreResult, SpecReference } from '../../../packages/shared/src/api/agent-protocol.ts';
import { type Agent, createAgent } from '../../framework/apiserver/cluster.ts';
import { wantReboot } from '../../framework/apiserver/shadow.ts';
import { useConfiguredApiserver } from '../../framework/apiserver/suite.ts';

jest.setTimeout(60_000);

interface NodeObject {
  readonly metadata: {
    readonly resourceVersion: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  };
  readonly spec: { readonly unschedulable?: boolean };
}

const cordoned = 'brupop.bottlerocket.aws/cordoned';
const excluded = 'brupop.bottlerocket.aws/excluded-from-load-balancers';
const exclusionLabel = 'node.kubernetes.io/exclude-from-external-load-balancers';
const waitMs = 60_000;

describe('an apiserver that marks nodes', () => {
  const suite = useConfiguredApiserver({ loadBalancer: { exclusionSeconds: waitMs / 1000 } });
  let agent: Agent;
  let reference: SpecReference;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
    reference = await wantReboot(suite.cluster, suite.namespace, suite.apiserver.client, agent);
  });

  const patch = async (body: object): Promise<void> => {
    await suite.cluster.api.patch(`/api/v1/nodes/${agent.node}`, body);
  };

  /** What of our marks and of what they stand for is on the node. */
  const marks = async (): Promise<object> => {
    const { metadata, spec } = await suite.cluster.api.get<NodeObject>(`/api/v1/nodes/${agent.node}`);
    return {
      unschedulable: spec.unschedulable ?? false,
      cordonedByUs: cordoned in metadata.annotations,
      label: exclusionLabel in metadata.labels,
      labelledByUs: excluded in metadata.annotations,
    };
  };

  const nothing = { unschedulable: false, cordonedByUs: false, label: false, labelledByUs: false };

  const drain = async (): Promise<unknown> => (await suite.apiserver.client.act(agent, 'drain', reference)).body;

  const exclude = async (): Promise<number> =>
    (await suite.apiserver.client.act<ExclusionResult>(agent, 'load-balancer-exclusion', reference)).body.remainingMs;

  const restore = async (): Promise<RestoreResult> =>
    (await suite.apiserver.client.act<RestoreResult>(agent, 'restore')).body;

  describe('cordon', () => {
    it('signs its cordon and takes it back', async () => {
      await drain();
      expect(await marks()).toEqual({ ...nothing, unschedulable: true, cordonedByUs: true });
      expect(await restore()).toEqual({ uncordoned: true, included: false });
      expect(await marks()).toEqual(nothing);
      expect(await restore()).toEqual({ uncordoned: false, included: false });
    });

    it('leaves a cordon that somebody else set, before and after', async () => {
      await patch({ spec: { unschedulable: true } });
      expect(await drain()).toMatchObject({ done: true });
      expect(await marks()).toEqual({ ...nothing, unschedulable: true });
      expect(await restore()).toEqual({ uncordoned: false, included: false });
      expect(await marks()).toEqual({ ...nothing, unschedulable: true });
    });

    it('only takes its signature away when somebody has uncordoned the node meanwhile', async () => {
      await drain();
      await patch({ spec: { unschedulable: null } });
      expect(await restore()).toEqual({ uncordoned: false, included: false });
      expect(await marks()).toEqual(nothing);
    });

    it('cordons again what somebody has uncordoned during the drain', async () => {
      await drain();
      await patch({ spec: { unschedulable: null } });
      expect(await drain()).toMatchObject({ done: true });
      expect(await marks()).toEqual({ ...nothing, unschedulable: true, cordonedByUs: true });
    });
  });

  describe('exclusion from load balancers', () => {
    it('labels and signs, counts the wait down, and takes the label back', async () => {
      expect(await exclude()).toBe(waitMs);
      expect(await marks()).toEqual({ ...nothing, label: true, labelledByUs: true });
      await patch({ metadata: { annotations: { [excluded]: '2026-01-02T03:04:05Z' } } });
      expect(await exclude()).toBe(0);
      expect(await restore()).toEqual({ uncordoned: false, included: true });
      expect(await marks()).toEqual(nothing);
    });

    it('does not begin the wait anew when it is asked again', async () => {
      await exclude();
      const before = await suite.cluster.api.get<NodeObject>(`/api/v1/nodes/${agent.node}`);
      expect(await exclude()).toBeLessThanOrEqual(waitMs);
      const after = await suite.cluster.api.get<NodeObject>(`/api/v1/nodes/${agent.node}`);
      expect(after.metadata.annotations[excluded]).toBe(before.metadata.annotations[excluded]);
    });

    it('leaves a label that somebody else set', async () => {
      await patch({ metadata: { labels: { [exclusionLabel]: '' } } });
      expect(await exclude()).toBe(0);
      expect(await restore()).toEqual({ uncordoned: false, included: false });
      expect(await marks()).toEqual({ ...nothing, label: true });
    });
  });

  it('marks a node that others write to twenty times a second', async () => {
    const enough = new AbortController();
    const writer = async (): Promise<void> => {
      for (let number = 0; !enough.signal.aborted; number += 1) {
        await patch({ metadata: { annotations: { 'test.brupop/number': String(number) } } });
        await sleep(50);
      }
    };
    const written = writer();
    try {
      for (let round = 0; round < 5; round += 1) {
        expect(await exclude()).toBe(waitMs);
        expect(await drain()).toMatchObject({ done: true });
        expect(await restore()).toEqual({ uncordoned: true, included: true });
      }
    } finally {
      enough.abort();
      await written;
    }
    expect(await marks()).toEqual(nothing);
  });

  it('leaves nodes in load balancers where that is switched off', async () => {
    await suite.configure(suite.cluster, {});
    const off = await suite.start();
    const { body } = await off.client.act(agent, 'load-balancer-exclusion', reference);
    expect(body).toEqual({ remainingMs: 0 });
    expect(await marks()).toEqual(nothing);
  });
});
