import { serveHealth } from './health.ts';

const HOST = '127.0.0.1';

async function serving(port: number, problem: string | undefined): Promise<AbortController> {
  const stop = new AbortController();
  const metrics = async (): Promise<{ contentType: string; body: string }> => ({
    contentType: 'text/plain',
    body: 'x 1\n',
  });
  await serveHealth({ host: HOST, port, live: () => undefined, ready: () => problem, metrics, signal: stop.signal });
  return stop;
}

async function get(port: number, path: string): Promise<string> {
  const response = await fetch(`http://${HOST}:${port}${path}`);
  return `${response.status} ${(await response.text()).trim()}`;
}

describe('the health listener', () => {
  it('serves liveness, readiness with its reason, and metrics', async () => {
    const port = 20_000 + (process.pid % 20_000);
    const stop = await serving(port, 'the cache is not filled yet');
    const answers = await Promise.all(['/livez', '/readyz', '/metrics'].map((path) => get(port, path)));
    expect(answers).toEqual(['200 ok', '503 the cache is not filled yet', '200 x 1']);
    expect(await get(port, '/other')).toMatch(/^404 /u);
    stop.abort();
    await expect(get(port, '/livez')).rejects.toThrow('fetch failed');
  });
});
