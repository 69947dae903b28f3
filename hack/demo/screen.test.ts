import { openScreen } from './screen.ts';

/** What a screen writes for a row that changes. */
function written(isTTY: boolean, term?: string): string {
  const texts: string[] = [];
  const screen = openScreen({ isTTY, columns: 80, rows: 24, write: (text) => texts.push(text) }, term);
  screen.draw(['NODE    STATE', 'node-1  draining'], ['node-1 draining']);
  screen.end();
  return texts.join('');
}

it('redraws a table on a terminal', () => {
  expect(written(true, 'xterm')).toBe('\u001B[?25lNODE    STATE\nnode-1  draining\n\u001B[?25h');
});

it.each([
  ['into a pipe', false, 'xterm'],
  ['on a terminal that cannot redraw', true, 'dumb'],
])('prints what changes %s, without control characters', (_, isTTY, term) => {
  expect(written(isTTY, term)).toBe('node-1 draining\n');
});
