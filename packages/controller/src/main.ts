import { CONTROLLER } from '@brupop/shared/api/names';
import { createKubeClient } from '@brupop/shared/kube/client';
import { LeaderElection } from '@brupop/shared/kube/leader-election';
import { serveHealth } from '@brupop/shared/runtime/health';
import { createRegistry, metricsOf } from '@brupop/shared/runtime/metrics';
import { run, type RunContext } from '@brupop/shared/runtime/run';
import { Cluster } from './cluster/cluster.ts';
import { type ControllerConfig, readConfig } from './config.ts';
import { Controller } from './controller.ts';
import { createMetrics } from './metrics.ts';

// Tests import this module, and call `serve` themselves.
if (import.meta.main) run(CONTROLLER, (context) => serve(readConfig(context.env), context));

/** Runs until the signal aborts, and then resolves within some seconds. */
export async function serve(config: ControllerConfig, context: Omit<RunContext, 'env'>): Promise<void> {
  const { signal, log, clock } = context;
  const { namespace, identity, host, healthPort: port } = config;
  const client = await createKubeClient({ userAgent: CONTROLLER, clock, log, access: config.access });
  const election = new LeaderElection({ client, clock, log, namespace, name: CONTROLLER, identity });
  const isLeading = (): boolean => election.isLeading();
  const cluster = new Cluster({ ...config, client, clock, log });
  const registry = createRegistry(CONTROLLER);
  const metrics = createMetrics(registry, () => cluster.watchLags());
  const writes = { client: client.fenced(isLeading), isLeading };
  const controller = new Controller({ ...config, ...writes, clock, log, cluster, metrics });
  const live = (): string | undefined => controller.stalled();
  const ready = (): string | undefined => (cluster.synced ? undefined : 'the watch caches are not filled yet');
  const lead = async (): Promise<void> => {
    await cluster.waitSynced(signal);
    await election.run(signal, (leading) => controller.run(leading));
  };
  try {
    await serveHealth({ host, port, signal, live, ready, metrics: metricsOf(registry) });
    await Promise.all([cluster.run(signal), lead()]);
  } finally {
    await client.close();
  }
}
