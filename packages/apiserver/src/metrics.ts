import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export type Metrics = ReturnType<typeof createMetrics>;

/** The apiserver's metrics. `docs/metrics.md` describes each. */
export function createMetrics(registry: Registry) {
  const registers = [registry];
  const of = <L extends string>(name: string, help: string, ...labelNames: L[]) => ({
    name: `brupop_apiserver_${name}`,
    help,
    labelNames,
    registers,
  });
  return {
    requests: new Counter(
      of(
        'requests_total',
        'Responses to agents by HTTP status; code 0: the agent disconnected first.',
        'route',
        'code',
      ),
    ),
    duration: new Histogram({
      ...of('request_duration_seconds', 'How long requests took, without streams.', 'route'),
      buckets: [0.005, 0.02, 0.1, 0.5, 2, 5, 10, 20],
    }),
    streams: new Gauge(of('streams', 'Open shadow streams.')),
    rejectedConnections: new Counter(
      of(
        'rejected_connections_total',
        'Connections closed before their TLS handshake, by the limit that was reached.',
        'limit',
      ),
    ),
    tokenReviews: new Counter(
      of('token_reviews_total', 'TokenReviews that were accepted, rejected or unavailable.', 'result'),
    ),
    evictions: new Counter(
      of('evictions_total', 'Requests to evict or delete a pod: accepted, gone, or why not.', 'result'),
    ),
    drainPasses: new Counter(of('drain_passes_total', 'Drain passes: done, unfinished or failed.', 'result')),
    drainBlocks: new Counter(of('drain_blocks_total', 'Pods that started to block a drain, by reason.', 'reason')),
    drainDuration: new Histogram({
      ...of('drain_duration_seconds', 'How long drains took from their first pass to their end, by result.', 'result'),
      buckets: [1, 5, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600],
    }),
    events: new Counter(of('events_total', 'Events to write, by result.', 'result')),
    certificateExpiry: new Gauge(
      of('certificate_expiry_timestamp_seconds', 'When the serving certificate expires (Unix time).', 'issuer'),
    ),
    certificateErrors: new Counter(
      of('certificate_errors_total', 'Attempts to load the TLS files that failed, by reason.', 'reason'),
    ),
  };
}
