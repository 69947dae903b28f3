import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import { notLive, notReady, staleness } from './readiness.ts';

const watch = (silentMs = 0, synced = true) => ({ synced, idleForMs: () => silentMs });
const { signal } = new AbortController();

describe('a watch cache', () => {
  it('counts while the last message is less than two minutes old', () => {
    expect(staleness({ pods: watch(WATCH_STALE_MS), shadows: watch() })).toBeUndefined();
  });

  it('may be out of date after two minutes without a message on a watch, which is named', () => {
    expect(staleness({ pods: watch(), shadows: watch(150_400) })).toBe(
      'the shadows may be out of date: no message from the Kubernetes API for 150 s',
    );
  });

  it('does not count before it is listed', () => {
    expect(staleness({ pods: watch(0, false), shadows: watch() })).toBe('the pods are not listed yet');
  });
});

describe('a replica', () => {
  it('is ready with keys and current watch caches', () => {
    expect(notReady({ pods: watch() }, { loaded: true }, signal)).toBeUndefined();
  });

  it('is not ready without keys', () => {
    expect(notReady({ pods: watch() }, { loaded: false }, signal)).toContain('/openid/v1/jwks');
  });

  it('is not ready with a stale watch', () => {
    expect(notReady({ pods: watch(WATCH_STALE_MS + 1) }, { loaded: true }, signal)).toContain('out of date');
  });

  it('is not ready while it shuts down', () => {
    expect(notReady({ pods: watch() }, { loaded: true }, AbortSignal.abort())).toBe('shutting down');
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
