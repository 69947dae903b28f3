import { OpenLabels } from './metrics.ts';

describe('labels whose values clients choose', () => {
  it('are forgotten when nothing is open with them, so that one client hides no other', () => {
    const labels = new OpenLabels(2);
    for (let i = 0; i < 50; i += 1) {
      expect(labels.change(`lie-${i}`, 1)).toEqual({ label: `lie-${i}`, isLast: false });
      expect(labels.change(`lie-${i}`, -1)).toEqual({ label: `lie-${i}`, isLast: true });
    }
    expect(labels.change('1.0.0', 1).label).toBe('1.0.0');
  });

  it('are other beyond the limit, and keep their label until they are closed', () => {
    const labels = new OpenLabels(2);
    expect(['a', 'b', 'c', 'd', 'a'].map((value) => labels.change(value, 1).label)).toEqual([
      'a',
      'b',
      'other',
      'other',
      'a',
    ]);
    expect(labels.change('a', -1)).toEqual({ label: 'a', isLast: false });
    expect(labels.change('a', -1)).toEqual({ label: 'a', isLast: true });
    expect(labels.change('c', -1)).toEqual({ label: 'other', isLast: false });
    expect(labels.change('d', -1)).toEqual({ label: 'other', isLast: true });
    expect(labels.change('e', 1).label).toBe('e');
  });
});
