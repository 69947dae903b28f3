import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** What the apiserver counts. `docs/metrics.md` describes each. */
export class Metrics {
  readonly requests: Counter<'route' | 'code'>;
  readonly duration: Histogram<'route'>;
  readonly streams: Gauge;
  readonly refusedConnections: Counter<'limit'>;
  readonly tokenReviews: Counter<'result'>;
  readonly evictions: Counter<'result'>;
  readonly drainPasses: Counter<'result'>;
  readonly drainBlocks: Counter<'reason'>;
  readonly drainDuration: Histogram<'result'>;
  readonly events: Counter<'result'>;
  readonly certificateExpiry: Gauge;
  readonly certificateErrors: Counter;

  constructor(registry: Registry) {
    const { counter, gauge } = makersFor(registry);
    this.requests = counter(
      'brupop_apiserver_requests_total',
      'Requests of agents that were answered, by route and HTTP status; code 0 = the agent went away first.',
      ['route', 'code'],
    );
    this.duration = new Histogram({
      name: 'brupop_apiserver_request_duration_seconds',
      help: 'How long requests took, streams left out.',
      labelNames: ['route'],
      buckets: [0.005, 0.02, 0.1, 0.5, 2, 5, 10, 20],
      registers: [registry],
    });
    this.streams = gauge('brupop_apiserver_streams', 'Open shadow streams.');
    this.refusedConnections = counter(
      'brupop_apiserver_refused_connections_total',
      'Connections closed at once: too many from their address, or in total.',
      ['limit'],
    );
    this.tokenReviews = counter(
      'brupop_apiserver_token_reviews_total',
      'TokenReviews: accepted, refused or unavailable.',
      ['result'],
    );
    this.evictions = counter(
      'brupop_apiserver_evictions_total',
      'Requests to evict a pod: accepted, gone, or why not.',
      ['result'],
    );
    this.drainPasses = counter('brupop_apiserver_drain_passes_total', 'Drain passes: done, unfinished or failed.', [
      'result',
    ]);
    this.drainBlocks = counter('brupop_apiserver_drain_blocks_total', 'Pods that held up a drain, by the reason.', [
      'reason',
    ]);
    this.drainDuration = drainDuration(registry);
    this.events = counter('brupop_apiserver_events_total', 'Events that were to be written.', ['result']);
    this.certificateExpiry = gauge(
      'brupop_apiserver_certificate_expiry_timestamp_seconds',
      'When the serving certificate in use expires (Unix time).',
    );
    this.certificateErrors = counter(
      'brupop_apiserver_certificate_errors_total',
      'Times that the TLS files could not be used; the certificate read before stays in use.',
      [],
    );
  }
}

function drainDuration(registry: Registry): Histogram<'result'> {
  return new Histogram({
    name: 'brupop_apiserver_drain_duration_seconds',
    help: 'How long drains took from their first pass to their end, by how they ended.',
    labelNames: ['result'],
    buckets: [1, 5, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600],
    registers: [registry],
  });
}

interface Makers {
  readonly counter: <L extends string>(name: string, help: string, labelNames: readonly L[]) => Counter<L>;
  readonly gauge: (name: string, help: string) => Gauge;
}

function makersFor(registry: Registry): Makers {
  const registers = [registry];
  return {
    counter: (name, help, labelNames) => new Counter({ name, help, labelNames: [...labelNames], registers }),
    gauge: (name, help) => new Gauge({ name, help, registers }),
  };
}
