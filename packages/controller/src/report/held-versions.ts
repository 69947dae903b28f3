/** What users read of a version that is held because workloads fail on nodes that run it. */
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { SuspectNode } from '../plan/facts/suspects.ts';
import type { HeldVersion } from '../plan/facts/holds.ts';

const MAX_NAMED = 5;

/** The condition Held of the BrupopConfig. */
export function held({ holds }: { readonly holds: readonly HeldVersion[] }) {
  const found = holds.find(({ suspects }) => suspects.length > 0);
  if (found === undefined)
    return { status: 'False', reason: 'NotHeld', message: 'No version is held because workloads fail on it' } as const;
  return { status: 'True', reason: 'WorkloadsFail', message: describeHeld(found) } as const;
}

/** Names the workloads with their nodes, and the ways out. */
export function describeHeld({ version, until, suspects }: HeldVersion): string {
  const byWorkload = [...Map.groupBy(suspects, ({ workload }) => workload)];
  const list = byWorkload.slice(0, MAX_NAMED).map(([workload, nodes]) => `${workload} (${onNodes(nodes)})`);
  const more = byWorkload.length > MAX_NAMED ? ` and ${byWorkload.length - MAX_NAMED} more` : '';
  return (
    `No update to ${version} starts until ${rfc3339(until)}: these workloads fail on nodes that run it, and were Ready on nodes of the ` +
    `former version: ${list.join(', ')}${more}. Look at their pods with kubectl get pods -o wide. If ${version} is not the cause, set ` +
    'spec.rollout.resume to the current time to continue now; if it is, pin another version or deny it with spec.versions'
  );
}

const MAX_NODES = 3;

function onNodes(nodes: readonly SuspectNode[]): string {
  const more = nodes.length > MAX_NODES ? ` and ${nodes.length - MAX_NODES} more nodes` : '';
  return `${nodes.slice(0, MAX_NODES).map(onNode).join(', ')}${more}`;
}

function onNode({ node, problem, from }: SuspectNode): string {
  const moved = from === undefined ? '' : `, moved there by the drain of ${from}`;
  return `${problem} on ${node}${moved}`;
}
