/** Silences in a real Alertmanager, by one leader and the next one. The clock of the leaders is a test's. */
import { jest } from '@jest/globals';
import { aRebootingNode } from '../../../packages/controller/src/testing/silences.ts';
import { SilencingLeader } from '../../../packages/controller/src/testing/silencing-leader.ts';
import { FakeClock } from '../../../packages/shared/src/testing/fake-clock.ts';
import { eventually } from '../../framework/eventually.ts';
import { type Monitoring, OBTAIN_LIMIT_MS, startMonitoring } from '../../framework/monitoring/real.ts';

jest.setTimeout(60_000);

const MINUTE = 60_000;
const ALERT = { alertname: 'KubeNodeNotReady', node: 'a', cluster: 'prod' };
const away = aRebootingNode('a');
const returned = aRebootingNode('a', { state: 'MonitoringUpdate' });

interface Silence {
  readonly id: string;
  readonly createdBy: string;
  readonly endsAt: string;
  readonly status: { readonly state: string };
}

interface Alert {
  readonly labels: Readonly<Record<string, string>>;
  readonly status: { readonly state: string; readonly silencedBy: readonly string[] };
}

let monitoring: Monitoring;
let clock: FakeClock;
const leaders: SilencingLeader[] = [];

beforeAll(async () => {
  monitoring = await startMonitoring();
}, OBTAIN_LIMIT_MS);

beforeEach(() => {
  clock = new FakeClock(Date.now());
});

afterEach(async () => await Promise.all(leaders.splice(0).map((leader) => leader.stop())));

afterAll(async () => await monitoring.stop());

function start(): SilencingLeader {
  const leader = new SilencingLeader(clock);
  leaders.push(leader);
  return leader;
}

/** Of the cluster `prod`. */
const settings = (changes: object = {}): object => ({
  addresses: [`${monitoring.alertmanagerUrl}/`],
  allowHTTP: true,
  matchers: [{ name: 'cluster', operator: 'Matches', value: 'prod|test' }],
  ...changes,
});

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${monitoring.alertmanagerUrl}/api/v2/${path}`);
  return (await response.json()) as T;
}

async function activeSilences(): Promise<Silence[]> {
  return (await get<Silence[]>('silences')).filter(({ status }) => status.state === 'active');
}

const own = async (count: number): Promise<Silence[]> =>
  await eventually(async () => {
    const found = (await activeSilences()).filter(({ createdBy }) => createdBy === 'bottlerocket-update-operator');
    expect(found).toHaveLength(count);
    return found;
  });

async function alertState(labels: Readonly<Record<string, string>>): Promise<Alert['status']> {
  const alerts = await get<Alert[]>('alerts');
  const found = alerts.find(
    (one) => one.labels['node'] === labels['node'] && one.labels['cluster'] === labels['cluster'],
  );
  if (found === undefined) throw new Error('the alert is not there');
  return found.status;
}

it('an alert about the node is silenced while it is away, and no other one', async () => {
  const others = [
    { ...ALERT, node: 'b' },
    { ...ALERT, cluster: 'other' },
  ];
  for (const labels of [ALERT, ...others]) await monitoring.fireAlert(labels);
  const leader = start();
  leader.observe([away], settings());
  const [silence] = await own(1);
  await eventually(async () =>
    expect(await alertState(ALERT)).toMatchObject({ state: 'suppressed', silencedBy: [silence?.id] }),
  );
  for (const labels of others) expect((await alertState(labels)).silencedBy).toEqual([]);
  leader.observe([returned], settings());
  await own(0);
  await eventually(async () => expect((await alertState(ALERT)).silencedBy).toEqual([]));
});

it('a silence is prolonged with the same ID', async () => {
  const leader = start();
  leader.observe([away], settings());
  const [before] = await own(1);
  await eventually(() => expect(leader.condition?.reason).toBe('AlertmanagerReady'));
  await clock.advance(15 * MINUTE);
  await eventually(async () => {
    const [now] = await own(1);
    expect(now?.id).toBe(before?.id);
    expect(Date.parse(now?.endsAt ?? '') - Date.parse(before?.endsAt ?? '')).toBe(15 * MINUTE);
  });
  leader.observe([returned], settings());
  await own(0);
});

it('a new leader continues a silence, and ends it when the node has returned', async () => {
  const first = start();
  first.observe([away], settings());
  const [before] = await own(1);
  await first.stop();
  await clock.advance(2 * MINUTE);
  const second = start();
  second.observe([away], settings());
  await eventually(() => expect(second.lines.join('')).toContain('"result":"Prolonged"'));
  expect((await own(1)).map(({ id }) => id)).toEqual([before?.id]);
  await second.stop();
  start().observe([returned], settings());
  await own(0);
});

it('a silence of a user with the same matchers is left alone', async () => {
  const endSilence = await monitoring.silence('node', 'a');
  const simple = settings({ matchers: [] });
  const leader = start();
  leader.observe([away], simple);
  await own(1);
  leader.observe([returned], simple);
  await own(0);
  expect((await activeSilences()).map(({ createdBy }) => createdBy)).toEqual(['a user']);
  await endSilence();
});

it('a regular expression that Alertmanager does not take is explained', async () => {
  const leader = start();
  leader.observe([away], settings({ matchers: [{ name: 'cluster', operator: 'Matches', value: '(' }] }));
  await eventually(() => expect(leader.condition?.message).toContain('expected status 2xx, found 400'));
  await own(0);
});

it('a clock that is minutes ahead of that of Alertmanager delays no silence', async () => {
  clock.step(5 * MINUTE);
  const leader = start();
  leader.observe([away], settings());
  const [silence] = await own(1);
  expect(silence?.status.state).toBe('active');
  leader.observe([returned], settings());
  await own(0);
});
