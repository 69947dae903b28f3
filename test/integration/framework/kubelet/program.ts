/**
 * A small program in place of the operator's: serves its environment and files over HTTP on POD_IP,
 * and obeys commands.
 * Arguments: `--ignore-sigterm`, `--exit-after=<ms>`.
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const told: Record<string, string> = { '/livez': 'ok', '/readyz': process.env['READY'] ?? 'ok' };

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://pod');
  if (pathname === '/about') {
    response.end(
      JSON.stringify({ env: process.env, argv: process.argv.slice(2), cwd: process.cwd(), pid: process.pid }),
    );
  } else if (pathname === '/file') {
    response.end(readFileSync(searchParams.get('path') ?? ''));
  } else if (pathname === '/tell') {
    for (const [path, word] of searchParams) told[path] = word;
    response.end();
  } else {
    response.statusCode = told[pathname] === 'ok' ? 200 : 503;
    response.end(told[pathname]);
  }
});
server.listen(8080, process.env['POD_IP']);

process.on('SIGTERM', () => {
  console.log('got SIGTERM');
  if (!process.argv.includes('--ignore-sigterm')) process.exit(0);
});

const exitAfter = process.argv.find((argument) => argument.startsWith('--exit-after='));
if (exitAfter !== undefined) {
  console.log('about to fail');
  setTimeout(() => process.exit(3), Number(exitAfter.split('=')[1]));
}
