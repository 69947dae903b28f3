import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * What express requires and the apiserver never runs is left out of its bundle, with stubs that
 * throw (scripts/build.ts). The tests with an apiserver in a process of its own run the bundle, and
 * would see the status 500.
 */
describe('the bundle of the apiserver', () => {
  const text = readFileSync(join(import.meta.dirname, '../../../dist/apiserver.mjs'), 'utf8');

  it('has at most 1,120 KiB', () => {
    expect(text.length / 1024).toBeLessThan(1_120);
  });

  it.each([
    ['encodings (iconv-lite)', 'shiftjis'],
    ['media types (mime-db)', 'application/vnd.ms-excel'],
    ['query strings (qs)', 'arrayFormat'],
    ['files (send)', 'ENAMETOOLONG'],
    ['negotiation (negotiator)', 'preferredCharsets'],
  ])('does not contain %s', (_what, part) => {
    expect(text.toLowerCase().includes(part.toLowerCase())).toBe(false);
  });
});
