/** Sets of `spec.quorums` and their pods, for tests. */
import type { NodeRecord } from '@brupop/shared/api/record';
import type { DrainPod } from '@brupop/shared/drain/pods';
import { aPod } from '@brupop/shared/testing/pods';
import { type MemberPods, membersKey, type MemberPodsView } from '../cluster/member-pods.ts';
import type { NodeView } from '../cluster/node.ts';
import type { ManagedNode, Snapshot } from '../cluster/snapshot.ts';
import { wholePlan, type WholePlan as Plan } from '../whole-plan.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  cordoned,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  podsOf,
  underWay,
} from './objects.ts';

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
  const { reason, message } = conditions.flat().find(({ node }) => node.metadata.name === name)?.progressing ?? {};
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

/** The nodes a to e. */
export const fleet = (count: number): ManagedNode[] =>
  ['a', 'b', 'c', 'd', 'e'].slice(0, count).map((name) => aManagedNode(name));

/** Of an update that has started, with a member. */
export const RECORDED = { startedAt: ago(MINUTE), members: [{ quorum: 'db', pod: 'db-x' }] };

/** Its agent has staged the version. */
export const staged = (name: string, record: NodeRecord = RECORDED, node: NodeParts = {}): ManagedNode =>
  aManagedNode(name, node, { spec: underWay('StagedAndPerformedUpdate'), record });

/** It may be drained. */
export const draining = (name: string, node: NodeParts = cordoned(MINUTE)): ManagedNode =>
  aManagedNode(name, node, {
    spec: underWay('RebootedIntoUpdate'),
    record: RECORDED,
    status: { current_state: 'StagedAndPerformedUpdate' },
  });

/** It runs the version, and has to be healthy on it. */
export const monitored = (name: string, pod: string, sinceMs = MINUTE): ManagedNode =>
  aManagedNode(
    name,
    {},
    {
      spec: underWay('MonitoringUpdate', sinceMs),
      record: { startedAt: ago(5 * MINUTE), members: [{ quorum: 'db', pod }] },
      status: { current_version: NEW, target_version: NEW },
    },
  );

export interface QuorumCase {
  /** Differences to {@link DB}. */
  readonly quorum?: object;
  readonly more?: object;
  /** Nodes that are not managed. */
  readonly others?: readonly NodeView[];
}

/** All nodes may update at once. */
export function snapshotOf(nodes: readonly ManagedNode[], { quorum, more, others = [] }: QuorumCase = {}): Snapshot {
  const concurrency = { maxUpdating: '100%' };
  const snapshot = aSnapshot(nodes, { concurrency, quorums: [{ ...DB, ...quorum }], ...more });
  return { ...snapshot, nodes: [...snapshot.nodes, ...others] };
}

export const planned = (nodes: readonly ManagedNode[], pods: readonly DrainPod[], found: QuorumCase = {}): Plan =>
  wholePlan(withMembers(snapshotOf(nodes, found), pods), NOW);
