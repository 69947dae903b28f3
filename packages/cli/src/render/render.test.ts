import { readFileSync } from 'node:fs';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { historyKey, type PastUpdate } from '@brupop/shared/api/history';
import { RECORD_ANNOTATION } from '@brupop/shared/api/names';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { RELEASE } from '@brupop/shared/runtime/build';
import { parseTime } from '@brupop/shared/runtime/clock';
import { explainLines } from './explain.ts';
import { gateLines } from './gates.ts';
import { historyLines, historyOf } from './history.ts';
import { planLines } from './plan.ts';
import { fittingLines, statusLines } from './status.ts';

const now = parseTime('2026-11-28T12:00:00Z') ?? 0;

function shadow(
  name: string,
  [status, reason]: readonly ['True' | 'False', string],
  more: object = {},
  record: object = {},
  annotations: Record<string, string> = {},
): BottlerocketShadow {
  return {
    metadata: {
      name: `brs-${name}`,
      uid: name,
      resourceVersion: '1',
      annotations: { [RECORD_ANNOTATION]: JSON.stringify(record), ...annotations },
    },
    spec: { state: 'Idle' },
    status: {
      current_state: 'Idle',
      crash_count: 0,
      observedGeneration: 1,
      bootID: 'b',
      current_version: '1.20.3',
      target_version: '1.21.0',
      conditions: [
        {
          type: 'Progressing',
          status,
          reason,
          message: `The reason is ${reason}`,
          lastTransitionTime: '2026-11-28T11:00:00Z',
        },
      ],
      ...more,
    },
  };
}

function past(more: Partial<PastUpdate>): PastUpdate {
  const seconds = { StagedAndPerformedUpdate: 130, RebootedIntoUpdate: 520, MonitoringUpdate: 240 };
  return { start: '', end: '', from: '1.20.3', to: '1.21.0', outcome: '', attempt: 1, seconds, ...more };
}

function pastUpdates(all: readonly PastUpdate[]): Record<string, string> {
  return Object.fromEntries(all.map((one, number) => [historyKey(number), JSON.stringify(one)]));
}

const shadows = [
  shadow(
    'ip-10-0-1-17.eu-central-1.compute.internal',
    ['False', 'UpToDate'],
    { current_version: '1.21.0' },
    {
      succeeded: { version: '1.21.0', at: '2026-11-28T10:00:00Z' },
    },
    pastUpdates([
      past({ start: '2026-11-28T09:45:10Z', end: '2026-11-28T10:00:00Z', outcome: 'Succeeded', group: 'workers' }),
      past({
        start: '2026-11-20T09:45:00Z',
        end: '2026-11-20T09:50:00Z',
        from: '1.19.5',
        to: '1.20.3',
        outcome: 'Succeeded',
      }),
    ]),
  ),
  shadow('ip-10-0-1-18.eu-central-1.compute.internal', ['True', 'Updating'], {
    waitingFor: 'DisruptionBudget of default/web-0 since 11:50Z',
    drain: {
      observedGeneration: 1,
      startTime: '2026-11-28T11:50:00Z',
      evicted: 3,
      remaining: 1,
      blockedBy: [
        {
          pod: 'default/web-0',
          reason: 'DisruptionBudget',
          message: 'the budget web allows no eviction',
          since: '2026-11-28T11:50:00Z',
        },
      ],
    },
  }),
  shadow(
    'ip-10-0-1-19.eu-central-1.compute.internal',
    ['False', 'Backoff'],
    {
      crash_count: 2,
      waitingFor: 'Backoff until 12:30Z',
      lastOperation: {
        operation: 'Reboot',
        state: 'Failed',
        version: '1.21.0',
        bootID: 'b',
        startTime: '2026-11-28T11:20:00Z',
        lastUpdateTime: '2026-11-28T11:30:00Z',
        errorCode: 'RolledBack',
        message: 'the host booted \u001B[31m1.20.3 again',
      },
    },
    { failed: { version: '1.21.0', code: 'RolledBack', at: '2026-11-28T11:30:00Z' }, unsuccessful: 2 },
    pastUpdates([
      past({
        start: '2026-11-28T11:05:00Z',
        end: '2026-11-28T11:30:00Z',
        outcome: 'Failed',
        code: 'RolledBack',
        attempt: 2,
      }),
    ]),
  ),
] as const;

const config: BrupopConfig = {
  metadata: { name: 'cluster', uid: 'c', resourceVersion: '1' },
  spec: { paused: true, pauseReason: 'change freeze' },
  status: {
    nodes: { managed: 3, upToDate: 1, updating: 1, waiting: 0, failed: 1 },
    expectedCompletionTime: '2026-11-28T14:05:00Z',
    frozenVersions: [{ version: '1.21.0', since: '2026-11-28T11:31:00Z' }],
    plan: [
      {
        node: 'ip-10-0-1-19.eu-central-1.compute.internal',
        version: '1.21.0',
        reason: 'Backoff',
        expectedTime: '2026-11-28T14:05:00Z',
      },
      { node: 'ip-10-0-1-20.eu-central-1.compute.internal', reason: 'WaitingForCapacity' },
    ],
  },
};

/** Of an operator that this plugin cannot know. */
const skewed: BrupopConfig = { ...config, status: { ...config.status, observedGeneration: 1, release: '99.1.0' } };

const outputs = {
  status: (width: number) => statusLines({ config, shadows }, { now, screen: screen(width) }),
  'status-skewed': (width: number) => statusLines({ config: skewed, shadows }, { now, screen: screen(width) }),
  explain: (width: number) => shadows.flatMap((one) => [...explainLines(one, now, screen(width)), '']),
  plan: (width: number) => planLines(config, now, screen(width)),
  history: (width: number) => historyLines(historyOf(shadows), screen(width)),
} as const;

function screen(width: number) {
  return { width, hasColors: false };
}

it('what stops the fleet is shown once: a frozen version has a line of its own', () => {
  const condition = (type: string, status: 'True' | 'False', reason: string, message: string) => {
    return { type, status, reason, message, lastTransitionTime: '2026-11-28T11:31:00Z' };
  };
  const conditions = [
    condition('Connected', 'False', 'Disconnected', 'most nodes are silent'),
    condition('Frozen', 'True', 'WatchStale', 'the watch of nodes is stale'),
    condition('Held', 'False', 'NotHeld', 'no version is held'),
  ];
  const shown = (changed: typeof conditions): string[] => {
    const stopped = { ...config, status: { ...config.status, conditions: changed } };
    return statusLines({ config: stopped, shadows }, { now, screen: screen(120) });
  };
  expect(shown(conditions)).toEqual(
    expect.arrayContaining(['Not connected: most nodes are silent', 'Frozen: the watch of nodes is stale']),
  );
  expect(shown([condition('Frozen', 'True', 'FailureBudgetExceeded', 'x')])).toEqual(shown([]));
});

it('shows each part of the operator that does not work', () => {
  const conditions = [
    'CertificateReady',
    'DependentsAvailable',
    'RecoveryReady',
    'NotificationsReady',
    'SilencesReady',
  ];
  const shown = (status: 'True' | 'False'): string[] => {
    const all = conditions.map((type) => {
      return { type, status, reason: 'x', message: `why of ${type}`, lastTransitionTime: '2026-11-28T11:31:00Z' };
    });
    const changed = { ...config, status: { ...config.status, conditions: all } };
    return statusLines({ config: changed, shadows }, { now, screen: screen(120) });
  };
  expect(shown('False')).toEqual(expect.arrayContaining(conditions.map((type) => `${type} is False: why of ${type}`)));
  expect(shown('True')).toEqual(outputs.status(120));
});

it.each([
  [7, 0, 'Configuration: no controller has reported on the configuration (generation 7). If this lasts'],
  [7, 6, 'Configuration: no controller has seen its latest change yet (generation 7). If this lasts'],
  [7, 7, ''],
])('of generation %i, of which controllers have seen %i, status says %j', (generation, observedGeneration, text) => {
  const metadata = { ...config.metadata, generation };
  const changed = { ...config, metadata, status: { ...config.status, observedGeneration, release: RELEASE } };
  const lines = statusLines({ config: changed, shadows }, { now, screen: screen(200) });
  const found = lines.filter((line) => line.startsWith('Configuration:')).join('\n');
  expect(found.split(', see whether')[0]).toBe(text);
});

const cases = Object.keys(outputs).flatMap((name) =>
  [80, 120].map((width) => [name as keyof typeof outputs, width] as const),
);

it.each(cases)('%s at %i columns is as in the golden file', (name, width) => {
  const lines = outputs[name](width);
  const golden = readFileSync(new URL(`golden/${name}-${width}.txt`, import.meta.url), 'utf8');
  expect(`${lines.join('\n')}\n`).toBe(golden);
  expect(lines.filter((line) => line.length > width)).toEqual([]);
});

it('has colors only where the screen has them', () => {
  const lines = statusLines({ config, shadows }, { now, screen: { width: 80, hasColors: true } });
  expect(lines.join('\n')).toContain('\u001B[33mPaused: change freeze\u001B[0m');
  expect(outputs.status(80).join('\n')).not.toContain('\u001B');
});

it('prints no characters of objects that steer a terminal', () => {
  expect(outputs.explain(80).join('\n')).not.toContain('\u001B');
});

it('shows nodes without a status, and a fleet without a configuration', () => {
  const bare: BottlerocketShadow = {
    metadata: { name: 'brs-a', uid: 'a', resourceVersion: '1' },
    spec: { state: 'Idle' },
  };
  const lines = statusLines({ config: undefined, shadows: [bare] }, { now, screen: screen(80) });
  expect(lines).toContain('a     Unknown');
  expect(lines).toContain('There is no BrupopConfig named cluster: no node starts an update.');
});

it.each([
  ['without a configuration', undefined, 'There is no BrupopConfig named cluster: no node starts an update.'],
  [
    'on which no controller has reported',
    { observedGeneration: 0 },
    'No controller has reported on the configuration: there is no plan.',
  ],
  ['in which all nodes are up to date', { observedGeneration: 1 }, 'No node waits for an update.'],
  [
    'whose agents are silent',
    { observedGeneration: 1, nodes: { managed: 3, upToDate: 0, updating: 0, waiting: 2, failed: 1 } },
    'No node updates next (waiting or failed: 3): see "kubectl brupop status".',
  ],
])('the plan of a cluster %s says so', (_, status, text) => {
  const found = status && { metadata: config.metadata, spec: {}, status };
  expect(planLines(found, now, screen(80))).toEqual([text]);
});

it('without shadows, also a controller that does not run may be the cause', () => {
  const lines = statusLines({ config, shadows: [] }, { now, screen: screen(80) });
  expect(lines.join(' ')).toContain('or no controller has created its shadow');
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
});

it('with -o wide nothing is cut', () => {
  const lines = statusLines({ config, shadows }, { now, screen: screen(80), isWide: true });
  expect(lines.join('\n')).toContain('DisruptionBudget of default/web-0 since 11:50Z');
});

it('shows the step of a node that updates, and no step of the update before', () => {
  const during = (version: string): string => {
    const lastOperation = {
      operation: 'Drain',
      state: 'Processing',
      version,
      bootID: 'b',
      startTime: '',
      lastUpdateTime: '',
    };
    const updating = shadow('a', ['True', 'Updating'], { lastOperation });
    return statusLines({ config, shadows: [updating] }, { now, screen: screen(80) }).at(-1) ?? '';
  };
  expect(during('1.21.0')).toMatch(/ 1\.20\.3 +Drain$/u);
  expect(during('1.20.3')).toMatch(/ 1\.20\.3$/u);
});

it('says once what a node waits for', () => {
  const waiting = shadow('a', ['False', 'Paused'], { waitingFor: 'Paused' });
  expect(statusLines({ config, shadows: [waiting] }, { now, screen: screen(80) })).toContain(
    'a     Waiting  Paused  1.20.3',
  );
  expect(explainLines(waiting, now, screen(80)).join('\n')).not.toContain('Waiting for');
});

it('says of a drain that has ended that it waits no longer', () => {
  const since = '2026-11-28T11:20:00Z';
  const block = { pod: 'default/web-0', reason: 'DisruptionBudget', message: 'web allows no eviction', since };
  const drain = { observedGeneration: 1, startTime: since, evicted: 0, remaining: 1, blockedBy: [block] };
  const shown = (more: object): string =>
    explainLines(shadow('a', ['False', 'Backoff'], { drain: { ...drain, ...more } }), now, screen(200)).join('\n');
  expect(shown({})).toMatch(/^Drain: +waits for the pod default\/web-0 since 2026-11-28T11:20:00Z \(40m ago\): /mu);
  expect(shown({ result: 'TimedOut', endTime: '2026-11-28T11:50:00Z' })).toMatch(
    /^Drain: +TimedOut at 2026-11-28T11:50:00Z \(10m ago\); it waited for the pod default\/web-0 since 2026/mu,
  );
});

it.each([
  ['Processing', undefined, 'no drain for now: POST drain: 403 Forbidden'],
  ['Succeeded', undefined, 'the update is still activated: PATCH deactivate: 500'],
  ['Failed', 'DrainTimedOut', 'pods were left'],
])('says what the agent reports of a step that is %s', (state, errorCode, message) => {
  const time = '2026-11-28T11:50:00Z';
  const times = { startTime: time, lastUpdateTime: time };
  const lastOperation = { operation: 'Drain', state, version: '1.21.0', bootID: 'b', ...times, errorCode, message };
  const lines = explainLines(shadow('a', ['True', 'Updating'], { lastOperation }), now, screen(200)).join('\n');
  const said = errorCode === undefined ? message : `${errorCode}: ${message}`;
  expect(lines).toContain(`Drain for 1.21.0 ${state} at ${time} (10m ago): ${said}`);
});

it('says that a node is skipped, whatever else it waits for', () => {
  const paused = shadow('a', ['False', 'Paused']);
  const lines = (skipped?: string): string => explainLines(paused, now, screen(120), skipped).join('\n');
  expect(lines('disk is slow')).toMatch(/^Reason: +Paused$/mu);
  expect(lines('disk is slow')).toMatch(
    /^Skipped: +by the annotation brupop\.bottlerocket\.aws\/skip=disk is slow, until "kubectl brupop unskip a"$/mu,
  );
  expect(lines()).not.toContain('Skipped');
  expect(lines('x'.repeat(5_000)).length).toBeLessThan(700);
});

it('says until when a request to update now holds, once the controller has seen it', () => {
  const annotations = { 'brupop.bottlerocket.aws/update-now': '1.21.0' };
  const requested = (record: object): string =>
    explainLines(shadow('a', ['False', 'Paused'], {}, record, annotations), now, screen(120)).join('\n');
  expect(requested({})).toMatch(/^Requested: +update-now=1\.21\.0$/mu);
  expect(requested({ asked: { version: '1.21.0', at: '2026-11-28T11:00:00Z' } })).toMatch(
    /^Requested: +update-now=1\.21\.0; update-now until 2026-11-29T11:00:00Z \(in 23h\)$/mu,
  );
});

it('shows what each gate says in full', () => {
  const retryAt = parseTime('2026-11-28T12:30:00Z') ?? 0;
  const answer = { reason: 'Backoff', message: 'the update failed twice, and is tried again later', retryAt };
  expect(
    gateLines(
      [
        ['paused', undefined],
        ['backoff', answer],
      ],
      screen(60),
    ),
  ).toEqual([
    'GATE     ANSWER',
    'paused   passes',
    'backoff  Backoff until 2026-11-28T12:30:00Z: the update',
    '         failed twice, and is tried again later',
  ]);
});

describe('in a terminal', () => {
  const names = Array.from({ length: 20 }, (_, index) => `ip-10-0-0-${index}.eu-west-1.compute.internal`);
  const fleet = { config: undefined, shadows: names.map((name) => shadow(name, ['False', 'WaitingForCapacity'])) };
  const linesIn = (height: number, isWide: boolean): string[] =>
    fittingLines(fleet, { screen: { width: 80, hasColors: false, height }, now, isWide });

  it('as many nodes are shown as fit', () => {
    expect(linesIn(12, false)).toHaveLength(11);
    expect(linesIn(12, false).at(-1)).toBe('… and 15 more nodes');
    expect(linesIn(26, false)).toHaveLength(25);
  });

  it('lines with -o wide that take two rows count twice', () => {
    const lines = linesIn(12, true);
    const rows = lines.map((line) => Math.ceil(Math.max(1, line.length) / 80)).reduce((sum, one) => sum + one, 0);
    expect(lines.some((line) => line.length > 80)).toBe(true);
    expect(rows).toBeLessThan(12);
    expect(lines.at(-1)).toBe('… and 18 more nodes');
  });
});
