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

/** One replica: caches always, the loop while it leads. Resolves after a clean stop. */
export async function serve(config: ControllerConfig, context: Omit<RunContext, 'env'>): Promise<void> {
  const { signal, log, clock } = context;
  const { namespace, identity } = config;
  const registry = createRegistry(CONTROLLER);
  const client = await createKubeClient({ userAgent: CONTROLLER, clock, log, access: config.access });
  const cluster = new Cluster({ client, clock, log, ...config });
  const metrics = createMetrics(registry, () => cluster.watchLags());
  const election = new LeaderElection({ client, clock, log, namespace, name: CONTROLLER, identity });
  const isLeading = (): boolean => election.isLeading();
  const controller = new Controller({
    ...config,
    client: client.fenced(isLeading),
    clock,
    log,
    cluster,
    metrics,
    isLeading,
  });
  await serveHealth({
    host: config.healthHost,
    port: config.healthPort,
    live: () => controller.stalled(),
    ready: () => (cluster.synced ? undefined : 'the watch caches are not filled yet'),
    metrics: metricsOf(registry),
    signal,
  });
  try {
    const stand = async (): Promise<void> => {
      await cluster.waitSynced(signal);
      await election.run(signal, (leading) => controller.run(leading));
    };
    await Promise.all([cluster.run(signal), stand()]);
  } finally {
    await client.close();
  }
}
