/** Silences of a controller on a real kube-apiserver, in an Alertmanager on loopback. */
import { jest } from '@jest/globals';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import { shadowName } from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { rfc3339 } from '../../../packages/shared/src/runtime/clock.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import {
  answer,
  createMember,
  deleteMembers,
  playAgents,
  readShadow,
  report,
  shadowsPath,
} from '../../framework/controller/agents.ts';
import { configure, CONFIG_PATH, HEALTHY_AT_ONCE, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { type SilenceStore, startAlertmanager } from '../../framework/monitoring/silences.ts';
import { BEHAVIORS, type Webhook } from '../../framework/monitoring/webhook.ts';

jest.setTimeout(120_000);

const SECRET = 'alertmanager';
const SECRETS = `/api/v1/namespaces/${releaseNamespace}/secrets`;
const certificate = makeServingCertificate({ commonName: 'alertmanager', ipAddresses: ['127.0.0.1'] });
const CLUSTER = { name: 'cluster', value: 'prod' };

let cluster: ControlPlane;
let serviceAccountDir: string;
let server: Webhook;
let store: SilenceStore;
const replicas: Replica[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster, '--set', `notifications.secrets={${SECRET}}`);
});

beforeEach(async () => {
  ({ server, store } = await startAlertmanager(() => Date.now(), certificate));
  const stringData = { address: server.address, token: 'hidden', 'ca.crt': certificate.caCert };
  await cluster.api.create(SECRETS, { metadata: { name: SECRET }, stringData });
  await createMember(cluster, 'member');
});

afterEach(async () => {
  await stop();
  await deleteMembers(cluster, ['member']);
  await cluster.api.delete(CONFIG_PATH);
  await cluster.api.delete(`${SECRETS}/${SECRET}`);
  await server.stop();
});

afterAll(async () => await cluster.stop());

async function start(): Promise<Replica> {
  const replica = await startReplica(cluster, serviceAccountDir, { notificationSecrets: [SECRET] });
  replicas.push(replica);
  return replica;
}

async function stop(): Promise<void> {
  await Promise.all(replicas.splice(0).map((replica) => replica.stop()));
}

type Silences = NonNullable<BrupopConfigSpec['silences']>;
async function silence(silences: Silences, spec: BrupopConfigSpec = {}): Promise<void> {
  await configure(cluster, { ...HEALTHY_AT_ONCE, ...spec, silences });
}

async function untilCondition(reason: string): Promise<Condition> {
  return await eventually(async () => {
    const { conditions = [] } = (await readBrupopConfig(cluster)).status ?? {};
    const found = conditions.find(({ type }) => type === 'SilencesReady');
    if (found?.reason !== reason) throw new Error(`expected ${reason}, found ${found?.reason}: ${found?.message}`);
    return found;
  });
}

/** Acts as the agent until the host reboots, and as the API server, which records the drain. */
async function leave(name: string): Promise<BottlerocketShadow> {
  const shadow = await eventually(async () => {
    const found = await readShadow(cluster, name);
    if (found.spec.state === 'RebootedIntoUpdate') return found;
    await answer(cluster, found);
    throw new Error(`expected RebootedIntoUpdate, found ${found.spec.state}`);
  });
  const { generation = 0 } = shadow.metadata;
  const now = rfc3339(Date.now());
  const drain = { observedGeneration: generation, startTime: now, endTime: now, result: 'Drained' };
  await cluster.api.patch(`${shadowsPath}/${shadowName(name)}/status`, {
    status: { drain: { ...drain, evicted: 0, remaining: 0 } },
  });
  const step = { operation: 'Reboot', state: 'Processing', bootID: `boot-of-${name}` } as const;
  const version = shadow.spec.version ?? '';
  await report(cluster, name, { lastOperation: { ...step, version, startTime: now, lastUpdateTime: now } });
  return shadow;
}

it('a node is silenced while it reboots, and the Secret is read when something is asked', async () => {
  await silence({ secretName: SECRET, matchers: [CLUSTER] });
  const replica = await start();
  await untilCondition('AlertmanagerReady');
  const shadow = await leave('member');
  await eventually(() => expect(store.active).toHaveLength(1));
  expect(store.active[0]).toMatchObject({
    createdBy: 'bottlerocket-update-operator',
    matchers: [
      { name: 'node', value: 'member', isRegex: false, isEqual: true },
      { ...CLUSTER, isRegex: false, isEqual: true },
    ],
  });
  await answer(cluster, shadow);
  await eventually(() => expect(store.active).toEqual([]));
  const rest = await auditPosition(cluster.auditLogPath);
  const asked = server.received.length;
  await silence({ secretName: SECRET, matchers: [CLUSTER] }, { order: 'Random' });
  await eventually(async () => expect((await readBrupopConfig(cluster)).status?.observedGeneration).toBe(2));
  const later = await operatorRequests(cluster.auditLogPath, releaseNamespace, rest);
  expect([later.filter(({ resource }) => resource === 'secrets'), server.received.length]).toEqual([[], asked]);
  const shown = [...replica.lines, await replica.metrics(), JSON.stringify(await readBrupopConfig(cluster))].join('\n');
  expect(shown).not.toContain('hidden');
  expect(server.received.every(({ headers }) => headers.authorization === 'Bearer hidden')).toBe(true);
});

it('an Alertmanager that fails stops no update, and is asked again', async () => {
  server.behavior = BEHAVIORS.redirects;
  await silence({ secretName: SECRET });
  await start();
  const agents = playAgents(cluster);
  try {
    await eventually(async () => {
      const { nodes } = (await readBrupopConfig(cluster)).status ?? {};
      expect(nodes).toMatchObject({ managed: 1, upToDate: 1 });
    });
    const { message, status } = await untilCondition('AlertmanagerNotReady');
    expect([status, message]).toEqual(['False', expect.stringContaining('found 307, a redirect')]);
    server.behavior = store.behavior;
    await untilCondition('AlertmanagerReady');
  } finally {
    await agents.stop();
  }
});

it('a Secret that the chart does not name is explained, and the condition ends with the settings', async () => {
  await silence({ secretName: 'other' });
  await start();
  const { message } = await untilCondition('AlertmanagerNotReady');
  expect(message).toContain(`Secret "other": the chart's value notifications.secrets does not name it`);
  await configure(cluster, HEALTHY_AT_ONCE);
  await eventually(async () => {
    const { conditions = [] } = (await readBrupopConfig(cluster)).status ?? {};
    expect(conditions.map(({ type }) => type)).not.toContain('SilencesReady');
  });
});

const https = 'https://alertmanager.example.com';
const wrong: Record<string, [silences: object, message: RegExp]> = {
  'an address with http': [{ addresses: ['http://x.example.com'] }, /addresses.*must begin with https/u],
  'an address with a user': [{ addresses: ['https://u:p@x.example.com'] }, /addresses.*should match/u],
  'an address with a query': [{ addresses: [`${https}/?a=b`] }, /addresses.*should match/u],
  'an address twice': [{ addresses: [https, https] }, /[Dd]uplicate (?:value|entries)/u],
  'six addresses': [{ addresses: Array.from({ length: 6 }, (_, i) => `${https}/${i}`) }, /at most 5/u],
  'no label': [{ labels: [] }, /labels.*at least 1/u],
  'four labels': [{ labels: ['a', 'b', 'c', 'd'].map((name) => ({ name })) }, /at most 3/u],
  'a label that is none': [{ labels: [{ name: 'a.b' }] }, /name.*should match/u],
  'a matcher of the default label': [{ matchers: [{ name: 'node', value: 'x' }] }, /must not have the name/u],
  'a matcher of a label': [
    { labels: [{ name: 'host' }], matchers: [{ name: 'host', operator: 'Matches', value: '.*' }] },
    /must not have the name/u,
  ],
  'an operator of Alertmanager': [
    { matchers: [{ name: 'a', operator: '=~', value: 'x' }] },
    /Unsupported value: "=~"/u,
  ],
  'a Secret of another namespace': [{ secretName: 'other/x' }, /secretName.*should match/u],
};
it.each(Object.entries(wrong))('%s is refused by the API server', async (_, [silences, message]) => {
  await expect(silence(silences)).rejects.toThrow(message);
});

it('a matcher may have the name of the default label if there is another one', async () => {
  const matchers = [{ name: 'node', operator: 'NotEquals', value: '' } as const];
  await silence({
    labels: [{ name: 'host' }],
    matchers,
    allowHTTP: true,
    addresses: ['http://am.monitoring.svc:9093'],
  });
  expect((await readBrupopConfig(cluster)).spec.silences).toMatchObject({ matchers });
});
