/**
 * What one plan for a large fleet costs when one node has changed: processor time, and how many functions of the operator it
 * calls. Calls do not depend on the machine.
 */
import { Session } from 'node:inspector/promises';
import type { ManagedNode, Snapshot } from '../../packages/controller/src/cluster/snapshot.ts';
import { KeptFacts, wholePlan as plan } from '../../packages/controller/src/whole-plan.ts';
import { aManagedNode, aSnapshot, NOW, OLD, underWay } from '../../packages/controller/src/testing/objects.ts';

const ROUNDS = 15;
/** The largest cluster that Kubernetes supports. */
const NODES = 5_000;

export interface PlanCost {
  readonly fleet: string;
  readonly nodes: number;
  /** Processor milliseconds, of the middle one of several plans. */
  readonly medianMs: number;
  readonly calls: number;
  /** Texts that were parsed as times. */
  readonly times: number;
  /** Calls a node that are acceptable: at rest, what has not changed is only compared. */
  readonly goal: number;
}

const STAGING = { spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'Idle' } } as const;

type Change = (node: ManagedNode) => ManagedNode;

const changed: Change = ({ name }) => aManagedNode(name, { ready: false });

/** Of a fleet at rest, and of one in which a tenth stages an update and the others wait. */
export async function planCosts(): Promise<PlanCost[]> {
  const names = Array.from({ length: NODES }, (_, i) => `node-${i}`);
  const atRest = names.map((name) => aManagedNode(name, {}, { status: { target_version: OLD } }));
  const rolling = names.map((name, i) => (i % 10 === 0 ? aManagedNode(name, {}, STAGING) : aManagedNode(name)));
  return [
    { ...(await costOf('at rest', atRest, changed)), goal: 10 },
    { ...(await costOf('a tenth stages an update', rolling, changed)), goal: 250 },
  ];
}

const isStaging = ({ shadow }: ManagedNode): boolean => shadow?.spec.state === 'StagedAndPerformedUpdate';

async function costOf(fleet: string, before: readonly ManagedNode[], change: Change): Promise<Omit<PlanCost, 'goal'>> {
  const spec = { concurrency: { maxUpdating: '10%' } };
  const { managedNodes } = aSnapshot(before, spec);
  const snapshot = (round: number): Snapshot => {
    const nodes = managedNodes.map((node, i) => (i === round ? change(node) : node));
    const made = aSnapshot(nodes, spec);
    // Pods are listed for nodes that are about to be drained only.
    const names = new Set(nodes.filter(isStaging).map(({ name }) => name));
    return { ...made, pods: new Map([...made.pods].filter(([name]) => names.has(name))) };
  };
  const kept = new KeptFacts();
  const times = Array.from({ length: ROUNDS }, (_, round) => cpuMsOf(snapshot(round), kept)).toSorted((a, b) => a - b);
  const counted = await countCalls(snapshot(ROUNDS), kept);
  return { fleet, nodes: before.length, medianMs: times[Math.floor(ROUNDS / 2)] ?? 0, ...counted };
}

function cpuMsOf(snapshot: Snapshot, kept: KeptFacts): number {
  const startedAt = process.cpuUsage();
  plan(snapshot, NOW, kept);
  const { user, system } = process.cpuUsage(startedAt);
  return (user + system) / 1_000;
}

/** Calls of functions of the packages, which V8 counts. */
async function countCalls(snapshot: Snapshot, kept: KeptFacts): Promise<Pick<PlanCost, 'calls' | 'times'>> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  plan(snapshot, NOW, kept);
  const { result } = await session.post('Profiler.takePreciseCoverage');
  await session.post('Profiler.stopPreciseCoverage');
  session.disconnect();
  const own = result.filter(({ url }) => /\/packages\/(?:controller|shared)\/src\/(?!testing)/u.test(url));
  const functions = own.flatMap((script) => script.functions);
  const count = (of: typeof functions): number => of.reduce((sum, { ranges: [range] }) => sum + (range?.count ?? 0), 0);
  return {
    calls: count(functions),
    times: count(functions.filter(({ functionName }) => functionName === 'parseTime')),
  };
}
