import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import { notLive, notReady, staleness } from './readiness.ts';

const watch = (silentMs = 0, synced = true) => ({ synced, idleForMs: () => silentMs });
const { signal } = new AbortController();
const loaded = { loaded: true, loadError: '' };

describe('a watch cache', () => {
  it('counts while the last message is less than two minutes old', () => {
    expect(staleness({ pods: watch(WATCH_STALE_MS), shadows: watch() })).toBeUndefined();
  });

  it('names a watch that is stale after two minutes without a message', () => {
    expect(staleness({ pods: watch(), shadows: watch(150_400) })).toBe(
      'the watch of shadows is stale: not confirmed by an event, a bookmark or a check for 150 s; see "watch failed" in the log',
    );
  });

  it('does not count before it is listed', () => {
    expect(staleness({ pods: watch(0, false), shadows: watch() })).toBe('the pods are not listed yet');
  });
});

describe('a replica', () => {
  it('is ready with keys and current watch caches', () => {
    expect(notReady({ pods: watch() }, loaded, signal)).toBeUndefined();
  });

  it('is not ready without keys', () => {
    const verifier = { loaded: false, loadError: 'GET /openid/v1/jwks: found 0 keys, none usable' };
    expect(notReady({ pods: watch() }, verifier, signal)).toBe(
      'the keys of service-account tokens are not loaded: GET /openid/v1/jwks: found 0 keys, none usable',
    );
  });

  it('is not ready with a stale watch', () => {
    expect(notReady({ pods: watch(WATCH_STALE_MS + 1) }, loaded, signal)).toContain('the watch of pods is stale');
  });

  it('is not ready while it shuts down', () => {
    expect(notReady({ pods: watch() }, loaded, AbortSignal.abort())).toBe('shutting down');
  });
});

describe('a replica is restarted', () => {
  it.each([
    ['not while it is listening and sends heartbeats', true, 1_000, undefined],
    ['when its listener is closed', false, 1_000, 'the listener for agents is closed'],
    ['when it has sent no heartbeats for 45 s', true, 45_000, 'no heartbeats were sent for 45 s'],
  ])('%s', (_when, listening, lateMs, why) => {
    expect(notLive({ listening }, { sinceBeatMs: () => lateMs })).toBe(why);
  });
});
