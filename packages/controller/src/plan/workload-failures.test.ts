/** When a workload that fails on a node after its update counts as a failure of the node with the version. */
import type { FailedNodeStatus } from '@brupop/shared/api/brupop-config';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { aPod } from '@brupop/shared/testing/pods';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW } from '../testing/objects.ts';
import { wholePlan as plan } from '../whole-plan.ts';

const WORKLOAD = 'ReplicaSet kube-system/web';
const AT = ago(2 * MINUTE);
const known: FailedNodeStatus[] = [{ name: 'a', version: NEW, code: 'WorkloadsFailed', since: AT }];
const crashing = aPod('web', { controller: WORKLOAD, ready: false, failing: true });

interface World {
  /** The pods that are not Ready on each node; undefined: this leader has not listed them. */
  readonly listed?: readonly DrainPod[];
  readonly listedAt?: number;
  readonly failedNodes?: FailedNodeStatus[];
}

/** A former leader has recorded a workload that fails on two nodes. */
function counted({ listed, listedAt = NOW, failedNodes = [] }: World): { failed: string[]; frozen: string[] } {
  const suspects = [{ workload: WORKLOAD, problem: 'cannot start', at: AT }];
  const record = { succeeded: { version: NEW, at: ago(3 * MINUTE) }, suspects };
  const updated = (name: string) => aManagedNode(name, {}, { record, status: { current_version: NEW } });
  const snapshot = aSnapshot([updated('a'), updated('b'), aManagedNode('c')], { health: { watchFor: '5m' } });
  const pods = listed === undefined ? [] : ['a', 'b'];
  const ofNode = (name: string) => ({ nodeUID: `uid-${name}`, pods: listed ?? [], listedAt: [listedAt] });
  const observed = new Map(pods.map((name) => [name, ofNode(name)]));
  const config = snapshot.config && { ...snapshot.config, status: { failedNodes } };
  const made = plan({ ...snapshot, config, observed }, NOW);
  return { failed: made.failed.map(({ name }) => name), frozen: made.frozen.map(({ version }) => version) };
}

it.each<readonly [string, World, readonly string[]]>([
  ['does not count before the pods were listed again', {}, []],
  ['does not count by the list that found it', { listed: [crashing], listedAt: NOW - 2 * MINUTE }, []],
  ['does not count when its pods are Ready again', { listed: [] }, []],
  ['counts when a later list shows it', { listed: [crashing] }, ['a', 'b']],
  ['counts as before until the pods were listed', { failedNodes: known }, ['a']],
  ['does not count any more when its pods are Ready again', { failedNodes: known, listed: [] }, []],
])('a workload of a trusted namespace %s', (_, world, expected) => {
  const { failed, frozen } = counted(world);
  expect([failed, frozen]).toEqual([expected, expected.length > 1 ? [NEW] : []]);
});
