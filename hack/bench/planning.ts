/**
 * How long the controller plans for fleets whose drains are blocked: each node has 30 pods of one
 * namespace, and one disruption budget of its own that allows nothing.
 */
import { performance } from 'node:perf_hooks';
import type { Budget } from '../../packages/shared/src/drain/budgets.ts';
import { indexedBudgets } from '../../packages/shared/src/drain/budget-index.ts';
import type { DrainPod } from '../../packages/shared/src/drain/pods.ts';
import { aBudget, aPod } from '../../packages/shared/src/testing/pods.ts';
import type { Snapshot } from '../../packages/controller/src/cluster/snapshot.ts';
import { plan } from '../../packages/controller/src/plan/plan.ts';
import { aManagedNode, aNode, aSnapshot, NOW, podsOf } from '../../packages/controller/src/testing/objects.ts';

const PODS = 30;
const ROUNDS = 9;

export interface PlanningTimes {
  readonly nodes: number;
  /** Milliseconds of a plan that judges the pods of all nodes. */
  readonly firstMs: number;
  /** Milliseconds of a plan while no pod and no budget changes. */
  readonly nextMs: number;
}

/** Plans for each number of nodes, after a warm-up. The shortest times, since others use the machine. */
export function planningTimes(sizes: readonly number[]): PlanningTimes[] {
  for (let i = 0; i < ROUNDS; i += 1) timesOf(100);
  return sizes.map((nodes) => {
    const rounds = Array.from({ length: ROUNDS }, () => timesOf(nodes));
    const leastOf = (which: 'firstMs' | 'nextMs'): number => Math.min(...rounds.map((times) => times[which]));
    return { nodes, firstMs: leastOf('firstMs'), nextMs: leastOf('nextMs') };
  });
}

function timesOf(nodes: number): Omit<PlanningTimes, 'nodes'> {
  const snapshot = blockedFleet(nodes);
  const firstMs = planMs(snapshot);
  return { firstMs, nextMs: Math.min(...Array.from({ length: ROUNDS }, () => planMs(snapshot))) };
}

function planMs(snapshot: Snapshot): number {
  const startedAt = performance.now();
  plan(snapshot, NOW);
  return performance.now() - startedAt;
}

function blockedFleet(nodes: number): Snapshot {
  const names = Array.from({ length: nodes }, (_, i) => `node-${i}`);
  const pods = names.map((name) => [name, podsOf(aNode({ name }), podsOn(name))] as const);
  const budgets = indexedBudgets(names.map(budgetOf));
  const managedNodes = names.map((name) => aManagedNode(name));
  return { ...aSnapshot(managedNodes), pods: new Map(pods), budgets };
}

function budgetOf(node: string): Budget {
  return aBudget(`budget-${node}`, { selector: { matchLabels: { app: node } } });
}

function podsOn(node: string): DrainPod[] {
  return Array.from({ length: PODS }, (_, i) => {
    const pod = aPod(`${node}-${String(i).padStart(2, '0')}`);
    return { ...pod, node, metadata: { ...pod.metadata, labels: { app: node } } };
  });
}
