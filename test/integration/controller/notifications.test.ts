import { jest } from '@jest/globals';
import type { NotificationsStatus } from '../../../packages/shared/src/api/brupop-config.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import type { Condition } from '../../../packages/shared/src/api/meta.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { makeServingCertificate } from '../../framework/certificates.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, newVersion, playAgents, readShadow } from '../../framework/controller/agents.ts';
import { configure, CONFIG_PATH, HEALTHY_AT_ONCE, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { BEHAVIORS, Webhook } from '../../framework/monitoring/webhook.ts';

jest.setTimeout(120_000);

const HOOK = 'hook';
const SECRETS = `/api/v1/namespaces/${releaseNamespace}/secrets`;
const certificate = makeServingCertificate({ commonName: 'webhook', ipAddresses: ['127.0.0.1'] });

let cluster: ControlPlane;
let serviceAccountDir: string;
let webhook: Webhook;
const replicas: Replica[] = [];

beforeAll(async () => {
  cluster = await startControlPlane();
  serviceAccountDir = await installForController(cluster, '--set', `notifications.secrets={${HOOK}}`);
  await createMember(cluster, 'member');
});

beforeEach(async () => {
  webhook = await Webhook.start(certificate);
  await cluster.api.create(SECRETS, secret(HOOK, { address: webhook.address, 'ca.crt': certificate.caCert }));
});

afterEach(async () => {
  await stop();
  await cluster.api.delete(CONFIG_PATH);
  await cluster.api.delete(`${SECRETS}/${HOOK}`);
  await webhook.stop();
});

afterAll(async () => {
  await deleteMembers(cluster, ['member']);
  await cluster.stop();
});

function secret(name: string, stringData: object): object {
  return { metadata: { name }, stringData };
}

async function start(secrets: readonly string[] = [HOOK]): Promise<Replica> {
  const replica = await startReplica(cluster, serviceAccountDir, { notificationSecrets: secrets });
  replicas.push(replica);
  return replica;
}

async function stop(): Promise<void> {
  await Promise.all(replicas.splice(0).map((replica) => replica.stop()));
}

type Receivers = NonNullable<BrupopConfigSpec['notifications']>;
const RECEIVER = {
  name: 'ops',
  format: 'JSON',
  events: ['WaitsForApproval', 'Finished'],
  secretName: HOOK,
} as const satisfies Receivers[number];

async function notify(receivers: Receivers, rollout: object = { approval: 'Required' }): Promise<void> {
  await configure(cluster, { ...HEALTHY_AT_ONCE, rollout, notifications: receivers });
}

async function status(): Promise<NotificationsStatus | undefined> {
  return (await readBrupopConfig(cluster)).status?.notifications;
}

async function untilCondition(reason: string): Promise<Condition> {
  return await eventually(async () => {
    const { conditions = [] } = (await readBrupopConfig(cluster)).status ?? {};
    const found = conditions.find(({ type }) => type === 'NotificationsReady');
    if (found?.reason !== reason) throw new Error(`expected ${reason}, found ${found?.reason}: ${found?.message}`);
    return found;
  });
}

const events = (): string[] => webhook.received.map(({ body }) => (JSON.parse(body) as { event: string }).event);

it('a version that waits for its approval is sent once, also after a change of leader', async () => {
  await notify([RECEIVER]);
  await start();
  await eventually(async () => expect((await status())?.receivers[0]?.sent).toHaveLength(1));
  await untilCondition('ReceiversReady');
  await stop();
  const next = await start();
  await eventually(async () =>
    expect(await next.metrics()).toContain('brupop_notification_receiver_ready{receiver="ops"} 1'),
  );
  await untilCondition('ReceiversReady');
  expect(events()).toEqual(['WaitsForApproval']);
  expect(JSON.parse(webhook.received[0]?.body ?? '')).toMatchObject({ schemaVersion: 'v1', version: newVersion });
});

it('the controller reads the Secret that the chart names, and no other one, and nothing at rest', async () => {
  const position = await auditPosition(cluster.auditLogPath);
  await notify([RECEIVER]);
  await start();
  await untilCondition('ReceiversReady');
  await eventually(() => expect(events()).toEqual(['WaitsForApproval']));
  await eventually(async () => expect((await status())?.receivers[0]?.sent).toHaveLength(1));
  const requests = (await operatorRequests(cluster.auditLogPath, releaseNamespace, position)).filter(
    ({ resource }) => resource === 'secrets',
  );
  // One for the check of a new receiver, and one for the notification.
  expect(requests.map(({ verb, status: code }) => `${verb} ${code}`)).toEqual(['get 200', 'get 200']);
  const rest = await auditPosition(cluster.auditLogPath);
  await configure(cluster, {
    ...HEALTHY_AT_ONCE,
    rollout: { approval: 'Required' },
    order: 'Random',
    notifications: [RECEIVER],
  });
  await eventually(async () => expect((await readBrupopConfig(cluster)).status?.observedGeneration).toBe(2));
  const later = await operatorRequests(cluster.auditLogPath, releaseNamespace, rest);
  expect(later.filter(({ resource }) => resource === 'secrets')).toEqual([]);
});

it('a Secret without a right is explained, and updates continue', async () => {
  await cluster.api.create(SECRETS, secret('other', { address: webhook.address }));
  await notify([{ ...RECEIVER, secretName: 'other' }], {});
  // As if the value of the chart had been changed without helm upgrade.
  await start([HOOK, 'other']);
  const { message } = await untilCondition('ReceiverNotReady');
  expect(message).toContain('ops: Secret "other" in the namespace');
  expect(message).toContain('the controller has no right to read it');
  await eventually(async () => expect((await readShadow(cluster, 'member')).spec.state).not.toBe('Idle'));
  await cluster.api.delete(`${SECRETS}/other`);
  await stop();
  await deleteMembers(cluster, ['member']);
  await createMember(cluster, 'member');
});

it('a receiver that redirects stops no update, and is notified when it works', async () => {
  const agents = playAgents(cluster);
  webhook.behavior = BEHAVIORS.redirects;
  await notify([RECEIVER], {});
  await start();
  try {
    await eventually(async () => {
      const { nodes } = (await readBrupopConfig(cluster)).status ?? {};
      expect(nodes).toMatchObject({ managed: 1, upToDate: 1 });
    });
    const { message } = await untilCondition('ReceiverNotReady');
    expect(message).toContain('found 307, a redirect');
    expect(message).not.toContain('hidden');
    webhook.behavior = BEHAVIORS.accepts;
    await untilCondition('ReceiversReady');
    expect(new Set(events())).toEqual(new Set(['Finished']));
  } finally {
    await agents.stop();
  }
  expect(webhook.received.every(({ path }) => path === '/services/hidden')).toBe(true);
});

const wrong: Record<string, [receivers: readonly object[], message: RegExp]> = {
  'an address of Slack that everyone can read': [
    [{ ...RECEIVER, format: 'Slack', address: 'https://hooks.example.com/x' }],
    /address.*must not be set with format Slack/u,
  ],
  'neither an address nor a Secret': [[{ ...RECEIVER, secretName: undefined }], /must have address or secretName/u],
  'an address with http': [[{ ...RECEIVER, address: 'http://x.example.com' }], /must begin with https/u],
  'an address with a user': [[{ ...RECEIVER, address: 'https://u:p@x.example.com' }], /address.*should match/u],
  'no event': [[{ ...RECEIVER, events: [] }], /events.*at least 1/u],
  'an event that there is not': [[{ ...RECEIVER, events: ['Started'] }], /Unsupported value: "Started"/u],
  'a name twice': [[RECEIVER, RECEIVER], /[Dd]uplicate (?:value|entries)/u],
  'six receivers': [Array.from({ length: 6 }, (_, i) => ({ ...RECEIVER, name: `r${i}` })), /at most 5/u],
  'a Secret of another namespace': [[{ ...RECEIVER, secretName: 'other/hook' }], /secretName.*should match/u],
};
it.each(Object.entries(wrong))('%s is refused by the API server', async (_, [receivers, message]) => {
  await expect(notify(receivers as Receivers)).rejects.toThrow(message);
});

it('http is taken where it is allowed', async () => {
  const { secretName: _, ...open } = RECEIVER;
  await notify([{ ...open, address: 'http://events.monitoring.svc:8080/brupop', allowHTTP: true }]);
  expect((await readBrupopConfig(cluster)).spec.notifications).toHaveLength(1);
});
