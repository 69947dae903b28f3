import { Recent } from './calendar.ts';

describe('recent values', () => {
  it('are made once and forgotten in the order in which they were last asked for', () => {
    const made: string[] = [];
    const recent = new Recent<string, string>(2);
    const get = (key: string): string =>
      recent.get(key, () => {
        made.push(key);
        return key.toUpperCase();
      });
    expect(['a', 'b', 'a', 'c', 'a', 'b'].map(get)).toEqual(['A', 'B', 'A', 'C', 'A', 'B']);
    expect(made).toEqual(['a', 'b', 'c', 'b']);
  });
});
