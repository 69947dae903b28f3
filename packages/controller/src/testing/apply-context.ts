import { Registry } from 'prom-client';
import type { KubeClient } from '@brupop/shared/kube/client';
import { createLogger } from '@brupop/shared/runtime/log';
import type { FakeClock } from '@brupop/shared/testing/fake-clock';
import { type ApplyContext, Writer } from '../apply/writer.ts';
import { AssumeCache } from '../cluster/assume-cache.ts';
import { createMetrics } from '../metrics.ts';

interface Parts {
  readonly clock: FakeClock;
  /** The requests that the test expects. */
  readonly client: object;
  readonly signal?: AbortSignal;
  readonly record?: ApplyContext['events']['record'];
}

/** Of a leader whose requests are answered by `client`. */
export function anApplyContext({
  clock,
  client,
  signal = new AbortController().signal,
  record = () => undefined,
}: Parts): ApplyContext {
  const log = createLogger({ write: () => undefined });
  const options = { clock, log, metrics: createMetrics(new Registry()), signal, isLeading: () => true };
  return {
    ...options,
    writer: new Writer(options),
    client: client as KubeClient,
    namespace: 'brupop',
    agentNamespace: 'brupop',
    events: { record } as ApplyContext['events'],
    assumeCache: new AssumeCache(),
    logOf: () => log,
  };
}
