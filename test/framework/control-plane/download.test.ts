import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { download, sumIn, Unreachable } from './download.ts';
import type { Published } from './versions.ts';

const limits = { connect: 300, idle: 300, total: 2_000 };
const contents = Buffer.from('a program');
const sum = createHash('sha256').update(contents).digest('hex');
const plain: Published = { path: 'v1/program', checksum: { path: 'v1/program.sha256' } };

describe('download', () => {
  let server: Server;

  async function serve(answer: RequestListener): Promise<string> {
    server = createServer(answer).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** Serves files by path; anything else is 404. */
  async function serveFiles(files: Record<string, Buffer | string>): Promise<string> {
    return await serve(({ url = '' }, response) => {
      const file = files[url];
      response.writeHead(file === undefined ? 404 : 200).end(file);
    });
  }

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const get = async (base: string, published = plain): Promise<Buffer> =>
    await download(base, published, limits, () => undefined);

  test('returns a program whose sum is right', async () => {
    const base = await serveFiles({ '/v1/program': contents, '/v1/program.sha256': `${sum}\n` });
    expect(await get(base)).toEqual(contents);
  });

  test('takes a program out of an archive', async () => {
    const archive = gzipSync(
      Buffer.concat([tarEntry('v1/README', Buffer.alloc(700)), tarEntry('v1/program', contents)]),
    );
    const archiveSum = createHash('sha256').update(archive).digest('hex');
    const base = await serveFiles({
      '/all.tar.gz': archive,
      '/SUMS': `${'0'.repeat(64)}  other\n${archiveSum}  all.tar.gz\n`,
    });
    const published = { path: 'all.tar.gz', member: 'v1/program', checksum: { path: 'SUMS' } };
    expect(await get(base, published)).toEqual(contents);
    await expect(get(base, { ...published, member: 'v1/else' })).rejects.toThrow(/contains no v1\/else/);
  });

  test('checks a pinned sum, and downloads nothing whose sum is not known', async () => {
    const base = await serveFiles({ '/v1/program': contents });
    expect(await get(base, { path: 'v1/program', checksum: { sum } })).toEqual(contents);
    await expect(get(base, { path: 'v1/program', checksum: { sum: undefined } })).rejects.toThrow(/not known/);
  });

  test('refuses a program whose sum differs', async () => {
    const base = await serveFiles({ '/v1/program': 'another', '/v1/program.sha256': sum });
    await expect(get(base)).rejects.toThrow(new RegExp(`expected ${sum}`));
  });

  test('says which file is missing', async () => {
    const base = await serveFiles({ '/v1/program.sha256': sum });
    await expect(get(base)).rejects.toThrow(/v1\/program could not be downloaded: status 404/);
  });

  test('refuses a file that is cut short', async () => {
    const base = await serve(({ url }, response) => {
      if (url === '/v1/program.sha256') response.end(sum);
      else response.writeHead(200, { 'content-length': '100' }).write('a pro', () => response.destroy());
    });
    await expect(get(base)).rejects.toThrow(/could not be downloaded/);
  });

  test('gives up on a server that stops sending', async () => {
    const base = await serve(({ url }, response) => {
      if (url === '/v1/program.sha256') response.end(sum);
      else response.writeHead(200).write('a pro');
    });
    await expect(get(base)).rejects.toThrow(/could not be downloaded/);
  });

  test('gives up on a server that never answers', async () => {
    const base = await serve(() => undefined);
    await expect(get(base)).rejects.toThrow(Unreachable);
  });

  test('a port without a listener is out of reach', async () => {
    const base = await serveFiles({});
    server.close();
    await expect(get(base)).rejects.toThrow(Unreachable);
  });
});

describe('sumIn', () => {
  test.each([
    ['a bare sum', `${sum}\n`, sum],
    ['a sum and the name', `${sum}  program`, sum],
    ['a name marked as binary', `${sum} *program`, sum],
    ['only other names', `${sum}  other`, undefined],
    ['no sum', '<html>', undefined],
    ['nothing', '', undefined],
  ])('of %s', (_, text, expected) => {
    expect(sumIn(text, 'program')).toBe(expected);
  });
});

function tarEntry(name: string, body: Buffer): Buffer {
  const header = Buffer.alloc(512);
  header.write(name, 0, 'latin1');
  header.write(body.length.toString(8).padStart(11, '0'), 124, 'latin1');
  return Buffer.concat([header, body, Buffer.alloc((512 - (body.length % 512)) % 512)]);
}
