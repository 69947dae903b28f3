import { jest } from '@jest/globals';
import { NodeToDrain, shiftedClock } from '../../framework/apiserver/drains.ts';
import { createBudget, podNames } from '../../framework/apiserver/pods.ts';
import { useConfiguredApiserver } from '../../framework/apiserver/suite.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const MINUTE = 60_000;
const suite = useConfiguredApiserver({ drain: { onTimeout: 'Force' } });

describe('a drain that is to delete pods without the right to', () => {
  it('fails at its time limit as with Abort, deletes nothing, and says what to do', async () => {
    const node = await NodeToDrain.create(suite);
    const time = shiftedClock();
    const apiserver = await suite.start({ clock: time.clock });
    const held = await node.pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, node.namespace, 'web-budget', { app: 'web' });
    expect((await node.drain(apiserver)).failure).toBeUndefined();
    time.shiftMs = 31 * MINUTE;
    const { failure, ...result } = await node.drain(apiserver);
    expect(result).toMatchObject({ done: false, evicted: 0, remaining: 1 });
    expect(failure?.code).toBe('DrainTimedOut');
    expect(failure?.message).toContain('set drain.allowForce=true in the values of the chart');
    expect(await node.status()).toMatchObject({
      result: 'TimedOut',
      blockedBy: [{ pod: `${node.namespace}/${held}`, reason: 'Forbidden' }],
    });
    expect(await podNames(suite.cluster, node.namespace)).toEqual([held]);
    await eventually(async () => {
      const events = await node.events('DrainBlocked');
      expect(events.filter((message) => message.includes('cannot delete resource "pods"'))).toHaveLength(1);
    });
    expect(await node.events('DrainForced')).toEqual([]);
  });
});

describe('a replica whose own clock is an hour ahead', () => {
  it('continues the drain that another one has started, and dates its own by the clock of kube-apiserver', async () => {
    const node = await NodeToDrain.create(suite);
    const time = shiftedClock();
    time.shiftMs = 60 * MINUTE;
    const [right, wrong] = [await suite.start(), await suite.start({ wrongClock: time.clock })];
    const held = await node.pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, node.namespace, 'web-budget', { app: 'web' });
    expect((await node.drain(right)).failure).toBeUndefined();
    expect(await node.drain(wrong)).toMatchObject({ done: false, evicted: 0, remaining: 1 });
    expect((await node.status())?.result).toBeUndefined();
    expect(await podNames(suite.cluster, node.namespace)).toEqual([held]);
    const other = await NodeToDrain.create(suite);
    await other.pod({ labels: { app: 'web' } });
    await createBudget(suite.cluster, other.namespace, 'web-budget', { app: 'web' });
    await other.drain(wrong);
    const aheadMs = Date.parse((await other.status())?.startTime ?? '') - Date.now();
    expect(Math.abs(aheadMs)).toBeLessThan(30_000);
  });
});
