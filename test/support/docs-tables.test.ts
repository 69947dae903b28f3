import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { ERROR_CODES } from '../../packages/shared/src/errors.ts';

const root = join(import.meta.dirname, '..', '..');

/** The first two cells of each row of a Markdown file's tables that begins with a code span. */
function codeRows(file: string): string[][] {
  const rows = readFileSync(join(root, file), 'utf8').matchAll(
    /^\| `(?<first>[^`]+)` +\| `?(?<second>[^`|]+?)`? +\|/gmu,
  );
  return [...rows].map(({ groups }) => [groups?.['first'] ?? '', groups?.['second'] ?? '']);
}

describe('the documentation', () => {
  it('lists every error code with its recovery rule, and no other', () => {
    const documented = codeRows('docs/error-codes.md').filter(([, recovery = '']) => !recovery.includes(' '));
    expect(Object.fromEntries(documented)).toEqual(ERROR_CODES);
  });

  it('explains every recovery rule', () => {
    const rows = codeRows('docs/error-codes.md').map(([first]) => first);
    const unexplained = [...new Set(Object.values(ERROR_CODES))].filter((rule) => !rows.includes(rule));
    expect(unexplained).toEqual([]);
  });
});
