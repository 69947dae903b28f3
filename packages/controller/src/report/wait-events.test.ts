import { waiting } from '../plan/condition.ts';
import { Moment } from '../kept/moment.ts';
import { waitEvent } from './wait-events.ts';
import type { Reason } from '../plan/facts/reasons.ts';
import { isPair } from '../cluster/snapshot.ts';
import { aManagedNode, NOW } from '../testing/objects.ts';

const HOUR_MS = 3_600_000;
const CONDITION = { type: 'Progressing', status: 'False', message: '', lastTransitionTime: '' } as const;
const blocked = (reason: Reason) => waiting({ reason, message: 'why' });

function eventFor(before: Reason, reason: Reason, now = NOW, isStalled = false): ReturnType<typeof waitEvent> {
  const pair = aManagedNode('a', {}, { progressing: { ...CONDITION, reason: before } });
  if (!isPair(pair)) throw new Error('expected a Node with its shadow');
  return waitEvent(pair, blocked(reason), { isStalled, now: new Moment(now) });
}

describe('the Event on a shadow', () => {
  it('says that a reason to wait begins, and which one ended', () => {
    expect(eventFor('UpToDate', 'DrainBlocked')).toMatchObject({
      reason: 'Waiting',
      warning: false,
      about: { kind: 'BottlerocketShadow' },
      message: 'DrainBlocked: why',
    });
    expect(eventFor('NodeNotReady', 'ManualRetryRequired')).toMatchObject({
      reason: 'Waiting',
      warning: true,
      message: 'No longer NodeNotReady. ManualRetryRequired: why',
    });
    expect(eventFor('DrainBlocked', 'Updating')).toMatchObject({ reason: 'WaitingEnded' });
  });

  it.each([
    ['nothing changes', 'DrainBlocked', 'DrainBlocked'],
    ['all nodes wait for it', 'UpToDate', 'Paused'],
    ['nodes take turns', 'Updating', 'WaitingForCapacity'],
    ['an Event on the Node tells it', 'Updating', 'DeadlineExceeded'],
  ] as const)('is not recorded when %s', (_, before, reason) => {
    expect(eventFor(before, reason)).toBeUndefined();
  });

  it('says that an agent is not connected only when it has not connected in time', () => {
    expect(eventFor('UpToDate', 'AgentNotConnected')).toBeUndefined();
    expect(eventFor('AgentNotConnected', 'UpToDate')).toBeUndefined();
    expect(eventFor('AgentNotConnected', 'AgentNotConnected', NOW, true)).toMatchObject({
      reason: 'Waiting',
      warning: true,
      message: 'AgentNotConnected: why',
    });
  });

  it('is the same within an hour, also when the node changes between two reasons', () => {
    const start = Math.floor(NOW / HOUR_MS) * HOUR_MS;
    const keys = [0, HOUR_MS - 1, HOUR_MS].map((ms) => eventFor('UpToDate', 'DrainBlocked', start + ms)?.key);
    expect(keys[0]).toBe(keys[1]);
    expect(keys[0]).not.toBe(keys[2]);
  });
});
