/** A clock of the controller that is ahead of that of kube-apiserver, by less than what stops updates. */
import { aPod } from '@brupop/shared/testing/pods';
import { observedPods } from '../cluster/pods.ts';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW, OLD } from '../testing/objects.ts';
import { wholePlan } from '../whole-plan.ts';

const WEB = 'ReplicaSet apps/web';

const SLOW = [{ workload: WEB, problem: 'does not become Ready', at: ago(0) }];

it.each([
  [10_000, 10_000, []],
  [3 * MINUTE, 3 * MINUTE, SLOW],
  [60 * MINUTE, 10_000, []],
  [60 * MINUTE, 3 * MINUTE, SLOW],
])('a pod on an updated node is not Ready for as long as by that clock: %d, %d ms', (ageMs, changedMs, suspects) => {
  const clockSkewMs = 4 * MINUTE;
  const record = {
    startedAt: ago(7 * MINUTE),
    from: OLD,
    succeeded: { version: NEW, at: ago(5 * MINUTE) },
    readyBefore: { at: ago(6 * MINUTE), workloads: { [WEB]: 5 } },
  };
  const snapshot = aSnapshot([aManagedNode('a', {}, { record, status: { current_version: NEW } })], {
    health: { watchFor: '5m' },
  });
  const created = ageMs + clockSkewMs;
  const pod = aPod('web', { ready: false, readyChanged: NOW - changedMs - clockSkewMs });
  const pods = [{ ...pod, metadata: { ...pod.metadata, creationTimestamp: ago(created) } }];
  const observed = new Map([['a', observedPods({ nodeUID: 'uid-a', pods, seenAt: NOW }, undefined)]]);
  const allPods = { pods: [], seenAt: NOW, asOf: NOW, problem: undefined, nextAt: NOW };
  const made = wholePlan({ ...snapshot, observed, allPods, clockSkewMs }, NOW);
  expect(made.records.flatMap((one) => one.record.suspects ?? [])).toEqual(suspects);
});
