/** What a loss of connectivity suspends, beside the starts of updates. */
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { Condition } from '@brupop/shared/api/meta';
import { ZONE_LABEL } from '@brupop/shared/api/names';
import { CONNECTED, type Connectivity } from '../cluster/connectivity.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { ago, aManagedNode, aSnapshot, failure, MINUTE, NEW, NOW, underWay, withPolicy } from '../testing/objects.ts';
import type { UpdatePolicy } from '../policy/policy.ts';
import { statusOf } from '../report/config-status.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const HOUR = 60 * MINUTE;
const MANY = Array.from({ length: 7 }, (_, index) => ({
  name: `node-${index}`,
  ageMs: 60_000,
  renewedAt: NOW - 60_000 + index * 10_000,
}));
const LOST: Connectivity = { lost: true, lostUntil: NOW, zones: new Map(), expired: MANY, counted: 10 };
/** Only the zone `z`. */
const ZONE_LOST: Connectivity = {
  ...CONNECTED,
  zones: new Map([['z', { lost: true, lostUntil: NOW }]]),
  expired: MANY.slice(0, 3),
  counted: 10,
};

/** The plan while connectivity is lost, or after it was until `lostUntil`. */
function planOf(managedNodes: readonly ManagedNode[], connectivity: Connectivity = LOST): Plan {
  const snapshot = aSnapshot(managedNodes, {});
  const policy = { ...snapshot.policy, deadlinesFrom: connectivity.lostUntil, isSuspended: connectivity.lost };
  return plan({ ...withPolicy(snapshot, policy), connectivity }, NOW);
}

const outcomes = ({ specs }: Plan): string[] => specs.map(({ outcome }) => outcome);
const after = (ms: number): Connectivity => ({ ...CONNECTED, lostUntil: NOW - ms });

const rebooting = aManagedNode(
  'a',
  { ready: false },
  {
    spec: underWay('RebootedIntoUpdate', 3 * HOUR),
    record: { rebootRequestedAt: ago(3 * HOUR) },
    status: {
      current_state: 'StagedAndPerformedUpdate',
      lastOperation: failure(undefined, { operation: 'Reboot', state: 'Processing' }),
    },
  },
);
const parts = { spec: underWay('MonitoringUpdate', 3 * HOUR), status: { current_version: NEW } };
const monitored = (ready: boolean): ManagedNode => aManagedNode('a', { ready }, parts);
const staged = aManagedNode(
  'a',
  {},
  { spec: underWay('StagedAndPerformedUpdate'), record: { startedAt: ago(MINUTE) } },
);

it.each<readonly [string, ManagedNode, string[]]>([
  ['a node that waits', aManagedNode('a'), ['Started']],
  ['a node that is staged', staged, ['Advanced']],
  ['a healthy node', monitored(true), ['Succeeded']],
])('%s waits while connectivity is lost', (_, node, otherwise) => {
  expect(outcomes(planOf([node]))).toEqual([]);
  expect(outcomes(planOf([node], CONNECTED))).toEqual(otherwise);
});

it('a zone that is lost stops its own nodes only', () => {
  const inZone = (name: string, zone: string): ManagedNode => aManagedNode(name, { labels: { [ZONE_LABEL]: zone } });
  const made = planOf([inZone('a', 'z'), inZone('b', 'y'), aManagedNode('c')], ZONE_LOST);
  expect(made.specs.map(({ shadow }) => shadow.metadata.name)).toEqual(['brs-b']);
  expect(planOf([inZone('a', 'z')], ZONE_LOST).specs).toEqual([]);
});

it.each<readonly [string, ManagedNode]>([
  ['NotReturned', rebooting],
  ['NotHealthy', monitored(false)],
])('no node has failed with %s, and its time starts again afterwards', (code, node) => {
  expect(planOf([node], CONNECTED).failed).toMatchObject([{ name: 'a', code }]);
  expect(planOf([node]).failed).toEqual([]);
  expect(planOf([node], after(MINUTE)).failed).toEqual([]);
  expect(planOf([node], after(2 * HOUR)).failed).toMatchObject([{ code }]);
});

it('a failure that a user accepted before a loss of connectivity remains accepted', () => {
  const nodes = [monitored(false), aManagedNode('b')];
  const planWith = (resume: string, { lost, lostUntil }: Connectivity): Plan => {
    const snapshot = aSnapshot(nodes, { rollout: { failureBudget: 0, resume } });
    return plan(withPolicy(snapshot, { ...snapshot.policy, deadlinesFrom: lostUntil, isSuspended: lost }), NOW);
  };
  const lossEnded = after(HOUR);
  const accepted = planWith(ago(2 * HOUR), lossEnded);
  expect([accepted.failed, accepted.frozen, accepted.stuckNodes, outcomes(accepted)]).toEqual([
    [],
    [],
    [],
    ['Started'],
  ]);
  expect(planWith(ago(3 * HOUR), lossEnded).failed).toMatchObject([{ code: 'NotHealthy' }]);
});

it('a staged node whose time has passed meanwhile is deferred, which is no failure', () => {
  const late = aManagedNode(
    'a',
    {},
    {
      spec: underWay('StagedAndPerformedUpdate', 3 * HOUR),
      record: { startedAt: ago(3 * HOUR) },
    },
  );
  expect(outcomes(planOf([late]))).toEqual(['Deferred']);
});

it('what a node of a zone that is off has missed says nothing about the version', () => {
  const record = { startedAt: ago(4 * HOUR), bootBefore: 'boot-1' };
  const snapshot = aSnapshot([aManagedNode('a', { ready: false, bootID: 'boot-2' }, { ...parts, record })]);
  const failed = (more: Pick<UpdatePolicy, 'isZoneOff'>): Plan['failed'] =>
    plan(withPolicy(snapshot, { ...snapshot.policy, deadlinesFrom: NOW - 2 * HOUR, ...more }), NOW).failed;
  expect(failed({})).toMatchObject([{ code: 'NotHealthy' }]);
  expect(failed({ isZoneOff: true })).toEqual([]);
});

it('the time for which a staged node was cut off is not what its update takes', () => {
  const closed = { maintenance: { windows: [{ schedule: '0 9 * * *', duration: '4h' }] } };
  const found = (deadlinesFrom: number): number | undefined => {
    const snapshot = aSnapshot([staged], closed);
    const [change] = plan(withPolicy(snapshot, { ...snapshot.policy, deadlinesFrom, isSuspended: false }), NOW).specs;
    expect(change).toMatchObject({ outcome: 'Deferred', because: { reason: 'OutsideMaintenanceWindow' } });
    return change?.record.deferredAfterSeconds;
  };
  expect(found(0)).toBe(60);
  expect(found(NOW - 1_000)).toBeUndefined();
});

it('the duration of an update during which connectivity was lost is not recorded', () => {
  const record = { startedAt: ago(3 * HOUR) };
  const node = aManagedNode('a', {}, { ...parts, record });
  const secondsOf = (connectivity: Connectivity): unknown =>
    planOf([node], connectivity).specs[0]?.record.updateSeconds;
  expect(secondsOf(CONNECTED)).toBe((3 * HOUR) / 1000);
  expect(secondsOf(after(HOUR))).toBeUndefined();
});

it('the configuration says how many nodes are cut off, names five, and ends with what to do', () => {
  const { config } = aSnapshot([], {});
  const conditionOf = (made: Plan): Condition | undefined => {
    const input = { config: config as BrupopConfig, before: undefined, isWritten: true, now: NOW };
    return statusOf({ ...input, plan: made }).conditions?.find(({ type }) => type === 'Connected');
  };
  expect(conditionOf(planOf([aManagedNode('a')]))).toMatchObject({
    status: 'False',
    reason: 'LeasesExpired',
    message:
      'No update or drain starts: 7 of 10 nodes that are not updating have not renewed their Leases (node-0 since 2027-01-15T07:59:00Z, ' +
      'node-1 since 2027-01-15T07:59:10Z, node-2 since 2027-01-15T07:59:20Z, node-3 since 2027-01-15T07:59:30Z, ' +
      'node-4 since 2027-01-15T07:59:40Z). Updates continue by themselves when they do; ' +
      'look for a failure of the network, of a zone or of the control plane',
  });
  expect(conditionOf(planOf([aManagedNode('a')], ZONE_LOST))).toMatchObject({
    status: 'False',
    message: expect.stringContaining('No update or drain starts in the zone z: 3 of 10 nodes') as string,
  });
  expect(conditionOf(planOf([], CONNECTED))).toMatchObject({ status: 'True', reason: 'LeasesRenewed' });
});
