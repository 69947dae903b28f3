import { CONTROLLER, PAUSED_ANNOTATION } from '@brupop/shared/api/names';
import { createKubeClient, type KubeClient } from '@brupop/shared/kube/client';
import { Events } from '@brupop/shared/kube/events';
import { LeaderElection } from '@brupop/shared/kube/leader-election';
import { serveHealth } from '@brupop/shared/runtime/health';
import { createRegistry, metricsOf } from '@brupop/shared/runtime/metrics';
import { run, type RunContext } from '@brupop/shared/runtime/run';
import { CertificateIssuer } from './certificates/issuer.ts';
import { CertificateStore } from './certificates/store.ts';
import { CheckLookups } from './cluster/checks.ts';
import { Cluster } from './cluster/cluster.ts';
import { type ControllerConfig, readConfig } from './config.ts';
import { Controller } from './controller.ts';
import { createMetrics, type Metrics, type Planned } from './metrics.ts';
import { Notifier } from './notify/notifier.ts';
import { Silencer } from './silences/silencer.ts';
import type { BesideReports } from './report/config-status.ts';
import { Dependents } from './upkeep/dependents/dependents.ts';
import { restoreDependents } from './upkeep/dependents/restore.ts';
import { Recovery } from './upkeep/recovery/recovery.ts';

// Tests import this module, and call `serve` themselves.
if (import.meta.main)
  run(CONTROLLER, async (context) => {
    const config = readConfig(context.env);
    await (config.restoresDependents ? restore(config, context) : serve(config, context));
  });

/** Runs until the signal aborts, and then resolves within some seconds. */
export async function serve(config: ControllerConfig, context: Omit<RunContext, 'env'>): Promise<void> {
  const { signal, log, clock } = context;
  const { namespace, identity, host, healthPort: port } = config;
  const client = await createKubeClient({ userAgent: CONTROLLER, clock, log, access: config.access });
  const annotations = (): Readonly<Record<string, string>> => cluster.pause;
  const election = new LeaderElection({ client, clock, log, namespace, name: CONTROLLER, identity, annotations });
  const pausedBefore = (): string | undefined => election.annotations[PAUSED_ANNOTATION];
  const ledBefore = (): number | undefined => election.renewedBefore;
  const isLeading = (): boolean => election.isLeading();
  const count = (labels: { check: string; phase: string; result: string }): void => metrics.checks.inc(labels);
  const checks = new CheckLookups({ client, clock, log, config: config.checks, count });
  const onWatchRestart = (resource: string): void => metrics.watchRestarts.inc({ resource });
  const cluster = new Cluster({ ...config, client, clock, log, checks, onWatchRestart, pausedBefore, ledBefore });
  const registry = createRegistry(CONTROLLER, () => client.clockSkewMs());
  const pendingWrites = (): ReadonlyMap<string, number> => controller.pendingWrites();
  const planned = (): Planned | undefined => controller.planned;
  const metrics = createMetrics(registry, { watchLags: () => cluster.watchLags(), pendingWrites, planned });
  const writes = { client: client.fenced(isLeading), isLeading };
  const onReport = (): void => controller.wake();
  const issuer = createIssuer(config, { ...writes, clock, log, metrics, onReport });
  const common = { ...writes, clock, log, metrics, onReport };
  const dependents = createDependents(config, { ...common, cluster });
  const events = createEvents(config.podName, common);
  const recovery = new Recovery({ ...config, ...common, upkeep: cluster.upkeep, events });
  const servers = { ...config, ...common, secrets: config.notificationSecrets };
  const notifier = new Notifier(servers);
  const silencer = new Silencer(servers);
  const besides = { dependents, recovery, notifier, silencer };
  const reports = (): BesideReports => reportsOf(issuer, besides);
  const observers = { notifier, silencer };
  const controller = new Controller({ ...config, ...writes, clock, log, cluster, metrics, reports, ...observers });
  const live = (): string | undefined => controller.stalled();
  const ready = (): string | undefined => (cluster.synced ? undefined : 'the watch caches are not filled yet');
  const lead = async (): Promise<void> => {
    await cluster.waitSynced(signal);
    await election.run(signal, async (leading) => {
      const all = [controller, issuer, ...Object.values(besides)];
      await Promise.all(all.map(async (one) => await one?.run(leading)));
    });
  };
  try {
    await serveHealth({ host, port, signal, live, ready, metrics: metricsOf(registry) });
    await Promise.all([cluster.run(signal), lead()]);
    // The Lease is released by now.
    await recovery.settled();
  } finally {
    await client.close();
  }
}

interface Besides {
  readonly dependents: Dependents;
  readonly recovery: Recovery;
  readonly notifier: Notifier;
  readonly silencer: Silencer;
}

/** What works beside the plan says in the status how it is. */
function reportsOf(issuer: CertificateIssuer | undefined, besides: Besides): BesideReports {
  return {
    certificate: issuer && (issuer.report ?? 'unknown'),
    dependents: besides.dependents.report,
    recovery: besides.recovery.report,
    notifications: besides.notifier.report,
    silences: besides.silencer.report,
  };
}

/** The Job that runs before the operator is uninstalled. */
export async function restore(
  config: ControllerConfig,
  { signal, log, clock }: Omit<RunContext, 'env'>,
): Promise<void> {
  const { access, dependents: targets } = config;
  const client = await createKubeClient({ userAgent: CONTROLLER, clock, log, access });
  try {
    await restoreDependents({ ...config, client, clock, log, targets }, signal);
  } finally {
    await client.close();
  }
}

interface Parts extends Omit<RunContext, 'env' | 'signal'> {
  readonly client: KubeClient;
  readonly metrics: Metrics;
  readonly onReport: () => void;
}

/** Undefined if users provide the certificate. */
function createIssuer(config: ControllerConfig, parts: Parts): CertificateIssuer | undefined {
  const { tlsMode: mode, tlsSecret: secretName, caConfigMap: configMapName } = config;
  const { namespace, agentNamespace, podName, nodeName } = config;
  if (mode === 'provided') return undefined;
  const { client } = parts;
  const names = { namespace, agentNamespace, secretName, configMapName };
  const store = new CertificateStore({ ...names, client, hasAuthorities: mode === 'self' });
  const events = createEvents(podName, parts);
  const clockSkewMs = (): number | undefined => client.clockSkewMs();
  return new CertificateIssuer({ ...parts, mode, namespace, nodeName, store, events, clockSkewMs });
}

function createDependents(
  { dependents: targets, podName }: ControllerConfig,
  parts: Parts & { readonly cluster: Cluster },
): Dependents {
  return new Dependents({ ...parts, targets, events: createEvents(podName, parts) });
}

function createEvents(instance: string, parts: Omit<Parts, 'onReport'>): Events {
  const count = (result: string): void => parts.metrics.writes.inc({ kind: 'event', result });
  return new Events({ ...parts, component: CONTROLLER, instance, count });
}
