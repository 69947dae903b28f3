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

describe('an apiserver that changes nodes', () => {
  const suite = useConfiguredApiserver({ loadBalancer: { exclusion: `${waitMs / 1000}s` } });
  let agent: Agent;
  let reference: SpecReference;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
    reference = await wantReboot(suite.cluster, suite.namespace, suite.apiserver.client, agent);
  });

  const patch = async (body: object): Promise<void> => {
    await suite.cluster.api.patch(`/api/v1/nodes/${agent.node}`, body);
  };

  /**
   * The cordon and the exclusion of the node, and the annotations that say whether the operator has
   * set them.
   */
  const state = async (): Promise<object> => {
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
    it('records its cordon in an annotation and removes both', async () => {
      await drain();
      expect(await state()).toEqual({ ...nothing, unschedulable: true, cordonedByUs: true });
      expect(await restore()).toEqual({ uncordoned: true, included: false });
      expect(await state()).toEqual(nothing);
      expect(await restore()).toEqual({ uncordoned: false, included: false });
    });

    it('keeps a cordon that another actor set, before and after', async () => {
      await patch({ spec: { unschedulable: true } });
      expect(await drain()).toMatchObject({ done: true });
      expect(await state()).toEqual({ ...nothing, unschedulable: true });
      expect(await restore()).toEqual({ uncordoned: false, included: false });
      expect(await state()).toEqual({ ...nothing, unschedulable: true });
    });

    it('removes only its annotation when another actor has uncordoned the node meanwhile', async () => {
      await drain();
      await patch({ spec: { unschedulable: null } });
      expect(await restore()).toEqual({ uncordoned: false, included: false });
      expect(await state()).toEqual(nothing);
    });

    it('cordons the node again when another actor has uncordoned it during the drain', async () => {
      await drain();
      await patch({ spec: { unschedulable: null } });
      expect(await drain()).toMatchObject({ done: true });
      expect(await state()).toEqual({ ...nothing, unschedulable: true, cordonedByUs: true });
    });
  });

  describe('exclusion from load balancers', () => {
    it('sets label and annotation, counts the wait down, and removes both', async () => {
      expect(await exclude()).toBe(waitMs);
      expect(await state()).toEqual({ ...nothing, label: true, labelledByUs: true });
      await patch({ metadata: { annotations: { [excluded]: '2026-01-02T03:04:05Z' } } });
      expect(await exclude()).toBe(0);
      expect(await restore()).toEqual({ uncordoned: false, included: true });
      expect(await state()).toEqual(nothing);
    });

    it('does not start the wait again when the request is repeated', async () => {
      await exclude();
      const before = await suite.cluster.api.get<NodeObject>(`/api/v1/nodes/${agent.node}`);
      expect(await exclude()).toBeLessThanOrEqual(waitMs);
      const after = await suite.cluster.api.get<NodeObject>(`/api/v1/nodes/${agent.node}`);
      expect(after.metadata.annotations[excluded]).toBe(before.metadata.annotations[excluded]);
    });

    it('keeps a label that another actor set', async () => {
      await patch({ metadata: { labels: { [exclusionLabel]: '' } } });
      expect(await exclude()).toBe(0);
      expect(await restore()).toEqual({ uncordoned: false, included: false });
      expect(await state()).toEqual({ ...nothing, label: true });
    });
  });

  it('changes a node that other actors write to twenty times a second', async () => {
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
    expect(await state()).toEqual(nothing);
  });

  it('excludes no node from load balancers where that is disabled', async () => {
    await suite.configure(suite.cluster, {});
    const off = await suite.start();
    const { body } = await off.client.act(agent, 'load-balancer-exclusion', reference);
    expect(body).toEqual({ remainingMs: 0 });
    expect(await state()).toEqual(nothing);
  });
});
