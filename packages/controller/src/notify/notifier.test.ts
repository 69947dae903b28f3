/** Notifications of a leader, and of the next one, to a real server on loopback. */
import { Registry } from 'prom-client';
import type { BrupopConfigStatus, NotificationsStatus } from '@brupop/shared/api/brupop-config';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { eventually } from '../../../../test/framework/eventually.ts';
import { BEHAVIORS, Webhook } from '../../../../test/framework/monitoring/webhook.ts';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { createMetrics } from '../metrics.ts';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW, OLD } from '../testing/objects.ts';
import { wholePlan } from '../whole-plan.ts';
import { Notifier } from './notifier.ts';

const EVENTS = ['Frozen', 'Failed', 'Held', 'Stuck', 'WaitsForApproval', 'Finished'];
const SECRET = 'hook';

let webhook: Webhook;

beforeEach(async () => {
  webhook = await Webhook.start();
});

afterEach(async () => {
  await webhook.stop();
});

const failed = (name: string): ManagedNode =>
  aManagedNode(name, { ready: false }, { record: { failed: { version: NEW, code: 'RolledBack', at: ago(MINUTE) } } });
const updated = (ms: number): ManagedNode =>
  aManagedNode(
    'done',
    {},
    {
      record: { succeeded: { version: NEW, at: ago(ms) } },
      status: { current_version: NEW, target_version: NEW },
    },
  );
const upToDate = updated(MINUTE);
const waiting = aManagedNode('waiting');
const APPROVAL = { rollout: { approval: 'Required' } };

interface Seen {
  readonly nodes?: readonly ManagedNode[];
  readonly spec?: object;
  readonly receivers?: readonly object[];
  readonly status?: BrupopConfigStatus;
}

/** A leader from its start to its {@link Leader.stop}. */
class Leader {
  readonly clock = new FakeClock(NOW);
  readonly lines: string[];
  readonly registry = new Registry();
  readonly notifier: Notifier;
  /** Of the Secret; undefined: it does not exist. */
  data: Readonly<Record<string, string>> | undefined = { address: webhook.address };
  reads = 0;
  reports = 0;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor() {
    const { log, lines } = recordingLogger();
    this.lines = lines;
    this.notifier = new Notifier({
      client: { find: async () => this.#read() as never },
      clock: this.clock,
      log,
      metrics: createMetrics(this.registry),
      namespace: 'brupop',
      secrets: [SECRET],
      proxies: { http: '', https: '', no: '' },
      isLeading: () => true,
      onReport: () => (this.reports += 1),
    });
    this.#ended = this.notifier.run(this.#stop.signal);
  }

  observe({ nodes = [upToDate], spec = {}, receivers = [receiver()], status = {} }: Seen): void {
    const snapshot = aSnapshot(nodes, { ...spec, notifications: receivers });
    const config = snapshot.config && { ...snapshot.config, status };
    const seen = { ...snapshot, config };
    this.notifier.observe(wholePlan(seen, this.clock.now()), seen);
  }

  /** What is written into the status. */
  get status(): NotificationsStatus | undefined {
    const { report } = this.notifier;
    return typeof report === 'object' ? report.status : undefined;
  }

  get condition() {
    const { report } = this.notifier;
    return typeof report === 'object' ? report.condition : undefined;
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('lost leadership'));
    await this.#ended;
  }

  #read(): object | undefined {
    this.reads += 1;
    if (this.data === undefined) return undefined;
    const entries = Object.entries(this.data);
    return { data: Object.fromEntries(entries.map(([key, text]) => [key, Buffer.from(text).toString('base64')])) };
  }
}

function receiver(changes: object = {}): object {
  return { name: 'ops', format: 'JSON', events: EVENTS, secretName: SECRET, allowHTTP: true, ...changes };
}

const sent = async (count: number): Promise<void> => {
  await eventually(() => expect(webhook.received).toHaveLength(count));
};
const ready = async (leader: Leader): Promise<void> => {
  await eventually(() => expect(leader.condition?.reason).toBe('ReceiversReady'));
};
const eventsOf = (): string[] => webhook.received.map(({ body }) => (JSON.parse(body) as { event: string }).event);

test('an event is sent once, also by the next leader', async () => {
  const first = new Leader();
  first.observe({ nodes: [waiting], spec: APPROVAL });
  await sent(1);
  await eventually(() => expect(first.status?.receivers[0]?.sent).toEqual(webhook.ids));
  first.observe({ nodes: [waiting], spec: APPROVAL });
  const status = first.status;
  await first.stop();
  expect(first.notifier.report).toBe('unknown');

  const next = new Leader();
  const recorded = { ...(status !== undefined && { notifications: status }) };
  next.observe({ nodes: [waiting], spec: APPROVAL, status: recorded });
  await ready(next);
  next.observe({ nodes: [waiting], spec: APPROVAL, status: recorded });
  await next.clock.advance(MINUTE);
  await next.stop();
  expect(eventsOf()).toEqual(['WaitsForApproval']);
});

test('a leader that stops before it has recorded an event leaves it to the next one, with the same ID', async () => {
  for (const leader of [new Leader(), new Leader()]) {
    leader.observe({ nodes: [waiting], spec: APPROVAL });
    await eventually(() => expect(leader.status?.receivers[0]?.sent).toHaveLength(1));
    await leader.stop();
  }
  const [first, second, ...others] = webhook.ids;
  expect(second).toBe(first);
  expect(others).toEqual([]);
});

test('a receiver that hangs delays neither the loop nor the end of the leader', async () => {
  webhook.behavior = BEHAVIORS.hangs;
  const leader = new Leader();
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await sent(1);
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await leader.stop();
  expect(webhook.received).toHaveLength(1);
});

test('each receiver has its own events and its own retries', async () => {
  const other = await Webhook.start();
  webhook.behavior = BEHAVIORS.fails;
  const leader = new Leader();
  const receivers = [
    receiver(),
    receiver({ name: 'other', secretName: undefined, address: other.address, cluster: 'prod' }),
    receiver({ name: 'third', secretName: undefined, address: other.address, events: ['Frozen'] }),
  ];
  leader.observe({ nodes: [waiting], spec: APPROVAL, receivers });
  await eventually(() => expect(other.received).toHaveLength(1));
  expect(JSON.parse(other.received[0]?.body ?? '')).toMatchObject({ event: 'WaitsForApproval', cluster: 'prod' });
  await eventually(() => expect(leader.condition?.status).toBe('False'));
  expect(leader.condition).toEqual({
    status: 'False',
    reason: 'ReceiverNotReady',
    message:
      'Updates continue, but these receivers of spec.notifications are not notified: ops: expected status 2xx, found 500',
  });
  webhook.behavior = BEHAVIORS.accepts;
  await leader.clock.advance(5_000);
  await ready(leader);
  await leader.stop();
  await other.stop();
  expect([webhook.received.length, other.received.length]).toEqual([2, 1]);
});

test('a Secret that is missing is explained before there is anything to send, and its creation is seen', async () => {
  const leader = new Leader();
  leader.data = undefined;
  leader.observe({});
  await eventually(() => expect(leader.condition?.message).toContain('it does not exist. Create it'));
  expect(leader.status?.receivers).toMatchObject([{ name: 'ops', state: 'NotReady' }]);
  leader.data = { address: webhook.address };
  await leader.clock.advance(5_000);
  await ready(leader);
  await leader.stop();
  expect(webhook.received).toEqual([]);
});

test('nothing is read, sent or reported at rest', async () => {
  const leader = new Leader();
  leader.observe({});
  await ready(leader);
  const { reads, reports } = leader;
  for (let hours = 0; hours < 24; hours += 1) {
    leader.observe({});
    await leader.clock.advance(60 * MINUTE);
  }
  expect([leader.reads, leader.reports]).toEqual([reads, reports]);
  expect([reads, leader.clock.pending]).toEqual([1, 0]);
  await leader.stop();
});

test('a new receiver is not notified of what failed before, and is of what fails now', async () => {
  const leader = new Leader();
  const spec = { rollout: { failureBudget: 5 } };
  leader.observe({ nodes: [failed('a')], spec });
  await ready(leader);
  leader.observe({ nodes: [failed('a'), failed('b')], spec });
  await sent(1);
  expect(JSON.parse(webhook.received[0]?.body ?? '')).toMatchObject({
    event: 'Failed',
    object: { kind: 'Node', name: 'b' },
  });
  await leader.stop();
});

test.each([[EVENTS], [['Frozen']]])('no failure from before is sent later to one of %j', async (events) => {
  const leader = new Leader();
  const spec = { rollout: { failureBudget: 100 } };
  const nodes = Array.from({ length: 60 }, (_node, index) => failed(`n${index}`));
  leader.observe({ nodes, spec, receivers: [receiver({ events })] });
  await ready(leader);
  const { reports } = leader;
  leader.observe({ nodes, spec, receivers: [receiver({ events })] });
  expect(leader.reports).toBe(reports);
  for (const left of [nodes, nodes.slice(0, 30), nodes.slice(30)]) leader.observe({ nodes: left, spec });
  await ready(leader);
  await leader.clock.advance(MINUTE);
  await leader.stop();
  expect(webhook.received).toEqual([]);
});

test('of more failures than are kept at a time, those that were sent are not sent again when there are fewer', async () => {
  const spec = { rollout: { failureBudget: 100 } };
  const nodes = Array.from({ length: 60 }, (_, index) => failed(`n${index}`));
  const sentTo = async (count: number, from: number): Promise<NotificationsStatus | undefined> => {
    const leader = new Leader();
    leader.observe({ nodes: nodes.slice(from, from + count), spec });
    await ready(leader);
    const { status } = leader;
    await leader.stop();
    return status;
  };
  const [first, second] = [await sentTo(30, 0), await sentTo(30, 30)];
  const both = [first, second].flatMap((one) => one?.receivers[0]?.sent ?? []);
  expect(new Set(both).size).toBe(60);
  const notifications = first && { ...first, receivers: first.receivers.map((one) => ({ ...one, sent: both })) };
  const leader = new Leader();
  const status = { ...(notifications && { notifications }) };
  for (let minutes = 0; minutes < 15; minutes += 5) {
    leader.observe({ nodes, spec, status });
    await leader.clock.advance(5 * MINUTE);
  }
  leader.observe({ nodes: nodes.slice(0, 30), spec, status });
  leader.observe({ nodes: nodes.slice(30), spec, status });
  expect(leader.status?.receivers[0]?.sent).toHaveLength(60);
  await ready(leader);
  await leader.clock.advance(MINUTE);
  await leader.stop();
  expect(webhook.received).toEqual([]);
});

test('a receiver that asks for failures from now on is not notified of those from before', async () => {
  const leader = new Leader();
  const spec = { rollout: { failureBudget: 5 } };
  leader.observe({ nodes: [failed('a')], spec, receivers: [receiver({ events: ['Frozen'] })] });
  await ready(leader);
  leader.observe({ nodes: [failed('a'), failed('b')], spec, receivers: [receiver({ events: ['Frozen'] })] });
  leader.observe({ nodes: [failed('a'), failed('b')], spec });
  leader.observe({ nodes: [failed('a'), failed('b'), failed('c')], spec });
  await sent(1);
  await leader.clock.advance(MINUTE);
  await leader.stop();
  expect(webhook.received.map(({ body }) => (JSON.parse(body) as { object: object }).object)).toEqual([
    { kind: 'Node', name: 'c' },
  ]);
});

test('a receiver that asks for failures while the leader changes is not notified of those from before', async () => {
  const spec = { rollout: { failureBudget: 5 } };
  const first = new Leader();
  first.observe({ spec, receivers: [receiver({ events: ['Frozen'] })] });
  await ready(first);
  first.observe({ nodes: [failed('a')], spec, receivers: [receiver({ events: ['Frozen'] })] });
  const status = { ...(first.status && { notifications: first.status }) };
  await first.stop();
  const next = new Leader();
  next.observe({ nodes: [failed('a')], spec, status });
  next.observe({ nodes: [failed('a'), failed('b')], spec, status });
  await sent(1);
  await next.clock.advance(MINUTE);
  await next.stop();
  expect(webhook.received.map(({ body }) => (JSON.parse(body) as { object: object }).object)).toEqual([
    { kind: 'Node', name: 'b' },
  ]);
});

/** Stops after the receiver has refused a notification. */
async function refusedLeader(): Promise<{ readonly notifications: NotificationsStatus }> {
  webhook.behavior = BEHAVIORS.refusesContent;
  const leader = new Leader();
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await eventually(() => expect(leader.status?.receivers[0]?.sent).toHaveLength(1));
  expect(leader.condition?.reason).toBe('ReceiverNotReady');
  const notifications = leader.status;
  await leader.stop();
  webhook.behavior = BEHAVIORS.accepts;
  if (notifications === undefined) throw new Error('expected a status, found none');
  return { notifications };
}

test('a receiver that refused the last notification is NotReady also for the next leader, until it accepts one', async () => {
  const status = await refusedLeader();
  const next = new Leader();
  const gauge = async (): Promise<string> => await next.registry.metrics();
  next.observe({ nodes: [waiting], spec: APPROVAL, status });
  await eventually(async () => expect(await gauge()).toContain('receiver_ready{receiver="ops"} 0'));
  expect(next.status).toEqual(status.notifications);
  next.observe({ nodes: [waiting, failed('b')], spec: APPROVAL, status });
  await ready(next);
  expect(await gauge()).toContain('receiver_ready{receiver="ops"} 1');
  await next.stop();
  expect(eventsOf()).toEqual(['WaitsForApproval', 'Failed']);
});

test('a receiver that refused the last notification and is changed is as its check finds it', async () => {
  const status = await refusedLeader();
  const next = new Leader();
  next.observe({ nodes: [waiting], spec: APPROVAL, status });
  next.observe({ nodes: [waiting], spec: APPROVAL, receivers: [receiver({ cluster: 'prod' })], status });
  await ready(next);
  await next.stop();
  expect(webhook.received).toHaveLength(1);
});

test('a receiver that refused the last notification and is changed while the leader changes is as its check finds it', async () => {
  const status = await refusedLeader();
  const next = new Leader();
  next.observe({ nodes: [waiting], spec: APPROVAL, receivers: [receiver({ cluster: 'prod' })], status });
  await ready(next);
  await next.stop();
  expect(webhook.received).toHaveLength(1);
});

test('two nodes that claim to be offered one version after the other have few approvals asked for', async () => {
  const leader = new Leader();
  const claiming = (minor: number): ManagedNode[] =>
    ['a', 'b'].map((name) => aManagedNode(name, {}, { status: { target_version: `9.${minor}.0` } }));
  for (let minor = 0; minor < 30; minor += 1) {
    leader.observe({ nodes: [upToDate, ...claiming(minor)], spec: APPROVAL });
    await leader.clock.advance(2_000);
  }
  await sent(10);
  await leader.clock.advance(10 * MINUTE);
  leader.observe({ nodes: [upToDate, ...claiming(99)], spec: APPROVAL });
  await sent(11);
  await leader.stop();
  expect(webhook.received.at(-1)?.body).toContain('9.99.0');
});

test('a node that only claims again and again to need an update finishes no rollout', async () => {
  const claiming = (current_version: string): ManagedNode =>
    aManagedNode('liar', {}, { status: { current_version, target_version: NEW, bootID: 'made-up' } });
  const leader = new Leader();
  for (let claim = 0; claim < 3; claim += 1) {
    leader.observe({ nodes: [upToDate, claiming(OLD)] });
    expect(leader.status?.rolloutStartTime).toBeDefined();
    await leader.clock.advance(2_000);
    leader.observe({ nodes: [upToDate, claiming(NEW)] });
    expect(leader.status?.rolloutStartTime).toBeUndefined();
    await leader.clock.advance(2_000);
  }
  await ready(leader);
  await leader.stop();
  expect(eventsOf()).toEqual([]);
});

test('the end of a rollout is sent once, also if the leader changes in between', async () => {
  const first = new Leader();
  first.observe({ nodes: [upToDate, waiting], spec: { paused: true } });
  await ready(first);
  expect(first.status?.rolloutStartTime).toBe(ago(0));
  const notifications = first.status;
  await first.stop();

  const next = new Leader();
  const status = { ...(notifications && { notifications }) };
  next.observe({ nodes: [updated(0)], status });
  await sent(1);
  await ready(next);
  next.observe({ nodes: [updated(0)], status });
  expect(next.status?.rolloutEndTime).toBe(ago(0));
  await next.clock.advance(60 * MINUTE);
  next.observe({ nodes: [updated(0)], status });
  expect(next.status?.rolloutEndTime).toBeUndefined();
  await next.stop();
  expect(eventsOf()).toEqual(['Finished']);
});

test('a receiver that was removed is neither reported nor sent to', async () => {
  webhook.behavior = BEHAVIORS.fails;
  const leader = new Leader();
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await sent(1);
  leader.observe({ nodes: [waiting], spec: APPROVAL, receivers: [] });
  expect(leader.notifier.report).toBeUndefined();
  await leader.clock.advance(60 * MINUTE);
  expect(webhook.received).toHaveLength(1);
  expect(await leader.registry.metrics()).not.toContain('receiver_ready{');
  await leader.stop();
});

test('an attempt that fails after its receiver was removed shows nothing', async () => {
  webhook.behavior = BEHAVIORS.hangs;
  const leader = new Leader();
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await sent(1);
  leader.observe({ nodes: [waiting], spec: APPROVAL, receivers: [] });
  await leader.clock.advance(10_000);
  await eventually(async () =>
    expect(await leader.registry.metrics()).toContain('failures_total{receiver="ops",reason="Timeout"} 1'),
  );
  expect(await leader.registry.metrics()).not.toContain('receiver_ready{');
  await leader.stop();
});

test('an attempt that fails after its receiver was removed says nothing of another one with its name', async () => {
  const other = await Webhook.start();
  webhook.behavior = BEHAVIORS.hangs;
  const leader = new Leader();
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await sent(1);
  leader.observe({ nodes: [waiting], spec: APPROVAL, receivers: [] });
  const receivers = [receiver({ secretName: undefined, address: other.address })];
  leader.observe({ nodes: [waiting], spec: APPROVAL, receivers });
  await eventually(() => expect(other.received).toHaveLength(1));
  await ready(leader);
  await leader.clock.advance(10_000);
  await eventually(async () =>
    expect(await leader.registry.metrics()).toContain('failures_total{receiver="ops",reason="Timeout"} 1'),
  );
  expect(await leader.registry.metrics()).toContain('receiver_ready{receiver="ops"} 1');
  expect(leader.condition?.reason).toBe('ReceiversReady');
  await leader.stop();
  await other.stop();
});

test('what a receiver accepts after it was removed is sent to another one with its name', async () => {
  const other = await Webhook.start();
  const open: (() => void)[] = [];
  webhook.behavior = (response) => open.push(() => response.end('ok'));
  const leader = new Leader();
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await sent(1);
  leader.observe({ nodes: [waiting], spec: APPROVAL, receivers: [] });
  other.behavior = BEHAVIORS.isBusy;
  const receivers = [receiver({ secretName: undefined, address: other.address })];
  leader.observe({ nodes: [waiting], spec: APPROVAL, receivers });
  await eventually(() => expect(leader.condition?.reason).toBe('ReceiverNotReady'));
  open[0]?.();
  await eventually(async () => expect(await leader.registry.metrics()).toContain('result="Sent"} 1'));
  expect(leader.status?.receivers[0]).toMatchObject({ name: 'ops', state: 'NotReady' });
  expect(leader.status?.receivers[0]?.sent).toBeUndefined();
  await leader.stop();
  await other.stop();
});

test('no log line, status or metric has the address or the token', async () => {
  const leader = new Leader();
  leader.data = { address: webhook.address, token: 'hidden', headers: 'X-Key: hidden' };
  const behaviors = [BEHAVIORS.fails, BEHAVIORS.redirects, BEHAVIORS.closes];
  webhook.behavior = (response) => void (behaviors.shift() ?? BEHAVIORS.accepts)(response);
  leader.observe({ nodes: [waiting], spec: APPROVAL });
  await eventually(async () => {
    // Less than the time limit of an attempt, which waits for a real server.
    await leader.clock.advance(1_000);
    expect(leader.status?.receivers[0]?.sent).toHaveLength(1);
  });
  const shown = [...leader.lines, JSON.stringify(leader.notifier.report), await leader.registry.metrics()].join('\n');
  expect(webhook.received.at(-1)?.headers).toMatchObject({ authorization: 'Bearer hidden', 'x-key': 'hidden' });
  expect(shown).not.toContain('hidden');
  expect(shown).toContain('brupop_notifications_total{receiver="ops",result="Sent"} 1');
  expect(shown).toContain('brupop_notification_failures_total{receiver="ops",reason="ServerError"} 1');
  expect(shown).toContain('brupop_notification_receiver_ready{receiver="ops"} 1');
  await leader.stop();
});
