import { backoff } from './backoff.ts';

describe('backoff', () => {
  it('doubles from the base to the cap and starts again after a success', () => {
    const delays = backoff({ baseMs: 100, capMs: 500, random: () => 1 });
    expect([delays.next(), delays.next(), delays.next(), delays.next()]).toEqual([100, 200, 400, 500]);
    delays.reset();
    expect(delays.next()).toBe(100);
  });

  it('spreads each delay over its upper half', () => {
    const lowest = backoff({ baseMs: 100, capMs: 500, random: () => 0 });
    expect([lowest.next(), lowest.next()]).toEqual([50, 100]);
  });

  it('stays at the cap after very many failures', () => {
    const delays = backoff({ baseMs: 100, capMs: 30_000, random: () => 1 });
    for (let i = 0; i < 5_000; i += 1) delays.next();
    expect(delays.next()).toBe(30_000);
  });
});
