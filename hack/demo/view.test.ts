import type { Row } from './rows.ts';
import { renderProgress, seconds } from './view.ts';

function row(node: string, state: string, waitsFor = ''): Row {
  return { node, zone: 'a', state, version: '1.26.0', waitsFor, done: state === 'up to date' };
}

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
