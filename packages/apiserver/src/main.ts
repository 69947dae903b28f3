import type { Server } from 'node:https';
import type { Registry } from 'prom-client';
import { currentAttempt } from '@brupop/shared/api/attempt';
import { readBrupopConfig } from '@brupop/shared/api/brupop-config';
import { APISERVER, CONFIG_PLURAL, NODE_GROUP_PLURAL, SHADOW_PLURAL, shadowName } from '@brupop/shared/api/names';
import { readNodeGroup } from '@brupop/shared/api/node-group';
import { EVICTION_LIMIT_MS } from '@brupop/shared/drain/evictions';
import { createKubeClient, type KubeClient } from '@brupop/shared/kube/client';
import { Events } from '@brupop/shared/kube/events';
import { configPath, corePath, nodeGroupPath, shadowPath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import { serverClock } from '@brupop/shared/kube/server-clock';
import { backoff } from '@brupop/shared/runtime/backoff';
import { serveHealth } from '@brupop/shared/runtime/health';
import { createRegistry, metricsOf } from '@brupop/shared/runtime/metrics';
import type { NodeLog } from '@brupop/shared/runtime/log';
import { run, type RunContext } from '@brupop/shared/runtime/run';
import { createApp } from './app.ts';
import { AgentAddresses } from './auth/agent-addresses.ts';
import { AgentPods, agentPodSelector, slimAgentPod } from './auth/agent-pods.ts';
import { Authenticator, type AuthenticatorOptions } from './auth/authenticator.ts';
import { reviewToken } from './auth/token-review.ts';
import { TokenVerifier } from './auth/token.ts';
import { type ApiserverConfig, readConfig } from './config.ts';
import { Drainer } from './drain/drainer.ts';
import { Settings } from './drain/settings.ts';
import { Connections } from './http/connections.ts';
import { Freezes } from './http/freezes.ts';
import { close, createHttpsServer, listen, secureContext } from './http/server.ts';
import { TlsFiles } from './http/tls.ts';
import { countStreams, createMetrics, type Metrics } from './metrics.ts';
import { Nodes } from './nodes/nodes.ts';
import { notLive, notReady, staleness } from './readiness.ts';
import { Routes } from './routes.ts';
import { slimShadow } from './shadows/policy.ts';
import { Shadows } from './shadows/shadows.ts';
import { StreamHub } from './shadows/streams.ts';

const KEYS_RETRY = { baseMs: 250, capMs: 10_000 };
/** Answers under way may take 3 s, and evictions longer. The pod has 30 s. */
const STOP_LIMIT_MS = EVICTION_LIMIT_MS + 4_000;

// Tests import this module, and call `serve` themselves.
if (import.meta.main)
  run(APISERVER, (context) => serve(readConfig(context.env), context), { stopLimitMs: STOP_LIMIT_MS });

/** What a test brings along or waits for. */
export interface Overrides {
  readonly client?: KubeClient;
  readonly registry?: Registry;
  /** Receives the port once the server is listening. */
  readonly onListening?: (port: number) => void;
}

/** Serves agents until the signal aborts; then resolves within some seconds, or when the evictions in flight have ended. */
export async function serve(
  config: ApiserverConfig,
  context: Omit<RunContext, 'env'>,
  overrides: Overrides = {},
): Promise<void> {
  const { clock, log } = context;
  const client =
    overrides.client ?? (await createKubeClient({ userAgent: APISERVER, clock, log, access: config.access }));
  try {
    await serveWith({ ...context, config, client }, overrides);
  } finally {
    await client.close();
  }
}

interface Parts extends Omit<RunContext, 'env'> {
  readonly config: ApiserverConfig;
  readonly client: KubeClient;
}

async function serveWith({ clock: ownClock, ...rest }: Parts, { registry, onListening }: Overrides): Promise<void> {
  const { config, client, log, signal } = rest;
  const clockSkewMs = (): number | undefined => client.clockSkewMs();
  const clock = serverClock(ownClock, clockSkewMs);
  const parts = { ...rest, clock };
  const { agentNamespace: namespace, host, maxConnections, maxConnectionsPerAddress } = config;
  const metricsRegistry = registry ?? createRegistry(APISERVER, clockSkewMs);
  const metrics = createMetrics(metricsRegistry);
  const caches = createCaches(parts, (resource) => metrics.watchRestarts.inc({ resource }));
  const agents = new AgentAddresses(caches.pods);
  const verifier = new TokenVerifier({ client, namespace, clock, log });
  const { tlsCertFile: certFile, tlsKeyFile: keyFile, serverName } = config;
  const tls = new TlsFiles({ certFile, keyFile, serverName, clock: ownClock, log, metrics });
  const { pods, shadows, configs, groups } = caches;
  const background = [...Object.values(caches).map((one) => one.run(signal)), loadKeys(verifier, parts)];

  const watches = { 'agent pods': pods, shadows, configuration: configs, 'node groups': groups };
  const stale = (): string | undefined => staleness(watches);
  const hub = new StreamHub({ ...caches, namespace: config.namespace, clock, count: countStreams(metrics), stale });
  const freezes = new Freezes(ownClock);
  const ready = (): string | undefined => notReady(watches, verifier, signal) ?? freezes.problem();
  const { routes, drainer, logOf } = createRoutes(parts, caches, metrics, hub);
  const agentPods = new AgentPods({ reflector: pods, client, namespace, clock });
  const authenticator = new Authenticator({ verifier, pods: agentPods, namespace, clock, ...reviews(client, metrics) });
  const connections = new Connections({ maxConnections, maxConnectionsPerAddress, agents, clock, log, metrics });
  const listener = createApp({ authenticator, connections, routes, ready, metrics, clock, log, logOf, stop: signal });
  hub.run(signal);
  freezes.run(signal);
  let server: Server | undefined;
  const live = (): string | undefined => (server === undefined ? undefined : notLive(server, hub));
  const reachable = (): string | undefined =>
    tls.problem() ?? (server?.listening === true ? ready() : 'the listener for agents is not open');
  const probes = { live, ready: reachable, metrics: metricsOf(metricsRegistry) };
  await serveHealth({ host, port: config.healthPort, signal, ...probes });
  const certificate = await tls.untilUsable(signal);
  if (certificate !== undefined) {
    const opened = createHttpsServer({ listener, certificate, connections, clock, metrics, log });
    const port = await listen(opened, host, config.listenPort);
    server = opened;
    log.info('server listening', { host, port });
    onListening?.(port);
    await tls.watch((pair) => opened.setSecureContext(secureContext(pair)), signal);
    await close(opened, connections, clock);
  }
  await Promise.all([...background, drainer.settled()]);
}

type Caches = ReturnType<typeof createCaches>;

/** The only watches of an idle apiserver. */
function createCaches({ client, config, clock, log }: Parts, onRestart: (resource: string) => void) {
  const { namespace, agentNamespace } = config;
  const common = { client, clock, log, onRestart };
  return {
    pods: new Reflector({
      ...common,
      name: 'agent pods',
      path: corePath('pods', { namespace: agentNamespace }),
      query: { labelSelector: agentPodSelector },
      slim: (raw) => slimAgentPod(raw, agentNamespace),
    }),
    shadows: new Reflector({
      ...common,
      name: SHADOW_PLURAL,
      path: shadowPath({ namespace }),
      slim: slimShadow,
    }),
    configs: new Reflector({
      ...common,
      name: CONFIG_PLURAL,
      path: configPath(),
      slim: readBrupopConfig,
    }),
    groups: new Reflector({
      ...common,
      name: NODE_GROUP_PLURAL,
      path: nodeGroupPath(),
      slim: readNodeGroup,
    }),
  };
}

/** Retries until the keys are read; until then this replica is not ready. */
async function loadKeys(verifier: TokenVerifier, { clock, signal }: Parts): Promise<void> {
  const retry = backoff(KEYS_RETRY);
  while (!signal.aborted && !verifier.loaded) {
    await verifier.load().catch(() => clock.sleep(retry.next(), signal).catch(() => undefined));
  }
}

function reviews(client: KubeClient, metrics: Metrics): Pick<AuthenticatorOptions, 'review' | 'count'> {
  return {
    review: async (token) => reviewToken(client, token, metrics.tokenReviews),
    count: (result) => metrics.authentications.inc({ result }),
  };
}

/** The logger of all lines about a node. */
function nodeLog({ log, config }: Parts, { shadows }: Pick<Caches, 'shadows'>): NodeLog {
  return (node) => {
    const shadow = shadows.get(shadowName(node), config.namespace);
    return log.with({ node, attempt: shadow && currentAttempt(shadow) });
  };
}

function createRoutes(parts: Parts, caches: Caches, metrics: Metrics, hub: StreamHub) {
  const { config, client, clock, log, signal } = parts;
  const { namespace, agentNamespace, podName } = config;
  const logOf = nodeLog(parts, caches);
  const nodes = new Nodes({ client, clock, logOf });
  const settings = new Settings(caches, log);
  const count = (result: string): void => metrics.events.inc({ result });
  const events = new Events({ client, clock, log, component: APISERVER, instance: podName, count });
  const { shadows: cache } = caches;
  const shadows = new Shadows({ client, nodes, events, cache, namespace, agentNamespace, clock, logOf });
  const context = { nodes, shadows, namespace, podName, client, events, clock, log, metrics, signal };
  const drainer = new Drainer(context, settings);
  return { routes: new Routes({ nodes, shadows, settings, hub, drainer }), drainer, logOf };
}
