/**
 * `make demo`: shows a rollout on a real control plane with six nodes with stand-in hosts,
 * workloads and the chart.
 * Options: `--keep` leaves everything running at the end, and each Enter publishes the next version; `--nodes N` makes
 * the fleet larger; `--dashboards` adds a real Prometheus and the dashboards, and goes on with what may go wrong;
 * `--pictures FOLDER` takes pictures of them at the end.
 */
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { createNamespace } from '../../test/framework/control-plane/namespaces.ts';
import { type ControlPlane, startControlPlane } from '../../test/framework/control-plane/start.ts';
import { installCrds } from '../../test/framework/crds.ts';
import { Fleet, fleetNodes } from '../../test/framework/fleet/fleet.ts';
import { incidents } from '../../test/framework/fleet/incidents.ts';
import type { FleetContext } from '../../test/framework/fleet/with-fleet.ts';
import { createWorkloads } from '../../test/framework/fleet/workloads.ts';
import { FleetPrometheus, obtainPrometheus } from '../../test/framework/monitoring/fleet-prometheus.ts';
import { servePage } from '../dashboards/page.ts';
import { takePictures } from '../dashboards/pictures.ts';
import { Rollout } from './rollout.ts';
import type { Row } from './rows.ts';
import { openScreen } from './screen.ts';
import { summarize } from './summary.ts';
import { renderProgress } from './view.ts';

const NAMESPACE = 'brupop-bottlerocket-aws';
const OLD = '1.26.0';
const NEW = '1.27.0';
const DURATIONS = { refreshMs: 200, prepareMs: 1_200, activateMs: 200, shutdownMs: 200, bootMs: 1_000 };
const STORE_REPLICAS = 3;
const REDRAW_MS = 250;
const INCIDENT_MS = 40_000;
/** A user may pause the fleet meanwhile. */
const KEPT_LIMIT_MS = 24 * 3_600_000;
const CLEAN_UP_LIMIT_MS = 15_000;
/** Exit code of a program that was ended with Ctrl-C. */
const INTERRUPTED = 130;

const USAGE = 'usage: npm run demo -- [--nodes N (2 to 200, default 6)] [--keep] [--dashboards] [--pictures FOLDER]';

interface DemoOptions {
  readonly keep: boolean;
  readonly size: number;
  readonly dashboards: boolean;
  readonly pictures: string | undefined;
}

/** Parses the command line. Throws for an unknown or invalid option. */
function readOptions(): DemoOptions {
  const options = {
    keep: { type: 'boolean', default: false },
    nodes: { type: 'string', default: '6' },
    dashboards: { type: 'boolean', default: false },
    pictures: { type: 'string' },
  } as const;
  const { keep, nodes, dashboards, pictures } = parseArgs({ options }).values;
  const size = Number(nodes);
  if (Number.isInteger(size) && size >= 2 && size <= 200)
    return { keep: keep || (dashboards && pictures === undefined), size, dashboards, pictures };
  throw new Error(`--nodes: expected a number from 2 to 200, found ${nodes}`);
}

function optionsOrUsage(): DemoOptions {
  try {
    return readOptions();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}\n`);
    return process.exit(2);
  }
}

const { keep, size, dashboards, pictures } = optionsOrUsage();
const screen = openScreen(process.stdout);
/** Cleanup functions, called in reverse order. */
const started: (() => Promise<void>)[] = [];
let cleaning: Promise<void> | undefined;

/** Runs the cleanup functions once, also when called again. */
async function cleanUp(): Promise<void> {
  cleaning ??= undo();
  await cleaning;
}

async function undo(): Promise<void> {
  screen.end();
  if (started.length > 0) process.stdout.write('Stopping everything and removing the temporary folders…\n');
  for (const stop of started.toReversed()) await stop();
}

/** After this limit the process exits, and the watchdogs end all children. */
function stopOn(signal: NodeJS.Signals): void {
  process.once(signal, () => {
    process.exitCode = INTERRUPTED;
    setTimeout(() => process.exit(), CLEAN_UP_LIMIT_MS).unref();
    void cleanUp().finally(() => process.exit());
  });
}

async function start(): Promise<{ cluster: ControlPlane; fleet: Fleet; namespace: string }> {
  screen.say(`Bottlerocket update operator: ${size} nodes in three zones go from ${OLD} to ${NEW}.`);
  screen.say('Starting a control plane on loopback; the first time, this may take minutes…');
  const cluster = await startControlPlane();
  started.push(async () => await cluster.stop());
  screen.say(`To look at it in another terminal${keep ? '' : ', until the demonstration ends'}:`);
  screen.say(`  export KUBECONFIG='${cluster.kubeconfigPath}'`);
  screen.say(`  alias kubectl='${cluster.assets.kubectl}'`);
  screen.say(`  kubectl get brs -n ${NAMESPACE}`);
  screen.say(`  kubectl logs -n ${NAMESPACE} deployment/brupop-controller`);
  screen.say(`  kubectl logs -n ${NAMESPACE} daemonset/brupop-agent`);
  screen.say(`or, after npm run build-cli: ${process.execPath} dist/kubectl-brupop status --watch`);
  const fleet = await Fleet.start({
    cluster,
    nodes: fleetNodes(size),
    version: OLD,
    repository: [OLD, NEW],
    durations: DURATIONS,
  });
  started.push(async () => await fleet.stop());
  const namespace = await createNamespace(cluster, 'shop');
  screen.say('Starting a Deployment with a disruption budget, a StatefulSet and a DaemonSet…');
  await createWorkloads(cluster, { namespace, webReplicas: size, storeReplicas: STORE_REPLICAS, storeVolumes: true });
  return { cluster, fleet, namespace };
}

function plainOf({ node, zone, version, state, waitsFor }: Row): string {
  return `${node} ${zone} ${version} ${state} ${waitsFor}`.trimEnd();
}

function show(rollout: Rollout): () => void {
  const known = new Map<string, string>();
  const draw = (): void => {
    const rows = rollout.rows();
    const { width, height, colors } = screen;
    const lines = renderProgress({ rows, elapsedMs: rollout.elapsedMs, width, height, colors });
    const changed = rows.filter((row) => known.get(row.node) !== plainOf(row));
    for (const row of changed) known.set(row.node, plainOf(row));
    screen.draw(lines, changed.map(plainOf));
  };
  const timer = setInterval(() => cleaning === undefined && draw(), REDRAW_MS);
  const stop = (): void => {
    clearInterval(timer);
    if (cleaning === undefined) draw();
  };
  return stop;
}

async function main(): Promise<void> {
  if (dashboards) {
    screen.say('Getting Prometheus; the first time, this takes minutes…');
    await obtainPrometheus();
  }
  const { cluster, fleet, namespace } = await start();
  await installCrds(cluster);
  screen.say('Creating a BrupopConfig with monitoring.healthyFor 0s, to be faster…');
  await fleet.configure({});
  screen.say('helm install: two controllers, three API servers, an agent per node…');
  await fleet.operator.install({ 'agent.updateCheckIntervalSeconds': 60, 'tls.mode': 'self' });
  const page = dashboards ? await startDashboards(fleet) : undefined;
  screen.say('');
  const rollout = new Rollout(fleet, NEW);
  const stopShowing = show(rollout);
  await fleet.untilAllRun(NEW, size * 60_000).finally(stopShowing);
  const ready = (name: string): number => fleet.observer.leastReady.get(`${namespace}/${name}`) ?? 0;
  const workloads = [
    { name: 'Deployment web', least: ready('web'), of: size },
    { name: 'StatefulSet store', least: ready('store'), of: STORE_REPLICAS },
  ];
  const { mostUnavailable } = fleet.observer;
  const violations = fleet.problems();
  screen.end();
  process.stdout.write(`\n${summarize({ rollout, nodes: size, workloads, mostUnavailable, violations }).join('\n')}\n`);
  if (violations.length > 0) process.exitCode = 1;
  if (page !== undefined) await showIncidents({ cluster, fleet, namespace }, page);
  if (keep) await untilInterrupted(fleet);
}

async function startDashboards(fleet: Fleet): Promise<string> {
  screen.say('Starting Prometheus on loopback…');
  const prometheus = await FleetPrometheus.start(fleet);
  started.push(async () => await prometheus.stop());
  const page = await servePage(prometheus.url);
  started.push(async () => await page.stop());
  screen.say(`The dashboards: ${page.url}/ (light: ${page.url}/?theme=light)`);
  screen.say(`Prometheus: ${prometheus.url}/`);
  return page.url;
}

/** The hosts of the demonstration may fail, and nodes are then unavailable. */
async function showIncidents(context: FleetContext, page: string): Promise<void> {
  const startedAt = Date.now() - INCIDENT_MS;
  context.fleet.observer.hostsFail = true;
  await incidents(context, { forMs: INCIDENT_MS, config: {}, say: (line) => void process.stdout.write(`${line}\n`) });
  if (pictures === undefined) return;
  const minutes = Math.ceil((Date.now() - startedAt) / 60_000) + 1;
  await takePictures(page, pictures, minutes);
  process.stdout.write(`Pictures: ${pictures}\n`);
}

/** Each line of the input, which may be empty, publishes the next version. The end of the input ends nothing. */
async function untilInterrupted(fleet: Fleet): Promise<void> {
  const offer = 'Everything keeps running. Enter publishes the next version; Ctrl-C ends it.\n';
  process.stdout.write(offer);
  for await (const _ of createInterface({ input: process.stdin })) {
    const next = fleet.publishNext();
    process.stdout.write(`Published ${next}; agents look for updates once a minute.\n`);
    const stopShowing = show(new Rollout(fleet, next));
    await fleet.untilAllRun(next, KEPT_LIMIT_MS).finally(stopShowing);
    screen.end();
    process.stdout.write(`All nodes run ${next}.\n${offer}`);
  }
  const forever = Promise.withResolvers<void>();
  setInterval(() => undefined, 60_000);
  await forever.promise;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) stopOn(signal);
try {
  await main();
} catch (error) {
  // Errors after the start of the cleanup are caused by it.
  if (cleaning === undefined) {
    process.exitCode = 1;
    screen.say(`The demonstration failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}
await cleanUp();
process.exit();
