import { spansOf, svgOf } from './picture.ts';

it('draws colors and plain text, and escapes what XML would read', () => {
  expect(spansOf('a \u001B[33mPaused\u001B[0m b').map(({ text }) => text)).toEqual(['a ', 'Paused', ' b']);
  expect(new Set(spansOf('a \u001B[33mPaused\u001B[0m b').map(({ color }) => color)).size).toBe(2);
  const svg = svgOf(['<a> & b']);
  expect(svg).toContain('&lt;a&gt; &amp; b');
  expect(svg).toMatch(/^<svg .*height="52"/u);
});
