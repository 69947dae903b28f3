/** Which users reach the host API through its socket: each is a process of its own. */
import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AGENT } from '@brupop/shared/api/names';
import { find, podOf, renderChart } from '../../framework/chart.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { BottlerocketHost } from '../../framework/host/host.ts';
import { canSwitchUser, letThrough, type User } from '../../framework/kubelet/users.ts';

const packages = join(import.meta.dirname, '../../../packages');
/** Reads the version of the host as the agent does. Without any capability, as in the pod. */
const READ = `
import { HostSocket } from ${JSON.stringify(join(packages, 'agent/src/host/host-socket.ts'))};
import { systemClock } from ${JSON.stringify(join(packages, 'shared/src/runtime/clock.ts'))};
import { messageOf } from ${JSON.stringify(join(packages, 'shared/src/runtime/errors.ts'))};
const [socketPath, bootIDFile] = process.argv.slice(1);
const socket = new HostSocket({ socketPath, bootIDFile, clock: systemClock });
console.log(await socket.version(AbortSignal.timeout(5_000)).catch(messageOf));
`;

const cluster = connectSharedControlPlane();
let folder = '';
let host: BottlerocketHost;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'brupop-socket-'));
  letThrough(folder);
  host = await BottlerocketHost.start({ socketPath: join(folder, 'api.sock'), version: '1.26.0', repository: [] });
});
afterAll(async () => {
  await host.stop();
  await rm(folder, { recursive: true, force: true });
  await cluster.close();
});

async function readVersion({ uid, gid }: User): Promise<string> {
  const program = [process.execPath, '--input-type=module', '--eval', READ, host.socketPath, host.bootIDPath];
  const user = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--bounding-set=-all', '--inh-caps=-all'];
  const [command = '', ...args] = canSwitchUser ? ['setpriv', ...user, ...program] : program;
  const { stdout } = await promisify(execFile)(command, args, { timeout: 30_000 });
  return stdout.trim();
}

/** The user and group of the rendered pod. */
async function ofTheChart(): Promise<User> {
  const { securityContext } = podOf(find(await renderChart(cluster), 'DaemonSet', AGENT)).container;
  const { runAsUser: uid = 0, runAsGroup: gid = 0 } = securityContext ?? {};
  return { uid, gid };
}

it('the user and group of the chart, which are not root, read the host API', async () => {
  const user = await ofTheChart();
  expect(user).toEqual({ uid: 65532, gid: 274 });
  expect(await readVersion(user)).toBe('1.26.0');
});

it('root without capabilities reads it, too, and another group is told which user and group to take', async () => {
  expect(await readVersion({ uid: 0, gid: 0 })).toBe('1.26.0');
  const message = await readVersion({ uid: 65532, gid: 65532 });
  // Only root can give the socket to another group than its own.
  const denied = /takes user 0 or group 274, and the SELinux type control_t: connect EACCES/u;
  expect(message).toMatch(canSwitchUser ? denied : '1.26.0');
});
