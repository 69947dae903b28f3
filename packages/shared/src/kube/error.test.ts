import { errorFromAnswer, hasStatus } from './error.ts';

const request = { method: 'GET', path: '/api/v1/nodes/a' };

describe('an error of the Kubernetes API', () => {
  it('carries reason, message and the time to wait of a Status', () => {
    const body = JSON.stringify({
      kind: 'Status',
      reason: 'TooManyRequests',
      message: 'slow down',
      details: { retryAfterSeconds: 2 },
    });
    const error = errorFromAnswer(request, 429, {}, body);
    expect(error).toMatchObject({ status: 429, reason: 'TooManyRequests', retryAfterMs: 2_000 });
    expect(error.message).toBe('GET /api/v1/nodes/a: 429 slow down');
  });

  it('prefers the Retry-After header', () => {
    expect(errorFromAnswer(request, 503, { 'retry-after': '7' }, '').retryAfterMs).toBe(7_000);
  });

  it.each(['', '<html>bad gateway</html>', '[]', '"x"', 'null'])('is understood with the body %p', (body) => {
    const error = errorFromAnswer(request, 502, {}, body);
    expect(hasStatus(error, 502)).toBe(true);
    expect(error.retryAfterMs).toBeUndefined();
  });
});
