import { systemClock } from '@brupop/shared/runtime/clock';
import { programOf } from './program.ts';

/** Of a program that ends where it would connect. */
async function answerTo(...words: string[]): Promise<string> {
  const program = programOf({
    clock: systemClock,
    signal: new AbortController().signal,
    screen: { width: 80, hasColors: false },
    print: () => undefined,
    warn: () => undefined,
    connect: () => {
      throw new Error('connects');
    },
  });
  for (const command of [program, ...program.commands]) command.configureOutput({ writeErr: () => undefined });
  return await program.parseAsync(words, { from: 'user' }).then(
    () => 'done',
    (error: unknown) => String(error),
  );
}

it.each([
  ['status', '-o=json'],
  ['status', '-ojson'],
  ['status', '-o', 'yaml'],
  ['status', '--output=wide'],
  ['report', '-o=html'],
  ['support-bundle', '-o=bundle.tar.gz'],
  ['-n=brupop', 'status'],
])('accepts %s %s as kubectl does', async (...words) => {
  expect(await answerTo(...words)).toBe('Error: connects');
});

it.each([
  ['status', '-o=html'],
  ['report', '-o=wide'],
  ['status', '-o='],
])('refuses %s %s', async (...words) => {
  expect(await answerTo(...words)).toContain("option '-o, --output <format>' argument");
});
