/** Sets of `spec.quorums` and their pods, for tests. */
import type { DrainPod } from '@brupop/shared/drain/pods';
import { aPod } from '@brupop/shared/testing/pods';
import { type MemberPods, membersKey, type MemberPodsView } from '../cluster/member-pods.ts';
import type { Snapshot } from '../cluster/snapshot.ts';
import type { WholePlan as Plan } from '../whole-plan.ts';
import { NOW, podsOf } from './objects.ts';

/** Three members, of which none may be away beside the one that updates. */
export const DB = { name: 'db', namespace: 'apps', podSelector: { matchLabels: { app: 'db' } }, members: 3 };

/** A Ready member of {@link DB}. */
export function aMember(name: string, node: string, changes: Parameters<typeof aPod>[1] = {}): DrainPod {
  const { metadata } = aPod('db');
  const pod = aPod(name, { node, controller: 'StatefulSet apps/db', ...changes });
  return { ...pod, metadata: { ...pod.metadata, labels: { ...metadata.labels, ...changes.metadata?.labels } } };
}

/** The API server's copy of a static pod. */
export function aStaticMember(name: string, node: string, changes: Parameters<typeof aPod>[1] = {}): DrainPod {
  return aMember(name, node, { mirror: true, controller: `Node /${node}`, ...changes });
}

/** Ready members of {@link DB} on the nodes a to e. */
export function members(count: number): DrainPod[] {
  return ['a', 'b', 'c', 'd', 'e'].slice(0, count).map((name) => aMember(`db-${name}`, name));
}

export function outcomes({ specs }: Plan): string[] {
  return specs.map(({ outcome, node }) => `${outcome} ${node.metadata.name}`);
}

/** Why a node waits, as its condition says it. */
export function waiting({ conditions }: Plan, name: string): { reason?: string; message?: string } {
  const { reason, message } = conditions.find(({ node }) => node.metadata.name === name)?.progressing ?? {};
  return { ...(reason !== undefined && { reason }), ...(message !== undefined && { message }) };
}

export function listOf(pods: readonly DrainPod[], asOf = NOW): MemberPods {
  return { pods, asOf, problem: undefined, nextAt: asOf + 5_000 };
}

/** What lists of all sets of the configuration, and of the pods on each node, show. */
export function withMembers(snapshot: Snapshot, pods: readonly DrainPod[], asOf = NOW): Snapshot {
  const memberPods: MemberPodsView = new Map(
    snapshot.policy.quorums.map((quorum) => [membersKey(quorum), listOf(pods, asOf)]),
  );
  const onNodes = snapshot.nodes.map((node) => {
    const { name } = node.metadata;
    return [
      name,
      podsOf(
        node,
        pods.filter((pod) => pod.node === name),
        asOf,
      ),
    ] as const;
  });
  return { ...snapshot, memberPods, pods: new Map(onNodes) };
}
