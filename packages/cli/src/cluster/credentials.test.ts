import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { Credentials } from './credentials.ts';
import type { UserEntry } from './kubeconfig.ts';

const NOW = 1_800_000_000_000;

function tokenUntil(expiresAt: number): string {
  const [header, claims] = [{ alg: 'RS256' }, { exp: expiresAt / 1000 }].map((one) =>
    Buffer.from(JSON.stringify(one)).toString('base64url'),
  );
  return `${header}.${claims}.signature`;
}

async function headersOf(config: Record<string, string>): Promise<unknown> {
  const user: UserEntry = { 'auth-provider': { name: 'oidc', config } };
  const cluster = { server: 'https://127.0.0.1:6443', 'insecure-skip-tls-verify': true };
  const credentials = new Credentials(
    { context: 'dev', cluster, user },
    { clock: { now: () => NOW }, hasTerminal: false, signal: new AbortController().signal },
  );
  return (await credentials.apply({})).headers;
}

/** With which a library would renew the token, and leave kubectl with a refresh token that is used up. */
const RENEWABLE = { 'client-id': 'kubectl', 'refresh-token': 'once', 'idp-issuer-url': 'https://127.0.0.1:1' };

it('a valid token of OpenID Connect is sent', async () => {
  const token = tokenUntil(NOW + 60_000);
  expect(await headersOf({ ...RENEWABLE, 'id-token': token })).toMatchObject({ Authorization: `Bearer ${token}` });
  expect(await headersOf({ 'id-token': 'opaque' })).toMatchObject({ Authorization: 'Bearer opaque' });
});

it.each([
  ['expired', { ...RENEWABLE, 'id-token': tokenUntil(NOW - 1_000) }],
  ['missing', RENEWABLE],
])('of one that is %s the error says how it is renewed', async (_, config) => {
  await expect(headersOf(config)).rejects.toThrow(
    'context dev: no credentials: the id-token of the auth-provider oidc is missing or has expired: run another ' +
      'command of kubectl, such as "kubectl auth whoami", which renews it in the kubeconfig, and then this one again',
  );
});

it('of credentials that have expired, requests that are sent at the same time run the program once more', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'brupop-credentials-'));
  const runs = join(folder, 'runs');
  const status = { token: 'token', expirationTimestamp: rfc3339(NOW) };
  const args = ['-c', `echo run >> ${runs}; echo '${JSON.stringify({ kind: 'ExecCredential', status })}'`];
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/sh', args };
  let now = NOW - 60_000;
  const cluster = { server: 'https://127.0.0.1:6443', 'insecure-skip-tls-verify': true };
  const credentials = new Credentials(
    { context: 'dev', cluster, user: { exec } },
    { clock: { now: () => now }, hasTerminal: false, signal: new AbortController().signal },
  );
  await credentials.apply({});
  now = NOW;
  await Promise.all([1, 2, 3, 4].map(async () => await credentials.apply({})));
  expect(readFileSync(runs, 'utf8')).toBe('run\nrun\n');
  rmSync(folder, { recursive: true });
});
