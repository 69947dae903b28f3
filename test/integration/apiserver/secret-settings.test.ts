/** Which agents get the values of secrets, and the errors while there are none. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import type { SecretValues } from '../../../packages/shared/src/api/agent-protocol.ts';
import { secretHash } from '../../../packages/shared/src/api/secret-settings.ts';
import { type Agent, createAgent } from '../../framework/apiserver/cluster.ts';
import type { RunningApiserver } from '../../framework/apiserver/server.ts';
import { ensureShadow, shadowPath } from '../../framework/apiserver/shadow.ts';
import { useApiserver } from '../../framework/apiserver/suite.ts';

const KEY = 'settings.aws.credentials';
const VALUE = '"p4ssw0rd-1"';
const ref = { name: 'aws', key: 'credentials' };

jest.setTimeout(60_000);

describe('an apiserver with a mounted Secret', () => {
  const suite = useApiserver();
  let folder = '';
  let apiserver: RunningApiserver;
  let agent: Agent;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'brupop-secrets-'));
    mkdirSync(join(folder, 'aws'));
    writeFileSync(join(folder, 'aws', 'credentials'), 'p4ssw0rd-1\n');
    writeFileSync(join(folder, 'aws', 'config'), 'p4ssw0rd-2\n');
    apiserver = await suite.start({ settingsSecrets: folder });
    agent = await createAgent(suite.cluster, suite.namespace);
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const want = async (node: string, value = VALUE, secretKeyRef = ref): Promise<void> => {
    const leaves = [
      { key: 'settings.motd', value: '"hello"', owner: 'BottlerocketNodeGroup/web' },
      { key: KEY, value: secretHash(KEY, value), secretKeyRef, owner: 'BottlerocketNodeGroup/web' },
    ];
    await suite.cluster.api.patch(shadowPath(suite.namespace, node), { spec: { settings: { leaves, allow: 'None' } } });
  };
  const valuesFor = async (caller: Agent): Promise<{ status: number; body: Partial<SecretValues> }> =>
    apiserver.client.act<SecretValues>(caller, 'secret-settings');

  it('gives an agent the secrets that the shadow of its own node requests, and those of no other node', async () => {
    const other = await createAgent(suite.cluster, suite.namespace);
    await ensureShadow(suite.cluster, suite.namespace, other.node);
    await want(agent.node);
    expect(await valuesFor(agent)).toMatchObject({ status: 200, body: { values: { [KEY]: VALUE } } });
    expect(await valuesFor(other)).toMatchObject({ status: 200, body: { values: {} } });
    const path = `/v1/nodes/${agent.node}/secret-settings`;
    expect((await apiserver.client.call('GET', path, { token: other.token })).status).toBe(403);
    expect((await apiserver.client.call('GET', path)).status).toBe(401);
  });

  it('gives nothing any more as soon as the spec does not request it', async () => {
    await want(agent.node);
    await valuesFor(agent);
    await suite.cluster.api.patch(shadowPath(suite.namespace, agent.node), { spec: { settings: null } });
    expect((await valuesFor(agent)).body).toEqual({ values: {} });
  });

  it.each<[string, string, typeof ref, string]>([
    ['has another value than the shadow requests', '"p4ssw0rd-0"', ref, 'found another value; repeat'],
    ['is not there', VALUE, { name: 'other', key: 'credentials' }, 'found none; repeat'],
    ['lacks the key', VALUE, { name: 'aws', key: 'other' }, 'found none; repeat'],
  ])('answers 503 without a value while the Secret %s', async (_case, value, secretKeyRef, message) => {
    await want(agent.node, value, secretKeyRef);
    const { status, body } = await valuesFor(agent);
    expect(status).toBe(503);
    expect(JSON.stringify(body)).toContain(message);
    expect(JSON.stringify(body) + apiserver.lines.join('')).not.toContain('p4ssw0rd');
  });

  it.each([
    { name: '../aws', key: 'credentials' },
    { name: 'aws', key: '../../etc/passwd' },
    { name: 'aws', key: '..' },
  ])('no shadow can name a file that is no Secret: %j', async (secretKeyRef) => {
    await expect(want(agent.node, VALUE, secretKeyRef)).rejects.toThrow(/422/u);
  });
});
