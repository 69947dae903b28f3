import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@brupop/shared/runtime/clock';
import { connect } from './client.ts';

const folder = mkdtempSync(join(tmpdir(), 'brupop-client-'));
const api = createServer(({ headers }, response) => {
  response.statusCode = headers.authorization === 'Bearer token-2' ? 200 : 401;
  // All of the first requests are under way before one is refused.
  setTimeout(() => response.end('{}'), 100);
});

beforeAll(async () => await new Promise<void>((done) => void api.listen(0, '127.0.0.1', done)));

afterAll(() => {
  api.close();
  api.closeAllConnections();
  rmSync(folder, { recursive: true });
});

it('requests that are refused at the same time run the program that prints credentials once more', async () => {
  const [runs, program, kubeconfig] = ['runs', 'program', 'kubeconfig'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const printed = JSON.stringify({ kind: 'ExecCredential', status: { token: 'token-N' } });
  writeFileSync(program, `#!/bin/sh\necho run >> ${runs}\necho '${printed}' | sed "s/N/$(grep -c . ${runs})/"\n`);
  chmodSync(program, 0o755);
  const { port } = api.address() as AddressInfo;
  const user = { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: program } };
  const config = {
    'current-context': 'a',
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    clusters: [{ name: 'a', cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: 'a', user }],
  };
  writeFileSync(kubeconfig, JSON.stringify(config));
  const { signal } = new AbortController();
  const client = connect({ kubeconfig, clock: systemClock, hasTerminal: false, signal });
  const requests = ['/a', '/b', '/c', '/d', '/e'].map((path) => client.request({ method: 'GET', path }));
  expect(await Promise.all(requests)).toEqual([{}, {}, {}, {}, {}]);
  expect(readFileSync(runs, 'utf8')).toBe('run\nrun\n');
});
