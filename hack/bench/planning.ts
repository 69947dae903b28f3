/**
 * How much processor time the controller needs to plan for fleets whose drains are blocked: each node has 30 pods of one
 * namespace with 7 labels, and one disruption budget of its own that allows nothing.
 */
import type { Budget } from '../../packages/shared/src/drain/budgets.ts';
import type { DrainPod } from '../../packages/shared/src/drain/pods.ts';
import { Store } from '../../packages/shared/src/kube/store.ts';
import { aBudget, aPod } from '../../packages/shared/src/testing/pods.ts';
import { Budgets } from '../../packages/controller/src/cluster/budgets.ts';
import type { Snapshot } from '../../packages/controller/src/cluster/snapshot.ts';
import { wholePlan as plan } from '../../packages/controller/src/whole-plan.ts';
import { aManagedNode, aNode, aSnapshot, NOW, podsOf } from '../../packages/controller/src/testing/objects.ts';

const PODS = 30;
/** Labels as in common Deployments and Helm charts. */
const SHARED_LABELS = Object.fromEntries(
  ['name', 'instance', 'version', 'component', 'part-of', 'managed-by'].map((key) => [`app.kubernetes.io/${key}`, 'x']),
);
const ROUNDS = 9;

export interface PlanningTimes {
  readonly nodes: number;
  /** Processor milliseconds of a plan that compares the pods of all nodes. */
  readonly firstMs: number;
  /** Processor milliseconds of a plan after a change of one budget that selects pods of one node. */
  readonly changedMs: number;
  /** Processor milliseconds of a plan while no pod and no budget changes. */
  readonly nextMs: number;
}

/** Plans for each number of nodes, after a warm-up. The least, since garbage is collected in some of them. */
export function planningTimes(sizes: readonly number[]): PlanningTimes[] {
  for (let i = 0; i < ROUNDS; i += 1) timesOf(100);
  return sizes.map((nodes) => {
    const rounds = Array.from({ length: ROUNDS }, () => timesOf(nodes));
    const leastOf = (which: 'firstMs' | 'changedMs' | 'nextMs'): number =>
      Math.min(...rounds.map((times) => times[which]));
    return { nodes, firstMs: leastOf('firstMs'), changedMs: leastOf('changedMs'), nextMs: leastOf('nextMs') };
  });
}

function timesOf(nodes: number): Omit<PlanningTimes, 'nodes'> {
  const { snapshot, change } = blockedFleet(nodes);
  const firstMs = planMs(snapshot);
  const nextMs = Math.min(...Array.from({ length: ROUNDS }, () => planMs(snapshot)));
  const startedAt = cpuMs();
  const budgets = change();
  const changeMs = cpuMs() - startedAt;
  return { firstMs, nextMs, changedMs: changeMs + planMs({ ...snapshot, budgets }) };
}

function planMs(snapshot: Snapshot): number {
  const startedAt = cpuMs();
  plan(snapshot, NOW);
  return cpuMs() - startedAt;
}

/** Of this process: unlike the time of day, it does not grow with the load of the machine. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

const QUIET = { warn: () => undefined };

/** `change`: one budget gets a new status; the result is what the next snapshot has. */
function blockedFleet(nodes: number): { snapshot: Snapshot; change: () => Snapshot['budgets'] } {
  const names = Array.from({ length: nodes }, (_, i) => `node-${i}`);
  const pods = names.map((name) => [name, podsOf(aNode({ name }), podsOn(name))] as const);
  const store = new Store<Budget>();
  const cache = new Budgets(store, QUIET);
  for (const name of names) store.set(budgetOf(name));
  const managedNodes = names.map((name) => aManagedNode(name));
  const change = (): Snapshot['budgets'] => {
    const budget = budgetOf('node-0');
    store.set({ ...budget, metadata: { ...budget.metadata, resourceVersion: '2' }, expectedPods: 4 });
    return cache.current();
  };
  return { snapshot: { ...aSnapshot(managedNodes), pods: new Map(pods), budgets: cache.current() }, change };
}

function budgetOf(node: string): Budget {
  return aBudget(`budget-${node}`, { selector: { matchLabels: { app: node } } });
}

function podsOn(node: string): DrainPod[] {
  return Array.from({ length: PODS }, (_, i) => {
    const pod = aPod(`${node}-${String(i).padStart(2, '0')}`);
    return { ...pod, node, metadata: { ...pod.metadata, labels: { app: node, ...SHARED_LABELS } } };
  });
}
