import { FakeClock } from '../testing/fake-clock.ts';
import { createLogger, RetriedProblem } from './log.ts';

/** What `log` writes for these fields. */
function lineOf(format: 'json' | 'text', fields: Readonly<Record<string, string | number | undefined>>): string {
  const lines: string[] = [];
  const log = createLogger({ format, fields: { component: 'test' }, write: (line) => lines.push(line) });
  log.warn('the update has failed', fields);
  return lines.join('').replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/u, 'TIME');
}

describe('a line of text', () => {
  it('has time, level and message, and then the fields, without those that are undefined', () => {
    const fields = { node: 'ip-10-0-1-1.internal', to: '1.50.0', code: undefined, pods: 3 };
    const line = 'TIME WARN  the update has failed component=test node=ip-10-0-1-1.internal to=1.50.0 pods=3\n';
    expect(lineOf('text', fields)).toBe(line);
  });

  it.each([
    ['ends the line', 'a\nTIME ERROR forged', String.raw`"a\nTIME ERROR forged"`],
    ['breaks the line as Unicode does', 'a\u2028b', String.raw`"a\u2028b"`],
    ['looks like another field', 'x node=other', '"x node=other"'],
    ['has a quote', 'x" node="other', String.raw`"x\" node=\"other"`],
    ['moves the cursor', '\u001B[2Ja', String.raw`"\u001b[2Ja"`],
    ['changes the order of the text', 'a\u202Eb', String.raw`"a\u202eb"`],
    ['is empty', '', '""'],
  ])('quotes and escapes what %s', (_, error, shown) => {
    expect(lineOf('text', { error })).toBe(`TIME WARN  the update has failed component=test error=${shown}\n`);
  });
});

it('writes JSON that has what the text has', () => {
  const line = lineOf('json', { node: 'a', error: 'x\n\u001By', code: undefined });
  expect(line.trimEnd().split('\n')).toHaveLength(1);
  expect(JSON.parse(line)).toEqual({
    time: 'TIME',
    level: 'warn',
    msg: 'the update has failed',
    component: 'test',
    node: 'a',
    error: 'x\n\u001By',
  });
});

it('adds fields that change to each line of a child', () => {
  const lines: string[] = [];
  let attempt: string | undefined;
  const log = createLogger({ write: (line) => lines.push(line) }).with({ node: 'a' });
  const child = log.with(() => ({ attempt }));
  child.info('one');
  attempt = '2026-11-25T10:00:00Z';
  child.info('two');
  const fields = lines.map((line) => JSON.parse(line) as { node: string; attempt?: string });
  expect(fields.map((one) => [one.node, one.attempt])).toEqual([
    ['a', undefined],
    ['a', '2026-11-25T10:00:00Z'],
  ]);
});

describe('a problem that is retried', () => {
  it('is info when it appears, a warning once when it has lasted a minute, and debug otherwise', async () => {
    const clock = new FakeClock();
    const problem = new RetriedProblem(clock);
    const levels: string[] = [];
    for (let seconds = 0; seconds < 120; seconds += 20) {
      levels.push(problem.levelOf('connection refused'));
      await clock.advance(20_000);
    }
    expect(levels).toEqual(['info', 'debug', 'debug', 'warn', 'debug', 'debug']);
    expect(problem.ended()).toBe(true);
    expect(problem.levelOf('connection refused')).toBe('info');
    expect(problem.ended()).toBe(false);
  });

  it('is a warning at once if no retry ends it, and again when it is another one', () => {
    const problem = new RetriedProblem(new FakeClock());
    const lasting = (kind: string): string => problem.levelOf(kind, { isLasting: true });
    expect([lasting('403'), lasting('403'), lasting('404')]).toEqual(['warn', 'debug', 'warn']);
  });
});
