import type { Gauge, Registry } from 'prom-client';
import { AGENT } from '@brupop/shared/api/names';
import { AGENT_USER_AGENT, buildIn, RELEASE } from '@brupop/shared/api/release';
import { releaseOf } from '@brupop/shared/api/version';
import { OpenLabels, counter, createFrom, gauge, histogram, MAX_VERSIONS } from '@brupop/shared/runtime/metrics';

/** `docs/metrics.md` is generated from it. */
export const METRICS = {
  requests: counter(
    'apiserver_requests_total',
    'Responses to agents by HTTP status. Code 0 means that the agent disconnected first; 401 and 403 that its token was rejected. ' +
      '`route` is `shadow`, `shadow/stream`, `shadow/status`, `load-balancer-exclusion`, `drain`, `restore` or `other`.',
    'route',
    'code',
  ),
  duration: histogram(
    'apiserver_request_duration_seconds',
    [0.005, 0.02, 0.1, 0.5, 2, 5, 10, 20],
    'How long requests took, without streams.',
    'route',
  ),
  streams: gauge(
    'apiserver_streams',
    'Open shadow streams by the release of the agent. Each agent has one. `agent_version` is empty for an agent that does not send its release.',
    'agent_version',
  ),
  rejectedConnections: counter(
    'apiserver_rejected_connections_total',
    'Connections closed before their TLS handshake. `limit` is `address` (`apiserver.maxConnectionsPerAddress`), `total` ' +
      '(`apiserver.maxConnections`), `failures` (too many connections without an accepted call from one address) or `new` (too many ' +
      'of them from all addresses of one network, or from all networks, where no agent has called yet). The log line `closing ' +
      'connections` names the addresses.',
    'limit',
  ),
  tokenReviews: counter(
    'apiserver_token_reviews_total',
    'TokenReviews that were `accepted`, `rejected` or `unavailable`.',
    'result',
  ),
  authentications: counter(
    'apiserver_authentications_total',
    'Calls of agents that were authenticated, by what decided: a TokenReview that is known (`Cached`) or one that was made (`Reviewed`); ' +
      'or the token was `Rejected`, there were too many calls (`Throttled`), or the Kubernetes API did not answer (`Unavailable`).',
    'result',
  ),
  hostCalls: counter(
    'apiserver_host_api_calls_total',
    'Calls of agents to the API of their hosts, as they report them with their next status or stream. `outcome` is `ok`, `refused` (no ' +
      'listener), `unanswered`, `locked` (an update command is running), `uninitialized` (none has run since the boot), `unset` (a setting ' +
      'that the host does not have), `unsupported`, `unreadable` or `answer` (any other error). A count may be there twice if an ' +
      'answer to the agent was lost.',
    'route',
    'outcome',
  ),
  drainPasses: counter(
    'apiserver_drain_passes_total',
    'Drain passes that are `done`, `unfinished` (the agent repeats them) or `failed`.',
    'result',
  ),
  drainDuration: histogram(
    'apiserver_drain_duration_seconds',
    [1, 5, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600],
    'How long drains took from their first pass to their end. `result` is `Drained`, `Forced`, `TimedOut`, `Blocked` or `CordonRemoved` ' +
      '(`status.drain.result`).',
    'result',
  ),
  drainBlocks: counter(
    'apiserver_drain_blocks_total',
    'Pods that started to block a drain, by [reason](runbook.md#a-drain-does-not-end), without those that every drain has: ' +
      '`Terminating`, `VolumeDetach`, `Replacement` and `Throttled`.',
    'reason',
  ),
  evictions: counter(
    'apiserver_evictions_total',
    'Requests to evict or delete a pod. `result` is `accepted`, `gone`, or why it was rejected: `DisruptionBudget`, ' +
      '`MultipleDisruptionBudgets`, `Forbidden`, `NamespaceTerminating`, `Throttled` or `Error`.',
    'result',
  ),
  events: counter(
    'apiserver_events_total',
    "Events to write, with a result as that of the controller's writes.",
    'result',
  ),
  watchRestarts: counter(
    'apiserver_watch_restarts_total',
    'Watches that failed and were opened again, with backoff. `resource` is `agent pods` or the plural of a custom resource.',
    'resource',
  ),
  certificateExpiry: gauge(
    'apiserver_certificate_expiry_timestamp_seconds',
    'When the certificate that this replica serves expires, or expired if it serves none for that reason (Unix time). ' +
      'With `tls.mode: provided` this is the only sign of it.',
    'issuer',
  ),
  certificateErrors: counter(
    'apiserver_certificate_errors_total',
    'Attempts to load the TLS files that failed. There is one every 10 seconds, and the previous certificate stays in use. `reason` is ' +
      '`Unreadable`, `Invalid`, `KeyMismatch`, `WrongName`, `NotYetValid` or `Expired` ' +
      '([what to do](runbook.md#certificate-errors)).',
    'reason',
  ),
};

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics(registry: Registry) {
  return { ...createFrom(METRICS, registry), builds: registry.getSingleMetric('brupop_build_info') as Gauge };
}

/** Returns what counts a stream that opens (1) or closes (-1), by the build of its agent: `0.1.0+REVISION`, or empty. */
export function countStreams({ streams, builds }: Metrics): (change: number, build: string) => void {
  const openVersions = new OpenLabels(MAX_VERSIONS, RELEASE);
  const openBuilds = new OpenLabels(MAX_VERSIONS, buildIn(AGENT_USER_AGENT));
  return (change, build) => {
    const agent = openVersions.change(releaseOf(build), change);
    const labels = { agent_version: agent.label };
    streams.inc(labels, change);
    // Clients choose any other value.
    if (agent.isLast && agent.label !== '' && agent.label !== 'other') streams.remove(labels);
    const { label, isLast } = openBuilds.change(build, change);
    const [version = '', revision = ''] = label === 'other' ? [label, label] : label.split('+');
    const info = { component: AGENT, version, revision };
    if (isLast) builds.remove(info);
    else builds.set(info, 1);
  };
}
