import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** The apiserver's metrics: type, name without prefix, help, labels and buckets. `docs/metrics.md` describes each. */
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
    const of = <L extends string>(name: string, help: string, ...labelNames: L[]) => ({
      name: `brupop_apiserver_${name}`,
      help,
      labelNames,
      registers: [registry],
    });
    const passes = [1, 5, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600];
    const calls = [0.005, 0.02, 0.1, 0.5, 2, 5, 10, 20];
    this.requests = new Counter(
      of(
        'requests_total',
        'Requests of agents by route and HTTP status; code 0: closed before the answer.',
        'route',
        'code',
      ),
    );
    this.duration = new Histogram({
      ...of('request_duration_seconds', 'How long requests took, streams left out.', 'route'),
      buckets: calls,
    });
    this.streams = new Gauge(of('streams', 'Open shadow streams.'));
    this.refusedConnections = new Counter(
      of('refused_connections_total', 'Connections closed at once: too many from their address, or in total.', 'limit'),
    );
    this.tokenReviews = new Counter(
      of('token_reviews_total', 'TokenReviews: accepted, refused or unavailable.', 'result'),
    );
    this.evictions = new Counter(of('evictions_total', 'Evictions of pods: accepted, gone, or why not.', 'result'));
    this.drainPasses = new Counter(of('drain_passes_total', 'Drain passes: done, unfinished or failed.', 'result'));
    this.drainBlocks = new Counter(of('drain_blocks_total', 'Pods that blocked a drain, by reason.', 'reason'));
    this.drainDuration = new Histogram({
      ...of('drain_duration_seconds', 'How long drains took from their first pass to their end, by result.', 'result'),
      buckets: passes,
    });
    this.events = new Counter(of('events_total', 'Events by what became of writing them.', 'result'));
    this.certificateExpiry = new Gauge(
      of('certificate_expiry_timestamp_seconds', 'When the serving certificate in use expires (Unix time).'),
    );
    this.certificateErrors = new Counter(
      of(
        'certificate_errors_total',
        'Times that the TLS files could not be used; the previous certificate stays in use.',
      ),
    );
  }
}
