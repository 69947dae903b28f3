import { stripVTControlCharacters } from 'node:util';
import pc from 'picocolors';
import type { BottlerocketShadow } from '../../packages/shared/src/api/shadow.ts';
import { type Row, rowOf } from './rows.ts';
import { summarize } from './summary.ts';
import { renderProgress, seconds } from './view.ts';

function row(node: string, state: string, waitsFor = ''): Row {
  return { node, zone: 'a', state, version: '1.26.0', waitsFor, done: state === 'up to date' };
}

interface StateOptions {
  readonly ready?: 'True' | 'Unknown';
  readonly state?: 'Processing' | 'Succeeded';
  readonly version?: string;
}

const metadata = { name: 'node-1', uid: '', resourceVersion: '' };
const nodeThatIs = (status: 'True' | 'Unknown') => ({ metadata, status: { conditions: [{ type: 'Ready', status }] } });

function stateOf(
  operation: 'Stage' | 'Drain' | 'Reboot',
  { ready = 'Unknown', state = 'Processing', version = '1.27.0' }: StateOptions = {},
): string {
  const times = { startTime: '2026-01-02T03:04:05Z', lastUpdateTime: '2026-01-02T03:04:05Z' };
  const lastOperation = { operation, state, version, bootID: '', ...times };
  const shadow: BottlerocketShadow = {
    metadata,
    spec: { state: 'RebootedIntoUpdate', version: '1.27.0' },
    status: {
      current_state: 'StagedAndPerformedUpdate',
      current_version: '1.26.0',
      target_version: '1.27.0',
      crash_count: 0,
      observedGeneration: 1,
      bootID: '',
      lastOperation,
    },
  };
  return rowOf(nodeThatIs(ready), shadow, '1.27.0').state;
}

describe('a node that is not Ready', () => {
  it('is rebooting if its agent reboots it', () => expect(stateOf('Reboot')).toBe('rebooting'));

  it('is down otherwise', () => expect(stateOf('Drain')).toBe('down'));
});

describe('a node under way', () => {
  const between = { ready: 'True', state: 'Succeeded' } as const;

  it('has the latest step of its update, also when that has ended', () =>
    expect(stateOf('Stage', between)).toBe('staging'));

  it('is starting before the first step, whatever its update before ended with', () =>
    expect(stateOf('Reboot', { ...between, version: '1.26.0' })).toBe('starting'));
});

it('a node whose agent has not reported yet is starting, and its row says no more', () => {
  const reason = { reason: 'AgentNotConnected', message: 'No agent has reported for this node yet; check…' };
  const conditions = [{ type: 'Progressing', status: 'False', lastTransitionTime: '', ...reason }] as const;
  const shadow = { metadata, spec: { state: 'Idle' }, status: { conditions } } as unknown as BottlerocketShadow;
  expect(rowOf(nodeThatIs('True'), shadow, '1.27.0')).toMatchObject({ state: 'starting', waitsFor: '' });
});

describe('the table of the demo', () => {
  const rows = [
    row('node-1', 'up to date'),
    row('node-2', 'draining'),
    row('node-3', 'waiting', 'all update slots are in use'),
  ];

  it('has a line per node, and one with the progress of the fleet and the time left', () => {
    expect(renderProgress({ rows, elapsedMs: 4_000, width: 80, height: 24 })).toEqual([
      'NODE    ZONE  STATE       VERSION  WAITS FOR',
      'node-1  a     up to date  1.26.0',
      'node-2  a     draining    1.26.0',
      'node-3  a     waiting     1.26.0   all update slots are in use',
      '',
      '██████████░░░░░░░░░░░░░░░░░░░░ 1 of 3 nodes, 4 s, about 8 s to go',
    ]);
  });

  it('has colors only if it is given some', () => {
    const input = { rows: [...rows, row('node-4', 'failed')], elapsedMs: 0, width: 80, height: 24 };
    const colored = renderProgress({ ...input, colors: pc.createColors(true) });
    const [green, yellow, red] = ['[32mnode-1', '[33mnode-2', '[31mnode-4'];
    expect(colored.join('\n')).toEqual(expect.stringMatching(/\[1mNODE/u));
    for (const text of [green, yellow, red]) expect(colored.join('\n')).toContain(text);
    expect(colored.map((line) => stripVTControlCharacters(line))).toEqual(renderProgress(input));
  });

  it('shows nodes with long names in 120 columns, and the beginning of what they wait for', () => {
    const name = 'ip-10-0-123-45.eu-central-1.compute.internal';
    const waits = `shop/web-6d4cf56db6-x7l2k: it is protected by the disruption budget web`;
    const one = { ...row(name, 'activating', waits), zone: 'eu-central-1a', version: '1.100.10' };
    const lines = renderProgress({ rows: [one], elapsedMs: 0, width: 120, height: 24 });
    expect(lines.filter((line) => line.length > 120)).toEqual([]);
    expect(lines[1]).toMatch(
      /^ip-10-0-123-45\S+ +eu-central-1a +activating +1\.100\.10 +shop\/web-6d4cf56db6-x7l2k: .*…$/u,
    );
  });

  it('fits a narrow terminal, and shows where a line is cut', () => {
    const lines = renderProgress({ rows, elapsedMs: 0, width: 20, height: 24 });
    expect(lines.every((line) => line.length <= 20)).toBe(true);
    expect(lines[0]).toBe('NODE    ZONE  STATE…');
  });

  it('fits a low terminal: what is under way stays, and the rest is counted', () => {
    const lines = renderProgress({ rows, elapsedMs: 0, width: 80, height: 5 });
    expect(lines).toHaveLength(5);
    expect(lines[1]).toContain('node-2');
    expect(lines[3]).toBe('… and 1 more');
  });

  it('formats times', () => {
    expect([seconds(900), seconds(59_400), seconds(65_000)]).toEqual(['1 s', '59 s', '1 min 5 s']);
  });
});

it.each([
  [1, 'At most 1 node unavailable at once.'],
  [2, 'At most 2 nodes unavailable at once.'],
])('the summary counts %i unavailable', (mostUnavailable, line) => {
  const rollout = { times: new Map([['brs-node-1', 7_000]]), elapsedMs: 42_000 };
  expect(summarize({ rollout, nodes: 1, workloads: [], mostUnavailable, violations: [] })).toEqual([
    'Updated 1 of 1 nodes in 42 s: 7.0 s per node (7.0 s to 7.0 s).',
    line,
    'No disruption budget was violated, and no node rebooted undrained.',
  ]);
});
