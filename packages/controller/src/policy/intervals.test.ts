import { merge, subtract } from './calendar.ts';
import type { Span } from './schedule.ts';

const span = (fromMs: number, toMs: number): Span => ({ fromMs, toMs });

describe('spans of time', () => {
  it.each([
    ['none', [], []],
    ['some out of order', [span(5, 6), span(1, 2)], [span(1, 2), span(5, 6)]],
    ['some that touch', [span(1, 3), span(3, 4)], [span(1, 4)]],
    ['some that overlap', [span(1, 3), span(2, 4)], [span(1, 4)]],
    ['one within another', [span(1, 9), span(2, 4), span(8, 10)], [span(1, 10)]],
    ['empty ones', [span(1, 1), span(5, 6), span(6, 6), span(9, 8)], [span(5, 6)]],
  ])('merges %s', (_, spans, expected) => {
    expect(merge(spans)).toEqual(expected);
  });

  it.each([
    ['nothing', [], [span(0, 10), span(20, 30)]],
    ['a hole in the middle', [span(4, 6)], [span(0, 4), span(6, 10), span(20, 30)]],
    ['several holes', [span(1, 2), span(3, 4)], [span(0, 1), span(2, 3), span(4, 10), span(20, 30)]],
    ['a hole over an end, a gap and a start', [span(8, 22)], [span(0, 8), span(22, 30)]],
    ['exactly one span', [span(0, 10)], [span(20, 30)]],
    ['everything', [span(-5, 50)], []],
    ['a hole between spans', [span(10, 20)], [span(0, 10), span(20, 30)]],
  ])('subtracts %s', (_, holes, expected) => {
    expect(subtract([span(0, 10), span(20, 30)], holes)).toEqual(expected);
  });

  it('cuts all of time in two', () => {
    expect(subtract([span(-Infinity, Infinity)], [span(1, 2)])).toEqual([span(-Infinity, 1), span(2, Infinity)]);
  });
});
