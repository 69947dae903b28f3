import { Counter, Gauge, Histogram } from 'prom-client';
import type { Registry } from 'prom-client';

/** What the apiserver counts. `docs/metrics.md` describes each. */
export class Metrics {
  readonly requests: Counter<'route' | 'code'>;
  readonly duration: Histogram<'route'>;
  readonly streams: Gauge;
  readonly tokenReviews: Counter<'result'>;
  readonly evictions: Counter<'result'>;
  readonly drainPasses: Counter<'result'>;
  readonly certificateExpiry: Gauge;
  readonly certificateErrors: Counter;

  constructor(registry: Registry) {
    const registers = [registry];
    this.requests = new Counter({
      name: 'brupop_apiserver_requests_total',
      help: 'Requests of agents that were answered, by route and HTTP status; code 0 = the agent went away first.',
      labelNames: ['route', 'code'],
      registers,
    });
    this.duration = new Histogram({
      name: 'brupop_apiserver_request_duration_seconds',
      help: 'How long requests took, streams left out.',
      labelNames: ['route'],
      buckets: [0.005, 0.02, 0.1, 0.5, 2, 5, 10, 20],
      registers,
    });
    this.streams = new Gauge({
      name: 'brupop_apiserver_streams',
      help: 'Open shadow streams.',
      registers,
    });
    this.tokenReviews = new Counter({
      name: 'brupop_apiserver_token_reviews_total',
      help: 'TokenReviews: accepted, refused or unavailable.',
      labelNames: ['result'],
      registers,
    });
    this.evictions = new Counter({
      name: 'brupop_apiserver_evictions_total',
      help: 'Requests to evict a pod: accepted, gone, or why not.',
      labelNames: ['result'],
      registers,
    });
    this.drainPasses = new Counter({
      name: 'brupop_apiserver_drain_passes_total',
      help: 'Drain passes: done, unfinished or failed.',
      labelNames: ['result'],
      registers,
    });
    this.certificateExpiry = new Gauge({
      name: 'brupop_apiserver_certificate_expiry_timestamp_seconds',
      help: 'When the serving certificate in use expires (Unix time).',
      registers,
    });
    this.certificateErrors = new Counter({
      name: 'brupop_apiserver_certificate_errors_total',
      help: 'Times that the TLS files could not be used; the certificate read before stays in use.',
      registers,
    });
  }
}
