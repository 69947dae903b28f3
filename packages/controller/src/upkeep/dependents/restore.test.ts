import { DEPENDENT_REPLICAS_ANNOTATION } from '@brupop/shared/api/names';
import { KubeError } from '@brupop/shared/kube/error';
import type { Lease } from '@brupop/shared/kube/leader-election';
import { createLogger } from '@brupop/shared/runtime/log';
import { aDependent, ScaledWorld } from '../../testing/scaled-world.ts';
import { restoreDependents } from './restore.ts';

const MINUTE = 60_000;
const THREE = [aDependent('autoscaler'), aDependent('node-repair'), aDependent('descheduler')];

/** The Lease of the controllers. */
class LeaseStore {
  lease: Lease | undefined;

  take(holderIdentity: string, leaseDurationSeconds: number, now: number): void {
    const metadata = { name: 'brupop-controller', namespace: 'brupop', uid: 'lease', resourceVersion: '1' };
    this.lease = { metadata, spec: { holderIdentity, leaseDurationSeconds, renewTime: new Date(now).toISOString() } };
  }

  isExpired(now: number): boolean {
    const { renewTime = '', leaseDurationSeconds = 0 } = this.lease?.spec ?? {};
    return now >= Date.parse(renewTime) + leaseDurationSeconds * 1_000;
  }
}

/** Lets time pass. A controller scales to 0 whenever the Lease has expired. */
async function besideController(world: ScaledWorld, store: LeaseStore, ms: number): Promise<void> {
  const until = world.clock.now() + ms;
  while (world.clock.now() < until) {
    await world.clock.advance(1_000);
    if (store.isExpired(world.clock.now())) await world.check();
  }
}

/** Starts the Job. Returns how it has ended by then. */
async function job(
  world: ScaledWorld,
  store: LeaseStore = new LeaseStore(),
  { patchMs = 0 }: { readonly patchMs?: number } = {},
): Promise<() => string> {
  let end = 'runs';
  const stop = new AbortController();
  const client = {
    find: async (path: string) => (path.includes('/leases/') ? store.lease : await world.find(path)),
    mergePatch: async (...args: Parameters<ScaledWorld['mergePatch']>) => {
      await world.clock.sleep(patchMs);
      await world.mergePatch(...args);
    },
    request: async ({ body }: { readonly body: Lease }) => {
      store.lease = body;
      await Promise.resolve();
    },
  };
  const log = createLogger({ level: 'error', write: () => undefined });
  const options = {
    client: client as never,
    clock: world.clock,
    log,
    namespace: 'brupop',
    identity: 'job',
    targets: THREE,
  };
  restoreDependents(options, stop.signal).then(
    () => void (end = 'done'),
    (error: unknown) => void (end = String(error)),
  );
  await world.clock.advance(20_000);
  return () => end;
}

async function lostWorld(): Promise<ScaledWorld> {
  const world = new ScaledWorld(THREE, [2, 1, 3]);
  world.lose(true);
  await world.pass(MINUTE);
  expect(world.scales).toEqual(['0 (2)', '0 (1)', '0 (3)']);
  return world;
}

/** Starts the Job in a lost world in which this request fails. */
async function failingJob(failing: string, status = 500) {
  const world = await lostWorld();
  const store = new LeaseStore();
  world.failure = new KubeError(status, 'Failed', 'failed calling webhook');
  world.failing = failing;
  return { world, store, end: await job(world, store) };
}

it.each([500, 403])(
  'a target that fails with %s keeps no other at 0, and is tried until it succeeds',
  async (status) => {
    const { world, end } = await failingJob('up autoscaler', status);
    expect([world.scales, end()]).toEqual([['0 (2)', '1', '3'], 'runs']);
    await world.clock.advance(2 * MINUTE);
    world.failure = undefined;
    await world.clock.advance(20_000);
    expect([world.scales, end()]).toEqual([['2', '1', '3'], 'done']);
  },
);

it('no controller scales anything to 0 again while one target is still tried', async () => {
  const { world, store, end } = await failingJob('up autoscaler');
  await besideController(world, store, 100_000);
  expect([world.scales, end()]).toEqual([['0 (2)', '1', '3'], 'runs']);
  world.failure = undefined;
  await besideController(world, store, 20_000);
  expect([world.scales, end()]).toEqual([['2', '1', '3'], 'done']);
});

it('what a controller that took the Lease in the last round has scaled to 0 is scaled back too', async () => {
  const { world, store, end } = await failingJob('up descheduler');
  expect(world.scales).toEqual(['2', '1', '0 (3)']);
  world.beforePatch = () => {
    store.take('controller', 16, world.clock.now());
    world.put(aDependent('autoscaler'), 0, { [DEPENDENT_REPLICAS_ANNOTATION]: '2' });
  };
  world.failure = undefined;
  await world.clock.advance(60_000);
  expect([world.scales, end()]).toEqual([['2', '1', '3'], 'done']);
});

it('the Lease is taken again in the middle of a round whose requests are slow', async () => {
  const world = await lostWorld();
  const store = new LeaseStore();
  const end = await job(world, store, { patchMs: 25_000 });
  await besideController(world, store, 100_000);
  expect([world.scales, end()]).toEqual([['2', '1', '3'], 'done']);
  expect(world.calls.filter((call) => call.startsWith('down'))).toHaveLength(3);
});

it('in the end it names each target that failed, and why', async () => {
  const world = await lostWorld();
  world.failure = new KubeError(500, 'InternalError', 'failed calling webhook');
  const end = await job(world);
  await world.clock.advance(3 * MINUTE + 15_000);
  expect(end()).toMatch(
    /cannot scale back: Deployment kube-system\/autoscaler: .*failed calling webhook; Deployment kube-system\/node-repair: .*; Deployment kube-system\/descheduler: /u,
  );
});
