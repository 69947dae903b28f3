import type { V1PodList } from '@kubernetes/client-node';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { createNamespace } from '../control-plane/namespaces.ts';
import { type ControlPlane, startControlPlane } from '../control-plane/start.ts';
import { installCrds } from '../crds.ts';
import { eventually } from '../eventually.ts';
import { Fleet, type FleetOptions } from './fleet.ts';
import type { Values } from './operator.ts';
import { createWorkloads } from './workloads.ts';

export const OLD = '1.26.0';
export const NEW = '1.27.0';

export interface FleetContext {
  readonly cluster: ControlPlane;
  readonly fleet: Fleet;
  /** Namespace of the workloads. */
  readonly namespace: string;
}

export interface FleetTestOptions extends Pick<
  FleetOptions,
  'nodes' | 'durations' | 'maxUnavailable' | 'otherImages' | 'watchCalls'
> {
  readonly values?: Values;
  /** The BrupopConfig, created before the operator is installed; see {@link Fleet.configure}. */
  readonly config?: BrupopConfigSpec;
  /** The DaemonSets of the workloads count for the health of nodes. */
  readonly trustsWorkloads?: boolean;
  /** Called before the operator is installed. */
  readonly before?: (context: FleetContext) => Promise<void>;
  /** Installs the operator, and then `values` and `config` have no effect. */
  readonly install?: (context: FleetContext) => Promise<void>;
}

const LOG_TAIL = 3_000;

/**
 * Runs `body` on its own fleet and control plane, with workloads and the operator installed. Hosts
 * run OLD and offer NEW. At the end it throws if an invariant was violated or the operator left
 * something on a node. Errors include the logs of the operator's pods.
 */
export async function withFleet(
  options: FleetTestOptions,
  body: (context: FleetContext) => Promise<void>,
): Promise<void> {
  const cluster = await startControlPlane();
  try {
    const fleet = await Fleet.start({ cluster, version: OLD, repository: [OLD, NEW], ...options });
    try {
      const context = { cluster, fleet, namespace: await createNamespace(cluster, 'shop') };
      await explained(context, async () => await runOn(context, options, body));
    } finally {
      await fleet.stop();
    }
  } finally {
    await cluster.stop();
  }
}

/**
 * As {@link withFleet}, with one fleet for several tests, from the first of them to the last. Returns what runs the body of a
 * test on it. Each test publishes a version of its own, and ends when all nodes run it.
 */
export function oneFleet(options: FleetTestOptions): (body: (context: FleetContext) => Promise<void>) => Promise<void> {
  const started = Promise.withResolvers<FleetContext>();
  const finished = Promise.withResolvers<void>();
  let end = Promise.resolve();
  beforeAll(async () => {
    end = withFleet(options, async (context) => {
      started.resolve(context);
      await finished.promise;
    });
    await Promise.race([started.promise, end]);
  });
  afterAll(async () => {
    finished.resolve();
    await end;
  });
  return async (body) => {
    const context = await started.promise;
    await explained(context, async () => await body(context));
  };
}

/** Adds the state of the nodes and the logs of the operator's pods to an error of `run`. */
async function explained({ cluster, fleet }: FleetContext, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    const circumstances = await report(cluster, fleet).catch((other: unknown) => `no report: ${String(other)}`);
    throw new Error(`${String(error)}\n${circumstances}`, { cause: error });
  }
}

async function runOn(
  context: FleetContext,
  { nodes, values = {}, config = {}, trustsWorkloads = false, before, install }: FleetTestOptions,
  body: (context: FleetContext) => Promise<void>,
): Promise<void> {
  const { cluster, fleet, namespace } = context;
  await createWorkloads(cluster, { namespace, webReplicas: nodes.length, storeReplicas: 2 });
  await before?.(context);
  if (install === undefined) {
    await installCrds(cluster);
    const health = { ...config.health, trustedNamespaces: [namespace] };
    await fleet.configure(trustsWorkloads ? { ...config, health } : config);
    await fleet.operator.install({ 'agent.updateCheckIntervalSeconds': 60, ...values });
  } else await install(context);
  await body(context);
  await eventually(
    () => {
      const problems = fleet.problems();
      if (problems.length > 0) throw new Error(`the fleet has problems: ${problems.join('; ')}`);
    },
    { limitMs: 5_000 },
  );
}

async function report(cluster: ControlPlane, fleet: Fleet): Promise<string> {
  const { items } = await cluster.api.get<V1PodList>(`/api/v1/namespaces/${fleet.operator.namespace}/pods`);
  const names = items.map(({ metadata }) => metadata?.name ?? '');
  const logs = await Promise.all(
    names.map(async (name) => `== ${name}\n${(await fleet.kubelet.logs(name)).slice(-LOG_TAIL)}`),
  );
  const nodes = [...fleet.nodes.keys()].map((name) => `${name}: ${fleet.describe(name)}`);
  return [...nodes, ...fleet.problems(), ...logs].join('\n');
}
