/**
 * `make bench`: measures the cost of the operator. Six nodes with instant hosts, one at a time:
 * time per node and per state transition, requests to kube-apiserver at idle and per node update,
 * open watches, memory, and the cost of comparing pods. Before that, how long the controller plans for large fleets, and
 * how many functions one plan calls; after it, what the controller costs with 5,000 nodes (`fleet.ts`), and
 * `kubectl brupop` with 1,000 (`cli.ts`). Figures depend on the machine; ratios and counts less so.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { auditPosition, countRequests, openWatches, operatorRequests } from '../../test/framework/audit.ts';
import { nodeFlags } from '../../test/framework/chart.ts';
import { CONTROLLER } from '../../packages/shared/src/api/names.ts';
import { createNamespace } from '../../test/framework/control-plane/namespaces.ts';
import { type ControlPlane, startControlPlane } from '../../test/framework/control-plane/start.ts';
import { installCrds } from '../../test/framework/crds.ts';
import { Fleet, fleetNodes } from '../../test/framework/fleet/fleet.ts';
import { NEW, OLD } from '../../test/framework/fleet/with-fleet.ts';
import { createWorkloads } from '../../test/framework/fleet/workloads.ts';
import { measureCli } from './cli.ts';
import { measureFleet } from './fleet.ts';
import { bareNode, largest, type Memory } from './memory.ts';
import { planCosts } from './large-fleet.ts';
import { planningTimes } from './planning.ts';
import { Recorder } from './recorder.ts';
import { type Phase, phaseMs, PHASES, median, type Timeline } from './timeline.ts';

const NODES = 6;
const IDLE_MS = 60_000;
const SETTLE_MS = 5_000;
/** A watch that got nothing in its first 10 s lists once, for a bookmark: 7 of them do, which is not the idle operator. */
const IDLE_AFTER_MS = 30_000;
/** Ten renewals of the Lease, and checks of silent watches, as in test/chaos/updates/quiet.test.ts. */
const IDLE_LIMIT = 14;
/** For how long pods are compared after an update, and after which time no node is compared any more. */
const WATCH = { watchFor: '30s', ms: 45_000 } as const;
/** Figures of the Rust operator for the same work: six nodes, one at a time. */
const RUST = { secondsPerNode: 90, idlePerMinute: 3.4, perUpdate: 37, watches: 17 } as const;
/** MiB. */
const AGENT_LIMIT = { resident: 60, anonymous: 16 } as const;
const PLANNED_NODES = 1_000;
/**
 * Processor milliseconds. 20 to 23 were measured on a busy machine with two cores: after a change of one budget, all
 * 30,000 pods of its namespace are compared with the others.
 */
const PLAN_LIMIT_MS = 30;
/** For twice the nodes: 2 if the time is linear, 4 if it is quadratic. */
const PLAN_LIMIT_RATIO = 3;
const PROGRAMS = ['brupop-agent', 'brupop-apiserver', 'brupop-controller'] as const;

function print(line = ''): void {
  process.stdout.write(`${line}\n`);
}

/** The benchmark goes on, and ends with an error. */
function fail(problem: string): void {
  print(`PROBLEM: ${problem}`);
  process.exitCode = 1;
}

function phasesOf(timelines: readonly Timeline[], owner?: Phase['owner']): [string, number][] {
  return PHASES.filter((phase) => owner === undefined || phase.owner === owner).map((phase) => [
    `${phase.name} (${phase.owner})`,
    median(timelines.map((timeline) => phaseMs(timeline, phase) ?? Number.NaN)),
  ]);
}

const total = { from: 'specStaged', to: 'statusIdle' } as const;

function printTimes(timelines: readonly Timeline[]): void {
  const wholeMs = median(timelines.map((timeline) => phaseMs(timeline, total) ?? Number.NaN));
  const own = phasesOf(timelines, 'operator').reduce((sum, [, ms]) => sum + ms, 0);
  print(`\nTime of one node's update, median of ${timelines.length} (ms)`);
  for (const [name, ms] of phasesOf(timelines)) print(`  ${ms.toFixed(0).padStart(6)}  ${name}`);
  print(`  ${wholeMs.toFixed(0).padStart(6)}  in all; the operator's own share is ${own.toFixed(0)}`);
  print(
    `  the Rust operator: ${RUST.secondsPerNode} s, ${(RUST.secondsPerNode / (wholeMs / 1000)).toFixed(0)} times as long`,
  );
}

async function printMemory(title: string, fleet: Fleet, bare: Memory): Promise<void> {
  const line = (name: string, { resident, anonymous }: Memory): void =>
    print(`  ${resident.toFixed(1).padStart(6)} resident  ${anonymous.toFixed(1).padStart(6)} anonymous  ${name}`);
  print(`\nMemory ${title}, the largest process of each kind (MiB)`);
  line('Node.js that does nothing, with the flags of the agent', bare);
  for (const program of PROGRAMS) {
    const memory = await largest(fleet.kubelet.pids(program));
    line(program, memory);
    if (program === 'brupop-agent') checkAgent(memory);
  }
}

/** Fails the benchmark when an agent uses more memory than AGENT_LIMIT. */
function checkAgent({ resident, anonymous }: Memory): void {
  if (resident <= AGENT_LIMIT.resident && anonymous <= AGENT_LIMIT.anonymous) return;
  fail(`an agent may take ${AGENT_LIMIT.resident} MiB resident and ${AGENT_LIMIT.anonymous} anonymous`);
}

async function printRequests(
  title: string,
  cluster: ControlPlane,
  position: number,
  per: { unit: string; count: number },
  rust: number,
): Promise<number> {
  const requests = await operatorRequests(cluster.auditLogPath, 'brupop-bottlerocket-aws', position);
  const count = requests.length / per.count;
  print(`\nRequests to kube-apiserver ${title}: ${count.toFixed(1)} per ${per.unit} (the Rust operator: ${rust})`);
  for (const [what, times] of countRequests(requests))
    print(`  ${(times / per.count).toFixed(1).padStart(6)}  ${what}`);
  return count;
}

/** Fails the benchmark when a plan for PLANNED_NODES takes longer than PLAN_LIMIT_MS, or grows faster than the fleet. */
async function printLargeFleet(): Promise<void> {
  print('One plan after one of 5000 nodes has changed');
  for (const { fleet, nodes, medianMs, calls, times, goal } of await planCosts()) {
    print(
      `  ${medianMs.toFixed(1).padStart(6)}  ms of processor time; ${(calls / nodes).toFixed(0)} calls (goal ${goal}) and ` +
        `${(times / nodes).toFixed(1)} parsed times a node: ${fleet}`,
    );
    if (calls / nodes > goal)
      fail(`a plan makes ${(calls / nodes).toFixed(0)} calls a node, more than ${goal}: ${fleet}`);
  }
  print();
}

function printPlanning(): void {
  const [half, whole] = planningTimes([PLANNED_NODES / 2, PLANNED_NODES]);
  if (half === undefined || whole === undefined) throw new Error('expected the times of two fleets');
  print('Processor time of one plan while disruption budgets block every drain, 30 pods on each node (ms)');
  for (const { nodes, firstMs, changedMs, nextMs } of [half, whole])
    print(
      `  ${nextMs.toFixed(1).padStart(6)}  for ${nodes} nodes; ${changedMs.toFixed(1)} after one budget changed; ` +
        `${firstMs.toFixed(1)} when all pods are checked`,
    );
  const ratio = Math.max(whole.nextMs / half.nextMs, whole.changedMs / half.changedMs);
  print(`  ${ratio.toFixed(1).padStart(6)}  times as long for twice the nodes\n`);
  if (Math.max(whole.nextMs, whole.changedMs) > PLAN_LIMIT_MS)
    fail(`a plan for ${PLANNED_NODES} nodes may take ${PLAN_LIMIT_MS} ms`);
  if (ratio > PLAN_LIMIT_RATIO) fail(`a plan for twice the nodes may take ${PLAN_LIMIT_RATIO} times as long`);
}

async function measure(cluster: ControlPlane, fleet: Fleet): Promise<void> {
  const bare = await bareNode(nodeFlags('agent'));
  await installCrds(cluster);
  // Time in which a node is only watched is not the operator's own.
  await fleet.configure({});
  await fleet.operator.install({ 'agent.updateCheckIntervalSeconds': 60 });
  await fleet.untilAllRun(OLD);
  await sleep(IDLE_AFTER_MS);
  await printMemory('at idle', fleet, bare);
  const idleFrom = await auditPosition(cluster.auditLogPath);
  print(`\nLooking at ${IDLE_MS / 1000} s of idling…`);
  await sleep(IDLE_MS);
  const minutes = { unit: 'minute', count: IDLE_MS / 60_000 };
  const idle = await printRequests('at idle', cluster, idleFrom, minutes, RUST.idlePerMinute);
  if (idle > IDLE_LIMIT) fail(`an idle operator may send ${IDLE_LIMIT} requests a minute`);
  const recorder = new Recorder(fleet);
  const rolloutFrom = await auditPosition(cluster.auditLogPath);
  fleet.publish([OLD, NEW]);
  print('\nA new version is published; the fleet updates…');
  await fleet.untilAllRun(NEW, 300_000);
  await printMemory('right after the rollout', fleet, bare);
  printTimes(recorder.timelines());
  await printRequests('under way', cluster, rolloutFrom, { unit: 'node update', count: NODES }, RUST.perUpdate);
  await sleep(SETTLE_MS);
  const watches = await openWatches(cluster.auditLogPath, 'brupop-bottlerocket-aws');
  print(`\nOpen watches: ${watches.length} (the Rust operator: ${RUST.watches} for six nodes)`);
  for (const [what, times] of countRequests(watches)) print(`  ${String(times).padStart(6)}  ${what}`);
  await printObservation(cluster, fleet);
  for (const problem of fleet.problems()) print(`PROBLEM: ${problem}`);
}

/** Each node's pods are listed before its drain in any case. */
async function printObservation(cluster: ControlPlane, fleet: Fleet): Promise<void> {
  print('\nA node that is updated, with its pods compared before and after or not');
  const health = { pods: 'Ignored', podsBefore: 'Ignored' } as const;
  const rollouts = [
    { what: 'compared', version: '1.28.0', spec: { health: { watchFor: WATCH.watchFor } } },
    { what: 'ignored', version: '1.29.0', spec: { health } },
  ];
  for (const { what, version, spec } of rollouts) {
    await fleet.configure(spec);
    // Nodes of the rollout before are compared until then.
    await sleep(WATCH.ms);
    const recorder = new Recorder(fleet);
    const position = await auditPosition(cluster.auditLogPath);
    fleet.publish([OLD, NEW, version]);
    await fleet.untilAllRun(version, 300_000);
    const ms = median(recorder.timelines().map((timeline) => phaseMs(timeline, total) ?? Number.NaN));
    await sleep(WATCH.ms);
    const requests = await operatorRequests(cluster.auditLogPath, 'brupop-bottlerocket-aws', position);
    const lists = requests.filter(
      ({ user, verb, resource }) => user === CONTROLLER && verb === 'list' && resource === 'pods',
    );
    print(
      `  ${ms.toFixed(0).padStart(6)}  ms, ${(requests.length / NODES).toFixed(1)} requests, of which ` +
        `${(lists.length / NODES).toFixed(1)} list pods for the controller: ${what}`,
    );
  }
}

printPlanning();
await printLargeFleet();
print('Starting the control plane and six nodes with instant hosts…');
const cluster = await startControlPlane();
try {
  const fleet = await Fleet.start({ cluster, nodes: fleetNodes(NODES), version: OLD, repository: [OLD] });
  try {
    const namespace = await createNamespace(cluster, 'shop');
    await createWorkloads(cluster, { namespace, webReplicas: NODES, storeReplicas: 3 });
    await measure(cluster, fleet);
  } finally {
    await fleet.stop();
  }
} finally {
  await cluster.stop();
}
await measureFleet(print, fail);
await measureCli(print, fail);
