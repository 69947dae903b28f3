import type { Registry } from 'prom-client';
import { type BrupopConfig, readBrupopConfig } from '@brupop/shared/api/brupop-config';
import { messageOf } from '@brupop/shared/runtime/errors';
import { APISERVER, CONFIG_PLURAL, CONFIG_VERSION, SHADOW_PLURAL, SHADOW_VERSION } from '@brupop/shared/api/names';
import { createKubeClient, type KubeClient } from '@brupop/shared/kube/client';
import { Events } from '@brupop/shared/kube/events';
import { corePath, crPath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import { backoff } from '@brupop/shared/runtime/backoff';
import type { Clock } from '@brupop/shared/runtime/clock';
import { serveHealth } from '@brupop/shared/runtime/health';
import type { Logger } from '@brupop/shared/runtime/log';
import { createRegistry, metricsOf } from '@brupop/shared/runtime/metrics';
import { run } from '@brupop/shared/runtime/run';
import { createApp } from './app.ts';
import { type AgentPod, AgentPods, agentPodSelector, slimAgentPod } from './auth/agent-pods.ts';
import { Authenticator } from './auth/authenticator.ts';
import { fetchKeys, SigningKeys } from './auth/keys.ts';
import { reviewToken } from './auth/token-review.ts';
import { type Config, readConfig } from './config.ts';
import { Drainer } from './drain/drainer.ts';
import { Settings } from './drain/settings.ts';
import { answerUnreadable } from './http/client-error.ts';
import type { ConnectionLimits, RefusedFor } from './http/connections.ts';
import { RateLimit } from './http/rate-limit.ts';
import { close, createHttpsServer, listen, secureContext } from './http/server.ts';
import { TlsFiles } from './http/tls.ts';
import { Metrics } from './metrics.ts';
import { Nodes } from './nodes/nodes.ts';
import { notLive, notReady, staleness } from './readiness.ts';
import { Routes } from './routes.ts';
import { type SlimShadow, slimShadow } from './shadows/policy.ts';
import { Shadows } from './shadows/shadows.ts';
import { StreamHub } from './shadows/stream-hub.ts';

// Tests import this module, and start what it exports themselves.
if (import.meta.main)
  run(
    APISERVER,
    async ({ signal, log, clock, env }) => {
      const config = readConfig(env);
      const client = await createKubeClient({ userAgent: APISERVER, clock, log, access: config.access });
      try {
        await runApiserver({ config, client, clock, log, registry: createRegistry(APISERVER), signal });
      } finally {
        await client.close();
      }
    },
    { stopLimitMs: 5_000 },
  );

export interface ApiserverOptions {
  readonly config: Config;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly registry: Registry;
  readonly signal: AbortSignal;
  /** Told the port once the server listens. */
  readonly onListening?: (port: number) => void;
}

const KEYS_RETRY = { baseMs: 250, capMs: 10_000 };
/** Calls of one node: an agent makes a few per minute, some more around an update. */
const NODE_RATE = { burst: 30, perSecond: 3, keys: 20_000 };
/** Refused tokens per address that are logged and told why. */
const FAILURE_RATE = { burst: 30, perSecond: 2, keys: 10_000 };

/** Serves agents until `signal` aborts, then ends streams, lets calls finish and resolves within some seconds. */
export async function runApiserver(options: ApiserverOptions): Promise<void> {
  const { config, clock, log, registry, signal } = options;
  const metrics = new Metrics(registry);
  const caches = createCaches(options);
  const keys = new SigningKeys({ fetch: () => fetchKeys(options.client), clock, log });
  const tls = new TlsFiles({ certFile: config.tlsCertFile, keyFile: config.tlsKeyFile, clock, log, metrics });
  const certificate = await tls.load();
  const { pods, shadows, configs } = caches;
  const background = [pods.run(signal), shadows.run(signal), configs.run(signal), loadKeys(keys, options)];

  const watches = { 'agent pods': pods, shadows, configuration: configs };
  const count = (open: number): void => metrics.streams.set(open);
  const stale = (): string | undefined => staleness(watches);
  const hub = new StreamHub({ ...caches, namespace: config.namespace, clock, count, stale });
  const ready = (): string | undefined => notReady(watches, keys, signal);
  const listener = createParts({ options, metrics, caches, keys, hub, ready });
  const server = createHttpsServer({ listener, certificate, limits: limitsOf(config, metrics) });
  answerUnreadable(server, metrics, log);
  hub.run(signal);
  const port = await listen(server, config.host, config.listenPort);
  const live = (): string | undefined => notLive(server, hub);
  await serveHealth({ host: config.host, port: config.healthPort, signal, live, ready, metrics: metricsOf(registry) });
  log.info('listens', { host: config.host, port });
  options.onListening?.(port);

  await tls.watch((pair) => server.setSecureContext(secureContext(pair)), signal);
  await close(server, clock);
  await Promise.all(background);
}

interface Caches {
  readonly pods: Reflector<AgentPod>;
  readonly shadows: Reflector<SlimShadow>;
  readonly configs: Reflector<BrupopConfig>;
}

/** The only watches of an idle apiserver. */
function createCaches({ client, config, clock, log }: ApiserverOptions): Caches {
  const { namespace } = config;
  return {
    pods: new Reflector({
      client,
      path: corePath('pods', { namespace }),
      query: { labelSelector: agentPodSelector },
      slim: slimAgentPod,
      clock,
      log,
      name: 'agent pods',
    }),
    shadows: new Reflector({
      client,
      path: crPath(SHADOW_PLURAL, { version: SHADOW_VERSION, namespace }),
      slim: slimShadow,
      clock,
      log,
      name: SHADOW_PLURAL,
    }),
    configs: new Reflector({
      client,
      path: crPath(CONFIG_PLURAL, { version: CONFIG_VERSION }),
      slim: readBrupopConfig,
      clock,
      log,
      name: CONFIG_PLURAL,
    }),
  };
}

function limitsOf({ maxConnections, maxConnectionsPerAddress }: Config, metrics: Metrics): ConnectionLimits {
  const refused = (limit: RefusedFor): void => metrics.refusedConnections.inc({ limit });
  return { maxConnections, maxConnectionsPerAddress, refused };
}

/** Tries until the keys are there; without them nobody is served. */
async function loadKeys(keys: SigningKeys, { clock, log, signal }: ApiserverOptions): Promise<void> {
  const retry = backoff(KEYS_RETRY);
  while (!signal.aborted) {
    try {
      await keys.load();
      return;
    } catch (error) {
      log.warn('cannot read the keys of service-account tokens; tries again', { error: messageOf(error) });
    }
    await clock.sleep(retry.next(), signal).catch(() => undefined);
  }
}

interface Parts {
  readonly options: ApiserverOptions;
  readonly metrics: Metrics;
  readonly caches: Caches;
  readonly keys: SigningKeys;
  readonly hub: StreamHub;
  readonly ready: () => string | undefined;
}

function createParts({ options, metrics, caches, keys, hub, ready }: Parts): ReturnType<typeof createApp> {
  const { config, client, clock, log, signal } = options;
  const { namespace, nodeName: ownNode, podName: instance } = config;
  const nodes = new Nodes({ client, clock, log });
  const settings = new Settings(caches.configs, log);
  const count = (result: string): void => metrics.events.inc({ result });
  const events = new Events({ client, clock, log, component: APISERVER, instance, count });
  const shadows = new Shadows({ client, nodes, cache: caches.shadows, namespace, clock, log });
  const drainer = new Drainer({
    cache: caches.shadows,
    client,
    nodes,
    shadows,
    settings,
    events,
    namespace,
    clock,
    log,
    metrics,
    signal,
  });
  const routes = new Routes({ shadows, cache: caches.shadows, hub, nodes, drainer, settings, namespace, ownNode });
  const authenticator = createAuthenticator({ options, metrics, caches, keys });
  const rate = new RateLimit({ clock, ...NODE_RATE });
  return createApp({ authenticator, routes, rate, ready, metrics, clock, log, stop: signal });
}

type Sources = Pick<Parts, 'options' | 'metrics' | 'caches' | 'keys'>;

function createAuthenticator({ options, metrics, caches, keys }: Sources): Authenticator {
  const { client, clock, config } = options;
  const { namespace } = config;
  return new Authenticator({
    keys,
    review: async (token) => {
      const status = await reviewToken(client, token).catch((error: unknown) => {
        metrics.tokenReviews.inc({ result: 'unavailable' });
        throw error;
      });
      metrics.tokenReviews.inc({ result: status.authenticated === true ? 'accepted' : 'refused' });
      return status;
    },
    pods: new AgentPods({ reflector: caches.pods, client, namespace }),
    failures: new RateLimit({ clock, ...FAILURE_RATE }),
    namespace,
    clock,
  });
}
