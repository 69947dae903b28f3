import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@brupop/shared/runtime/clock';
import { UPDATER_SETTINGS } from '@brupop/shared/api/settings';
import { BottlerocketHost } from '../../../../test/framework/host/host.ts';
import { type Execution, rowOf } from '../actions.ts';
import type { ApiserverClient } from '../apiserver/client.ts';
import { HostSocket } from './host-socket.ts';

const { signal } = new AbortController();

let folder: string;
let socketPath: string;
let client: HostSocket;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-host-socket-'));
  socketPath = join(folder, 'api.sock');
  client = new HostSocket({ socketPath, bootIDFile: '', clock: systemClock });
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe('a limit that only 64 bits hold', () => {
  const LIMIT = 'settings.oci-defaults.resource-limits.max-open-files';
  const LARGEST = '9223372036854775807';

  const patches: string[] = [];
  let server: Server;

  /** A host that accepts every change; its limits are the largest ones of `i64`. */
  beforeEach(async () => {
    const limits = `{"max-open-files":{"hard-limit":${LARGEST},"soft-limit":${LARGEST}}}`;
    const settings = `{"oci-defaults":{"resource-limits":${limits}},"updates":{"metadata-base-url":"http://a"}}`;
    patches.length = 0;
    server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        if (request.method === 'PATCH') patches.push(body);
        response.end(request.method === 'GET' ? settings : '[]');
      });
    });
    await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  });

  afterEach(async () => {
    await new Promise((resolve) => server.close(resolve));
  });

  it('is read as the host has it', async () => {
    const found = await client.settings([`${LIMIT}.hard-limit`], signal);
    expect([...found]).toEqual([[`${LIMIT}.hard-limit`, LARGEST]]);
  });

  it('is sent as the host has it with the one that is changed', async () => {
    const changes = new Map([[`${LIMIT}.soft-limit`, '65536']]);
    const expected = await client.settings([...changes.keys()], signal);
    const action = { do: 'configure', changes, expected, reason: '' } as const;
    const now = { clock: systemClock, decidedMs: systemClock.monotonic(), isCurrent: () => true };
    const execution: Execution = { host: client, api: {} as ApiserverClient, shadow: undefined, signal, ...now };
    await rowOf(action).perform(action, execution);
    const limits = `{"max-open-files":{"hard-limit":${LARGEST},"soft-limit":65536}}`;
    expect(patches).toEqual([`{"oci-defaults":{"resource-limits":${limits}}}`]);
  });
});

it('names a folder in the place of the socket, which no restart of the agent replaces', async () => {
  mkdirSync(socketPath);
  await expect(client.version(signal)).rejects.toMatchObject({
    kind: 'refused',
    message: expect.stringContaining('is a folder') as string,
  });
});

describe('a host', () => {
  let host: BottlerocketHost;

  beforeEach(async () => {
    const options = { version: '1.26.0', variant: 'aws-k8s-1.31', arch: 'x86_64', repository: [] };
    host = await BottlerocketHost.start({ socketPath, ...options });
  });

  afterEach(async () => {
    await host.stop();
  });

  it('answers for the others when a key is above or below settings that it has, and how it stores it', async () => {
    const MIRRORS = 'settings.container-registry.mirrors';
    host.settings.live.set(MIRRORS, []);
    host.settings.live.set('settings.ntp.time-servers', ['a']);
    const wrong = [`${MIRRORS}."docker.io"`, `${MIRRORS}."b.io"`, 'settings.motd.text', 'settings.ntp'];
    const found = await client.settings([...wrong, ...UPDATER_SETTINGS, 'settings.motd'], signal);
    expect([...found.keys()]).toEqual([...UPDATER_SETTINGS, 'settings.motd']);
    const refused = await client.classify(new Map([[`${MIRRORS}."docker.io"`, '["https://a"]']]), signal);
    const reason = `the host stores ${MIRRORS}."docker.io" as ${MIRRORS}: write it so`;
    expect([...refused.values()]).toEqual([{ class: 'Refused', reason }]);
  });

  it.each([
    "There's already a shutdown or sleep operation in progress",
    'Action reboot already in progress, refusing requested reboot operation.',
  ])('may be about to reboot when its logind answers: %s', async (text) => {
    await host.faults.set({ reboot: { exit: 1, stderr: `Call to Reboot failed: ${text}\n` } });
    await expect(client.reboot(signal)).resolves.toBeUndefined();
  });

  it('answers for a part of the memory that it reserves, which is refused', async () => {
    const RESERVED = 'settings.kubernetes.memory-manager-reserved-memory.0';
    host.settings.live.set(`${RESERVED}.enabled`, true).set(`${RESERVED}.memory`, '1Gi');
    const found = await client.settings([`${RESERVED}.memory`], signal);
    expect([...found]).toEqual([[`${RESERVED}.memory`, '"1Gi"']]);
    const refused = await client.classify(new Map([[`${RESERVED}.memory`, '"2Gi"']]), signal);
    expect([...refused.values()]).toMatchObject([{ class: 'Refused' }]);
  });
});
