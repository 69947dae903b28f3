import { hostFolder, kernelPaths, rewriteArgument, rewriteValue } from './paths.ts';
import { Unsupported } from './pod.ts';

const map = new Map([
  ['/run', '/here/run'],
  ['/run/secrets', '/here/secrets'],
  ['/app', '/here/dist'],
]);

describe('rewriting paths of a container to local folders', () => {
  test.each([
    ['a path below a mount', '/run/api.sock', '/here/run/api.sock'],
    ['the mount itself', '/run', '/here/run'],
    ['the longest mount wins', '/run/secrets/token', '/here/secrets/token'],
    ['a folder whose name only begins alike is another', '/runtime/x', '/runtime/x'],
    ['a path that no mount has', '/etc/hosts', '/etc/hosts'],
    ['a path inside other text', 'see /run/api.sock', 'see /run/api.sock'],
    ['an empty value', '', ''],
  ])('%s', (_name, value, expected) => {
    expect(rewriteValue(value, map)).toBe(expected);
  });

  test.each([
    ['a plain argument', '/app/agent.mjs', '/here/dist/agent.mjs'],
    ['behind a flag', '--import=/app/a=b.mjs', '--import=/here/dist/a=b.mjs'],
    ['a flag without a path', '--max-old-space-size=40', '--max-old-space-size=40'],
    ['a program text', 'const a = "/app"', 'const a = "/app"'],
  ])('in arguments: %s', (_name, argument, expected) => {
    expect(rewriteArgument(argument, map)).toBe(expected);
  });

  test('a hostPath without a folder is refused, naming what there is', () => {
    const node = { name: 'node-1', hostPaths: map };
    expect(hostFolder('/run/api.sock', node)).toBe('/here/run/api.sock');
    expect(() => hostFolder('/var/lib', node)).toThrow(Unsupported);
    expect(() => hostFolder('/var/lib', node)).toThrow('/run, /run/secrets, /app');
  });

  test('kernel file systems are seen without a mount', () => {
    const hostPaths = new Map([
      ['/run', '/here/run'],
      ['/proc/sys/kernel/random', '/here/random'],
    ]);
    expect([...kernelPaths(hostPaths).keys()]).toEqual(['/proc/sys/kernel/random']);
  });
});
