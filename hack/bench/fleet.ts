/**
 * What the leading controller costs with 5,000 nodes: its own process with the flags of the chart, on a real kube-apiserver.
 * The benchmark plays kubelets and agents, which answer each spec at once; drains evict nothing. `node hack/bench/fleet.ts`
 * runs it alone, after `make build`.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BrupopConfigSpec } from '../../packages/shared/src/api/config-spec.ts';
import type { BottlerocketShadow } from '../../packages/shared/src/api/shadow.ts';
import { createKubeClient } from '../../packages/shared/src/kube/client.ts';
import { Reflector } from '../../packages/shared/src/kube/reflector.ts';
import { systemClock } from '../../packages/shared/src/runtime/clock.ts';
import { type AuditedRequest, auditPosition, countRequests, operatorRequests } from '../../test/framework/audit.ts';
import { releaseNamespace } from '../../test/framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../test/framework/control-plane/start.ts';
import { answer, isAnswered, newVersion as NEW, report, shadowsPath } from '../../test/framework/controller/agents.ts';
import { configure, HEALTHY_AT_ONCE } from '../../test/framework/controller/configuration.ts';
import { installForController } from '../../test/framework/controller/installation.ts';
import { type ControllerProcess, spawnController } from '../../test/framework/controller/process.ts';
import { recordingLogger } from '../../test/framework/recording-logger.ts';
import { startWatchdog } from '../../test/framework/watchdog.ts';
import { createNodes, nameOf, setReady } from './fleet-nodes.ts';
import { memoryOf } from './memory.ts';
import { median } from './timeline.ts';

const NODES = Number(process.env['NODES'] ?? 5_000);
/** MiB of anonymous memory. */
const GOALS = { atRest: 130, inRollout: 170 } as const;
const WRITES_GOAL = 3;
const ROLLOUT_MS = 90_000;
const QUIET_MS = 4_000;
/** V8 gives memory back some time after the last work. */
const REST_MS = 20_000;
const SAMPLE_MS = 500;
/** Nobody renews the Leases. */
const LEASES_LAST = { connectivity: { nodeMonitorGracePeriod: '1h' } } as const;
const SPEC: BrupopConfigSpec = { ...LEASES_LAST, ...HEALTHY_AT_ONCE, concurrency: { maxUpdating: '10%' } };
const PINNED: BrupopConfigSpec = { ...SPEC, versions: { pin: NEW } };

type Print = (line: string) => void;

interface Bench {
  readonly cluster: ControlPlane;
  readonly leader: ControllerProcess;
  readonly shadows: Reflector<BottlerocketShadow>;
  readonly line: (value: number, text: string, digits?: number) => void;
  /** Called with what misses its goal. */
  readonly fail: Print;
}

export async function measureFleet(print: Print, fail: Print): Promise<void> {
  print(`\nOne controller and ${NODES} nodes and shadows, with kubelets and agents that the benchmark plays`);
  const line: Bench['line'] = (value, text, digits = 0) => print(`  ${value.toFixed(digits).padStart(6)}  ${text}`);
  const cluster = await startControlPlane({ renewsLeases: false });
  const watchdog = startWatchdog(mkdtempSync(join(tmpdir(), 'brupop-fleet-')));
  const account = await installForController(cluster);
  // They would take processor time, and find that nobody renews the Leases.
  for (const part of ['controllerManager', 'scheduler', 'kwok'] as const) await cluster.components[part].stop();
  try {
    await configure(cluster, SPEC);
    await createNodes(cluster, NODES);
    const { shadows, stop } = await playAgents(cluster);
    const leader = await spawnController(watchdog, cluster.url, account);
    const bench = { cluster, leader, shadows, line, fail };
    await measureRest(bench);
    await measurePin(bench);
    await measureRollout(bench);
    await leader.kill();
    await stop();
  } finally {
    await watchdog.release();
    await cluster.stop();
  }
}

/** Returns all shadows as they are, and plays their agents. */
async function playAgents(cluster: ControlPlane): Promise<{ shadows: Bench['shadows']; stop: () => Promise<void> }> {
  const common = { clock: systemClock, log: recordingLogger().log };
  const access = cluster.accessAs('stand-in-kubelet');
  const client = await createKubeClient({ userAgent: 'stand-in-agents', access, ...common });
  const shadows = new Reflector({
    client,
    ...common,
    name: 'shadows',
    path: shadowsPath,
    slim: (raw) => raw as BottlerocketShadow,
  });
  /** By UID, the latest generation that was answered: a condition may be written before the watch shows the answer. */
  const answered = new Map<string, number>();
  const failures: unknown[] = [];
  shadows.subscribe(({ object }) => {
    const { uid, generation = 0 } = object.metadata;
    if (answered.get(uid) === generation) return;
    answered.set(uid, generation);
    answer(cluster, object).catch((error: unknown) => failures.push(error));
  });
  const end = new AbortController();
  const running = shadows.run(end.signal);
  await shadows.waitSynced(end.signal);
  const stop = async (): Promise<void> => {
    end.abort();
    await running;
    await client.close();
    if (failures.length > 0) throw new Error(`${failures.length} reports of agents failed`, { cause: failures[0] });
  };
  return { shadows, stop };
}

async function measureRest(bench: Bench): Promise<void> {
  const { cluster, leader, shadows, line, fail } = bench;
  await until(() => shadows.list().every(({ status }) => status?.conditions !== undefined));
  await untilQuiet(bench);
  await sleep(REST_MS);
  const { anonymous, resident } = await memoryOf(leader.pid);
  line(anonymous, `MiB anonymous at rest (goal ${GOALS.atRest}), ${resident.toFixed(0)} resident`);
  if (anonymous > GOALS.atRest) fail(`the leader of ${NODES} nodes at rest may have ${GOALS.atRest} MiB anonymous`);
  const changed = nameOf(0);
  await countWrites(bench, 'a Node turns NotReady', () => setReady(cluster, changed, false));
  await countWrites(bench, 'the Node is Ready again', () => setReady(cluster, changed, true));
  await configure(cluster, { ...SPEC, paused: true });
  await untilQuiet(bench);
  const offer = () => report(cluster, changed, { target_version: NEW });
  await countWrites(bench, 'an agent reports a new version during a pause', offer);
}

async function measurePin({ cluster, shadows, line }: Bench): Promise<void> {
  const startedAt = Date.now();
  await configure(cluster, { ...PINNED, paused: true });
  await until(() =>
    shadows.list().every(({ spec }) => spec.settings?.leaves.some(({ value }) => value === `"${NEW}"`)),
  );
  line((Date.now() - startedAt) / 1_000, 's until all specs have a new pin', 1);
  await until(() => shadows.list().every((shadow) => isAnswered(shadow) && shadow.status?.target_version === NEW));
}

async function measureRollout(bench: Bench): Promise<void> {
  const { cluster, leader, shadows, line, fail } = bench;
  await untilQuiet(bench);
  const [before, position, startedAt] = [await leader.metrics(), await auditPosition(cluster.auditLogPath), Date.now()];
  await configure(cluster, PINNED);
  const updated = (): number => shadows.list().filter(({ status }) => status?.current_version === NEW).length;
  const samples: { readonly slots: number; readonly anonymous: number }[] = [];
  // The last nodes leave slots free.
  while (Date.now() - startedAt < ROLLOUT_MS && updated() < 0.9 * NODES) {
    await sleep(SAMPLE_MS);
    const slots = shadows.list().filter((one) => one.spec.state !== 'Idle' || !isAnswered(one)).length;
    samples.push({ slots, anonymous: (await memoryOf(leader.pid)).anonymous });
  }
  const [count, after, ms] = [updated(), await leader.metrics(), Date.now() - startedAt];
  const peak = Math.max(...samples.map(({ anonymous }) => anonymous));
  line(peak, `MiB anonymous at most in a rollout (goal ${GOALS.inRollout})`);
  if (peak > GOALS.inRollout)
    fail(`the leader of ${NODES} nodes in a rollout may have ${GOALS.inRollout} MiB anonymous`);
  line((60_000 * count) / ms, `nodes a minute: ${count} in ${(ms / 1_000).toFixed(0)} s`);
  line(median(samples.map(({ slots }) => slots)), `slots in use of ${NODES / 10} (median)`);
  const cpu = 'process_cpu_seconds_total ';
  line(
    (1_000 * (valueIn(after, cpu) - valueIn(before, cpu))) / count,
    'ms of processor time of the controller per node',
    1,
  );
  printRequests(bench, await requestsSince(bench, position), count);
  for (const name of ['brupop_controller_reconcile_duration_seconds', 'brupop_plan_duration_seconds'])
    for (const q of [0.5, 0.95]) line(1_000 * quantile(q, name, before, after), `ms ${name}, p${100 * q}`);
}

function printRequests({ line }: Bench, requests: readonly AuditedRequest[], count: number): void {
  line(requests.length / count, 'requests of the controller per node', 1);
  for (const [what, times] of countRequests(requests)) line(times / count, `  ${what}`, 1);
}

/** What the operator writes because of a change, but for the renewal of its Lease. */
async function countWrites(bench: Bench, what: string, change: () => Promise<void>): Promise<void> {
  const position = await auditPosition(bench.cluster.auditLogPath);
  await change();
  await untilQuiet(bench);
  const { length } = (await requestsSince(bench, position)).filter(isWrite);
  bench.line(length, `writes when ${what} (goal ${WRITES_GOAL})`);
  if (length > WRITES_GOAL) bench.fail(`one changed node may cause ${WRITES_GOAL} writes: ${what}`);
}

async function requestsSince({ cluster }: Bench, position: number): Promise<AuditedRequest[]> {
  return await operatorRequests(cluster.auditLogPath, releaseNamespace, position);
}

function isWrite({ verb, resource }: AuditedRequest): boolean {
  return !['get', 'list', 'watch'].includes(verb) && resource !== 'leases';
}

/** Until the operator has written nothing for a while. */
async function untilQuiet(bench: Bench): Promise<void> {
  let writes: AuditedRequest[];
  do {
    const position = await auditPosition(bench.cluster.auditLogPath);
    await sleep(QUIET_MS);
    writes = (await requestsSince(bench, position)).filter(isWrite);
  } while (writes.length > 0);
}

async function until(isDone: () => boolean): Promise<void> {
  const deadline = Date.now() + 600_000;
  while (!isDone()) {
    if (Date.now() > deadline) throw new Error(`expected within 600 s: ${isDone.toString()}`);
    await sleep(100);
  }
}

/** @param series - the start of a line, up to its value */
function valueIn(metrics: string, series: string): number {
  const line = metrics.split('\n').find((one) => one.startsWith(series)) ?? '';
  return Number(line.slice(series.length));
}

/** Of what a histogram counted in between, as Prometheus computes it: evenly spread within each bucket. */
function quantile(q: number, name: string, before: string, after: string): number {
  const bounds = [...after.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\} `, 'gmu'))];
  const buckets = bounds.map(([series, le]) => ({
    le: Number(le),
    count: valueIn(after, series) - valueIn(before, series),
  }));
  const rank = q * (buckets.at(-1)?.count ?? 0);
  const at = buckets.findIndex(({ count }) => count >= rank);
  const { le: from, count: below } = buckets[at - 1] ?? { le: 0, count: 0 };
  const { le: to, count } = buckets[at] ?? { le: Number.NaN, count: 0 };
  // The last bucket has no upper bound.
  return Number.isNaN(to) ? from : from + ((to - from) * (rank - below)) / (count - below);
}

function writeLine(line: string): void {
  process.stdout.write(`${line}\n`);
}

if (import.meta.main)
  await measureFleet(writeLine, (problem) => {
    writeLine(`PROBLEM: ${problem}`);
    process.exitCode = 1;
  });
