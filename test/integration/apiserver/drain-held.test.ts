import { jest } from '@jest/globals';
import { NodeToDrain, shiftedClock } from '../../framework/apiserver/drains.ts';
import { createBudget, podNames } from '../../framework/apiserver/pods.ts';
import { useConfiguredApiserver } from '../../framework/apiserver/suite.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const MINUTE = 60_000;
const suite = useConfiguredApiserver({}, ['drain.allowForce=true']);
let node: NodeToDrain;

beforeEach(async () => {
  await suite.configure(suite.cluster, {});
  node = await NodeToDrain.create(suite);
});

const budgetPath = (): string => `/apis/policy/v1/namespaces/${node.namespace}/poddisruptionbudgets`;

/** A primary whose budget requires the one pod that it has, and two other pods. */
async function primaryAndOthers(): Promise<{ primary: string; others: readonly string[] }> {
  const primary = await node.pod({ labels: { cluster: 'pg', role: 'primary' } });
  const others = [await node.pod({ labels: { cluster: 'pg' } }), await node.pod()];
  await createBudget(suite.cluster, node.namespace, 'pg', { role: 'primary' }, { minAvailable: 1 });
  await eventually(async () => {
    const { status } = await suite.cluster.api.get<{ status?: { expectedPods?: number } }>(`${budgetPath()}/pg`);
    expect(status?.expectedPods).toBe(1);
  });
  return { primary, others };
}

const sorted = (names: readonly string[]): string[] => names.toSorted((a, b) => (a < b ? -1 : 1));

describe('a drain of a node on which a budget holds the primary', () => {
  it('cordons the node, and evicts nothing until the primary is let go; then all of it', async () => {
    const { primary, others } = await primaryAndOthers();
    for (let pass = 0; pass < 3; pass += 1) {
      expect(await node.drain()).toMatchObject({ done: false, evicted: 0, remaining: 3 });
      expect(await node.isCordoned()).toBe(true);
    }
    expect(await node.status()).toMatchObject({
      held: true,
      evicted: 0,
      blockedBy: [{ pod: `${node.namespace}/${primary}`, reason: 'DisruptionBudget', podDisruptionBudgets: ['pg'] }],
    });
    expect(await podNames(suite.cluster, node.namespace)).toEqual(sorted([primary, ...others]));
    await suite.cluster.api.patch(`/api/v1/namespaces/${node.namespace}/pods/${primary}`, {
      metadata: { labels: { role: 'replica' } },
    });
    await node.drainWhole();
    const status = await node.status();
    expect(status).toMatchObject({ evicted: 3, remaining: 0, result: 'Drained' });
    expect(status).not.toHaveProperty('held');
  });

  it('evicts the primary first when its budget is deleted', async () => {
    const { primary } = await primaryAndOthers();
    await node.drain();
    await suite.cluster.api.delete(`${budgetPath()}/pg`);
    await node.drainWhole();
    expect(node.accepted()).toHaveLength(3);
    expect(await node.status()).toMatchObject({ result: 'Drained' });
    expect(await podNames(suite.cluster, node.namespace)).not.toContain(primary);
  });

  it('ends as blocked after five minutes, with no pod evicted, also by another replica, and stays so', async () => {
    const { primary, others } = await primaryAndOthers();
    const time = shiftedClock();
    await node.drain();
    const apiserver = await suite.start({ clock: time.clock });
    time.shiftMs = 4 * MINUTE;
    expect(await node.drain(apiserver)).toMatchObject({ evicted: 0, limitRemainingMs: expect.any(Number) as number });
    expect((await node.status())?.result).toBeUndefined();
    time.shiftMs = 5 * MINUTE;
    expect(await node.drain(apiserver)).toMatchObject({ done: false, evicted: 0, remaining: 3, limitRemainingMs: 0 });
    const ended = await node.status();
    expect(ended).toMatchObject({ result: 'Blocked', evicted: 0, remaining: 3 });
    time.shiftMs = 40 * MINUTE;
    expect(await node.drain(apiserver)).not.toHaveProperty('failure');
    expect(await node.status()).toEqual(ended);
    expect(await podNames(suite.cluster, node.namespace)).toEqual(sorted([primary, ...others]));
  });

  it('has its whole time limit once the primary is let go', async () => {
    await suite.configure(suite.cluster, { drain: { timeout: '1m' } });
    const { primary } = await primaryAndOthers();
    const time = shiftedClock();
    const apiserver = await suite.start({ clock: time.clock });
    await node.drain(apiserver);
    time.shiftMs = MINUTE - 10_000;
    await suite.cluster.api.patch(`/api/v1/namespaces/${node.namespace}/pods/${primary}`, {
      metadata: { labels: { role: 'replica' } },
    });
    const { limitRemainingMs = 0 } = await node.drain(apiserver);
    expect(limitRemainingMs).toBeGreaterThan(45_000);
    await node.drainWhole(apiserver);
  });

  it('asks first for the primary only, also if budgets hold pods that are to go last', async () => {
    const { primary, others } = await primaryAndOthers();
    const last = await node.pod({ labels: { app: 'last' }, annotations: { 'brupop.bottlerocket.aws/drain': 'last' } });
    const ownerReferences = [
      { apiVersion: 'longhorn.io/v1beta2', kind: 'InstanceManager', name: 'im', uid: 'im', controller: true },
    ];
    const server = await node.pod({ labels: { app: 'im' }, ownerReferences });
    for (const app of ['last', 'im'])
      await createBudget(suite.cluster, node.namespace, app, { app }, { minAvailable: 1 });
    expect(await node.drain()).toMatchObject({ evicted: 0, remaining: 5 });
    expect(await node.status()).toMatchObject({ held: true, blockedBy: [{ podDisruptionBudgets: ['pg'] }] });
    await suite.cluster.api.delete(`${budgetPath()}/pg`);
    await eventually(async () => {
      await node.drain();
      expect(await podNames(suite.cluster, node.namespace)).toEqual(sorted([last, server]));
    });
    expect(await node.status()).toMatchObject({ evicted: 3, blockedBy: [{ podDisruptionBudgets: ['last'] }] });
    for (const app of ['last', 'im']) await suite.cluster.api.delete(`${budgetPath()}/${app}`);
    await node.drainWhole();
    expect(node.accepted()).toEqual([primary, ...others, last, server].map(() => expect.any(String) as string));
    expect(node.accepted().slice(3)).toEqual([last, server]);
  });

  it('evicts the others within the time limit with Wait, and with Force deletes the primary at its end', async () => {
    await suite.configure(suite.cluster, { drain: { blockedBudgets: 'Wait' } });
    const { primary } = await primaryAndOthers();
    const time = shiftedClock();
    const waiting = await suite.start({ clock: time.clock });
    expect(await node.drain(waiting)).toMatchObject({ evicted: 2 });
    expect(await podNames(suite.cluster, node.namespace)).toEqual([primary]);
    await suite.configure(suite.cluster, { drain: { onTimeout: 'Force' } });
    const forcing = await suite.start({ clock: time.clock });
    expect(await node.drain(forcing)).toMatchObject({ evicted: 0, remaining: 1 });
    expect(await node.status()).not.toHaveProperty('held');
    time.shiftMs = 31 * MINUTE;
    await node.drainWhole(forcing);
    expect(await node.status()).toMatchObject({ result: 'Forced' });
  });
});
