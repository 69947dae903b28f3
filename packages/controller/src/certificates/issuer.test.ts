import type { Events } from '@brupop/shared/kube/events';
import { KubeError } from '@brupop/shared/kube/error';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { Registry } from 'prom-client';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { createMetrics } from '../metrics.ts';
import { CertificateIssuer } from './issuer.ts';
import type { CertificateStore } from './store.ts';

const HOUR = 3_600_000;

test('a certificate that cannot be checked is logged once, and once more as a warning when that lasts', async () => {
  const { log, lines } = recordingLogger();
  const clock = new FakeClock();
  let reads = 0;
  const read = async (): Promise<never> => {
    reads += 1;
    throw new KubeError(403, 'Forbidden', 'secrets is forbidden');
  };
  const store = { read, describe: () => ({ kind: 'Secret', namespace: 'brupop', name: 'tls' }) };
  const issuer = new CertificateIssuer({
    mode: 'self',
    namespace: 'brupop',
    nodeName: 'a',
    store: store as unknown as CertificateStore,
    clock,
    log,
    metrics: createMetrics(new Registry()),
    events: { record: () => undefined } as unknown as Events,
    clockSkewMs: () => 0,
    onReport: () => undefined,
  });
  const stop = new AbortController();
  const running = issuer.run(stop.signal);
  await clock.advance(12 * HOUR);
  expect(issuer.report).toMatchObject({ status: 'False', reason: 'RequestFailed' });
  stop.abort(new Error('the end of the test'));
  await clock.advance(HOUR);
  await running;
  expect(reads).toBeGreaterThan(100);
  const shown = lines.map((line) => JSON.parse(line) as { readonly level: string; readonly msg: string });
  expect(shown.filter(({ level }) => level !== 'debug').map(({ level, msg }) => `${level} ${msg}`)).toEqual([
    'info cannot check the certificate, retrying',
    'error certificate needs attention',
    'warn cannot check the certificate, retrying',
  ]);
});
