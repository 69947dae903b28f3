/** Silences of a leader, and of the next one, in an Alertmanager on loopback. */
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { eventually } from '../../../../test/framework/eventually.ts';
import { type SilenceStore, startAlertmanager } from '../../../../test/framework/monitoring/silences.ts';
import { BEHAVIORS, type Webhook } from '../../../../test/framework/monitoring/webhook.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { MINUTE, NOW } from '../testing/objects.ts';
import { aRebootingNode } from '../testing/silences.ts';
import { SilencingLeader } from '../testing/silencing-leader.ts';
import { MAX_ENTRIES } from './entries.ts';

let server: Webhook;
let clock: FakeClock;
let store: SilenceStore;
const leaders: SilencingLeader[] = [];

beforeEach(async () => {
  clock = new FakeClock(NOW);
  ({ server, store } = await startAlertmanager(() => clock.now()));
});

afterEach(async () => {
  await Promise.all(leaders.splice(0).map((leader) => leader.stop()));
  await server.stop();
});

function start(): SilencingLeader {
  const leader = new SilencingLeader(clock);
  leaders.push(leader);
  return leader;
}

const settings = (changes: object = {}): object => ({ addresses: [server.address], allowHTTP: true, ...changes });
const away = aRebootingNode('a');
const returned = aRebootingNode('a', { state: 'MonitoringUpdate' });
const silenced = (): unknown[] =>
  store.active.map(({ matchers: [first] }) => (first as { readonly value: string }).value).toSorted();
const until = async (...nodes: string[]): Promise<void> => await eventually(() => expect(silenced()).toEqual(nodes));
const untilReason = async (leader: SilencingLeader, reason: string): Promise<void> =>
  await eventually(() => expect(leader.condition?.reason).toBe(reason));
const requests = async (count: number): Promise<void> =>
  await eventually(() => expect(server.received).toHaveLength(count));
const ended = async (leader: SilencingLeader, count: number): Promise<void> =>
  await eventually(async () => expect(await leader.metrics()).toContain(`result="Ended"} ${count}`));
const minutesLeft = (): number[] =>
  store.active.map(({ endsAt }) => Math.round((Date.parse(endsAt) - clock.now()) / MINUTE));

test('a node that is away is silenced, again after 15 minutes with the same silence, and not when it has returned', async () => {
  const leader = start();
  leader.observe([away], settings());
  await until('a');
  const [first] = store.active;
  await untilReason(leader, 'AlertmanagerReady');
  await clock.advance(15 * MINUTE);
  await eventually(() => expect(minutesLeft()).toEqual([25]));
  expect(store.active.map(({ id }) => id)).toEqual([first?.id]);
  leader.observe([returned], settings());
  await until();
  await eventually(async () => {
    const metrics = await leader.metrics();
    for (const result of ['Created', 'Prolonged', 'Ended'])
      expect(metrics).toContain(`brupop_controller_silences_total{result="${result}"} 1`);
    expect(metrics).toContain('brupop_controller_silences_ready 1');
  });
  expect(leader.condition?.status).toBe('True');
});

test('nothing is sent at rest, after one look at Alertmanager', async () => {
  const leader = start();
  leader.observe([returned, aRebootingNode('b', { state: 'StagedAndPerformedUpdate' })], settings());
  await untilReason(leader, 'AlertmanagerReady');
  // For the node that has returned: a former leader may have left its silence.
  await requests(1);
  for (let hour = 0; hour < 24; hour += 1) {
    leader.observe([returned], settings());
    await clock.advance(60 * MINUTE);
  }
  expect([server.received.length, clock.pending, leader.reports]).toEqual([1, 0, 2]);
});

test('without an Alertmanager there is neither a request nor a condition nor a value', async () => {
  const leader = start();
  expect(leader.silencer.report).toBe('unknown');
  leader.observe([away], {});
  await clock.advance(60 * MINUTE);
  expect([leader.silencer.report, server.received, clock.pending]).toEqual([undefined, [], 0]);
  expect(await leader.metrics()).not.toMatch(/^brupop_controller_silences_ready /mu);
});

describe('a new leader', () => {
  it('continues the silence of a node that is away', async () => {
    const first = start();
    first.observe([away], settings());
    await until('a');
    await first.stop();
    const [before] = store.active;
    await clock.advance(10 * MINUTE);
    expect(silenced()).toEqual(['a']);
    start().observe([away], settings());
    await eventually(() => expect(minutesLeft()).toEqual([25]));
    expect(store.active.map(({ id }) => id)).toEqual([before?.id]);
  });

  it('ends the silence of a node that has returned, and leaves those of others', async () => {
    const first = start();
    first.observe([away, aRebootingNode('b')], settings());
    await until('a', 'b');
    const [own] = store.active;
    await first.stop();
    store.add({ matchers: own?.matchers ?? [], createdBy: 'a user', comment: '' }, 60 * MINUTE);
    start().observe([returned, aRebootingNode('b')], settings());
    await eventually(() => expect(store.active.map(({ createdBy }) => createdBy).toSorted()).toHaveLength(2));
    await eventually(() => expect(silenced()).toEqual(['a', 'b']));
    expect(store.active.find(({ id }) => id === own?.id)).toBeUndefined();
  });

  it('that finds no silence of a node that has returned does nothing more', async () => {
    const leader = start();
    leader.observe([returned], settings());
    await untilReason(leader, 'AlertmanagerReady');
    leader.observe([returned], settings());
    await clock.advance(MINUTE);
    expect(server.received.map(({ method }) => method)).toEqual(['GET']);
  });
});

test('a leader that stops leaves its silences, which end by themselves', async () => {
  const leader = start();
  leader.observe([away], settings());
  await until('a');
  await leader.stop();
  expect(silenced()).toEqual(['a']);
  await clock.advance(25 * MINUTE);
  expect(silenced()).toEqual([]);
});

test('an Alertmanager that hangs keeps neither the loop nor a leader that stops', async () => {
  server.behavior = BEHAVIORS.hangs;
  const leader = start();
  leader.observe([away], settings());
  await requests(1);
  leader.observe([away, aRebootingNode('b')], settings());
  await leader.stop();
  expect([server.received.length, leader.silencer.report]).toEqual([1, 'unknown']);
});

/** How long it waits after each of the failures so far, milliseconds. */
function pausesIn(lines: readonly string[]): number[] {
  return lines.flatMap((line) => (JSON.parse(line) as { readonly retryInMs?: number }).retryInMs ?? []);
}

/** Returns how long it waits after so many failures, milliseconds. */
async function untilFailed(leader: SilencingLeader, failures: number): Promise<number> {
  await eventually(() => expect(pausesIn(leader.lines)).toHaveLength(failures));
  return pausesIn(leader.lines).at(-1) ?? 0;
}

test('failures are retried after 5 seconds to a minute, one request at a time, and explained', async () => {
  server.behavior = BEHAVIORS.fails;
  const leader = start();
  const nodes = ['a', 'b', 'c'].map((name) => aRebootingNode(name));
  leader.observe(nodes, settings());
  await untilReason(leader, 'AlertmanagerNotReady');
  expect(leader.condition).toMatchObject({
    status: 'False',
    message: 'Updates continue, but alerts about nodes that are away are not silenced: expected status 2xx, found 500',
  });
  const pauses: number[] = [];
  for (let failures = 1; failures <= 6; failures += 1) {
    const pauseMs = await untilFailed(leader, failures);
    expect(server.received).toHaveLength(failures);
    await clock.advance(pauseMs - 1);
    expect(server.received).toHaveLength(failures);
    await clock.advance(1);
    pauses.push(pauseMs);
  }
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(5_000);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(60_000);
  expect(Math.min(...pauses.slice(3))).toBeGreaterThanOrEqual(30_000);
  const lastMs = await untilFailed(leader, 7);
  server.behavior = store.behavior;
  await clock.advance(lastMs);
  await until('a', 'b', 'c');
  await untilReason(leader, 'AlertmanagerReady');
  expect(await leader.metrics()).toMatch(/silence_failures_total\{reason="ServerError"\} \d+/u);
});

test('a silence that Alertmanager refuses does not keep others from being set', async () => {
  server.behavior = (response, request) =>
    request.method === 'POST' && request.body.includes('"a"')
      ? response.writeHead(400).end('refused')
      : store.behavior(response, request);
  const leader = start();
  leader.observe([away, aRebootingNode('b')], settings());
  await untilReason(leader, 'AlertmanagerNotReady');
  await clock.advance(10_000);
  await until('b');
  await eventually(async () => expect(await leader.metrics()).toContain('silences_total{result="Created"} 1'));
});

test('a node that leaves again while its silence is being ended is silenced five minutes later', async () => {
  const leader = start();
  leader.observe([away], settings());
  await until('a');
  const open: (() => void)[] = [];
  server.behavior = (response, request) => {
    const answer = (): void => store.behavior(response, request);
    if (request.method === 'DELETE') open.push(answer);
    else answer();
  };
  leader.observe([returned], settings());
  await eventually(() => expect(open).toHaveLength(1));
  leader.observe([away], settings());
  open[0]?.();
  await ended(leader, 1);
  expect(silenced()).toEqual([]);
  await clock.advance(5 * MINUTE);
  await until('a');
});

test('an agent that claims in turn to reboot and to have returned gets a silence every five minutes', async () => {
  const leader = start();
  leader.observe([away], settings());
  await until('a');
  const others: string[] = [];
  for (let claim = 1; claim <= 3; claim += 1) {
    const nodes = (): ManagedNode[] => others.map((name) => aRebootingNode(name));
    leader.observe([returned, ...nodes()], settings());
    await ended(leader, 1);
    // One after the other: what was due before has been requested.
    others.push(`b${claim}`);
    leader.observe([away, ...nodes()], settings());
    await until(...others);
  }
  expect(silenced()).toEqual(others);
  await clock.advance(5 * MINUTE);
  await until('a', ...others);
});

test('a node that a new leader finds activating its update is silenced when it reboots', async () => {
  const leader = start();
  leader.observe([aRebootingNode('a', { operation: { operation: 'Activate' } })], settings());
  await untilReason(leader, 'AlertmanagerReady');
  leader.observe([away], settings());
  await eventually(() => expect(silenced()).toEqual(['a']));
});

test('what cannot be ended is tried until it has ended by itself', async () => {
  const leader = start();
  leader.observe([away], settings());
  await until('a');
  server.behavior = BEHAVIORS.refuses;
  leader.observe([returned], settings());
  await untilReason(leader, 'AlertmanagerNotReady');
  let failures = 1;
  for (; clock.monotonic() < 26 * MINUTE; failures += 1) await clock.advance(await untilFailed(leader, failures));
  const lastMs = await untilFailed(leader, failures);
  server.behavior = store.behavior;
  const before = server.received.length;
  await clock.advance(lastMs);
  await untilReason(leader, 'AlertmanagerReady');
  // The look at an Alertmanager that had failed.
  expect(server.received.slice(before).map(({ path }) => decodeURIComponent(path ?? ''))).toEqual([
    '/services/hidden/api/v2/silences?filter=node="-"',
  ]);
});

describe('other settings', () => {
  it('set what is away again at once', async () => {
    const { server: other, store: others } = await startAlertmanager(() => clock.now());
    const leader = start();
    leader.observe([away], settings());
    await until('a');
    leader.observe([away], settings({ addresses: [other.address] }));
    await eventually(() => expect(others.active).toHaveLength(1));
    await leader.stop();
    await other.stop();
  });

  it('are tried at once, whatever could not be ended with the former ones', async () => {
    const { server: former } = await startAlertmanager(() => clock.now());
    former.behavior = BEHAVIORS.fails;
    const names = ['a', 'b', 'c', 'd'];
    const leader = start();
    leader.observe(
      names.map((name) => aRebootingNode(name)),
      settings({ addresses: [former.address] }),
    );
    await clock.advance(await untilFailed(leader, 1));
    const back = names.map((name) => aRebootingNode(name, { state: 'MonitoringUpdate' }));
    leader.observe(back, settings({ addresses: [former.address] }));
    await untilFailed(leader, 2);
    leader.observe([...back, aRebootingNode('x')], settings());
    await until('x');
    expect(former.received.length).toBeLessThan(5);
    await untilReason(leader, 'AlertmanagerReady');
    await leader.stop();
    await former.stop();
  });

  it('are tried at once when an attempt with the former ones fails', async () => {
    const { server: former } = await startAlertmanager(() => clock.now());
    const open: (() => void)[] = [];
    former.behavior = (response) => open.push(() => response.writeHead(500).end());
    const leader = start();
    leader.observe([away], settings({ addresses: [former.address] }));
    await eventually(() => expect(open).toHaveLength(1));
    leader.observe([away], settings());
    open[0]?.();
    await until('a');
    expect(former.received).toHaveLength(1);
    await leader.stop();
    await former.stop();
  });

  it('with other matchers replace the silences', async () => {
    const leader = start();
    leader.observe([away], settings());
    await until('a');
    leader.observe([away], settings({ matchers: [{ name: 'cluster', value: 'prod' }] }));
    await eventually(() => expect(store.active.map(({ matchers }) => matchers.length)).toEqual([2]));
  });

  it('without an Alertmanager end the silences, and the condition', async () => {
    const leader = start();
    leader.observe([away], settings());
    await until('a');
    leader.observe([away], {});
    await until();
    expect(leader.silencer.report).toBeUndefined();
    expect(await leader.metrics()).not.toMatch(/^brupop_controller_silences_ready /mu);
  });

  it('that name a Secret that does not exist are explained before a node is away, and its creation is seen', async () => {
    const leader = start();
    leader.observe([], { secretName: 'am', allowHTTP: true });
    await untilReason(leader, 'AlertmanagerNotReady');
    expect(leader.condition?.message).toContain('Secret "am" in the namespace brupop: it does not exist. Create it');
    leader.data = { address: server.address, token: 'hidden' };
    await clock.advance(10_000);
    await untilReason(leader, 'AlertmanagerReady');
    expect(server.received[0]?.headers).toMatchObject({ authorization: 'Bearer hidden' });
    const shown = [...leader.lines, JSON.stringify(leader.condition), await leader.metrics()].join('\n');
    expect(shown).not.toContain('hidden');
  });
});

test('of too many nodes, those that were away first are silenced, and the log says so once', async () => {
  const leader = start();
  server.behavior = BEHAVIORS.hangs;
  const nodes = Array.from({ length: MAX_ENTRIES + 1 }, (_, index) => aRebootingNode(`n${index}`));
  leader.observe(nodes, settings());
  leader.observe(nodes, settings());
  expect(leader.lines.filter((line) => line.includes('are not silenced'))).toHaveLength(1);
});
