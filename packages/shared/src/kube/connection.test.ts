import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '../runtime/log.ts';
import { FakeClock } from '../testing/fake-clock.ts';
import { KubeConnection } from './connection.ts';

describe('the token of a service account', () => {
  let dir: string;
  let clock: FakeClock;
  let connection: KubeConnection;

  const write = (token: string): void => writeFileSync(join(dir, 'token'), `${token}\n`);

  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'brupop-token-'));
    writeFileSync(join(dir, 'ca.crt'), '');
    write('first');
    clock = new FakeClock();
    const access = { host: '127.0.0.1', port: 1, serviceAccountDir: dir };
    const log = createLogger({ write: () => undefined });
    connection = await KubeConnection.open({ userAgent: 'test', clock, log, access });
  });

  afterEach(async () => {
    await connection.close();
    rmSync(dir, { recursive: true });
  });

  it('is cached for a minute and then read again', async () => {
    expect(await connection.token()).toBe('first');
    write('second');
    await clock.advance(59_999);
    expect(await connection.token()).toBe('first');
    await clock.advance(1);
    expect(await connection.token()).toBe('second');
  });

  it('is read again at once after it was rejected, also when an earlier request is rejected later', async () => {
    expect(await connection.token()).toBe('first');
    write('second');
    connection.rejected('first');
    expect(await connection.token()).toBe('second');
    write('third');
    connection.rejected('first');
    expect(await connection.token()).toBe('second');
  });

  it('is not cached when it cannot be read', async () => {
    rmSync(join(dir, 'token'));
    await expect(connection.token()).rejects.toThrow('ENOENT');
    write('second');
    expect(await connection.token()).toBe('second');
  });
});
