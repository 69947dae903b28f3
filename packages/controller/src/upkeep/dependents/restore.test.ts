import type { TargetName } from '@brupop/shared/api/config-dependents';
import { KubeError } from '@brupop/shared/kube/error';
import { createLogger } from '@brupop/shared/runtime/log';
import { aDependent, ScaledWorld } from '../../testing/scaled-world.ts';
import { restoreDependents } from './restore.ts';

const MINUTE = 60_000;
const THREE = [aDependent('autoscaler'), aDependent('node-repair'), aDependent('descheduler')];

/** Starts the Job. Returns how it has ended by then. */
async function job(world: ScaledWorld, targets: readonly TargetName[] = THREE): Promise<() => string> {
  let end = 'runs';
  const stop = new AbortController();
  // The Lease is no target, and is always free.
  const client = {
    find: async (path: string) => (path.includes('/leases/') ? undefined : await world.find(path)),
    mergePatch: world.mergePatch.bind(world),
    request: async () => await Promise.resolve(),
  };
  const log = createLogger({ level: 'error', write: () => undefined });
  const options = { client: client as never, clock: world.clock, log, namespace: 'brupop', identity: 'job', targets };
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

it.each([500, 403])(
  'a target that fails with %s keeps no other at 0, and is tried until it succeeds',
  async (status) => {
    const world = await lostWorld();
    world.failure = new KubeError(status, 'Failed', 'failed calling webhook');
    world.failing = 'up autoscaler';
    const end = await job(world);
    expect([world.scales, end()]).toEqual([['0 (2)', '1', '3'], 'runs']);
    await world.clock.advance(2 * MINUTE);
    world.failure = undefined;
    await world.clock.advance(20_000);
    expect([world.scales, end()]).toEqual([['2', '1', '3'], 'done']);
  },
);

it('in the end it names each target that failed, and why', async () => {
  const world = await lostWorld();
  world.failure = new KubeError(500, 'InternalError', 'failed calling webhook');
  const end = await job(world);
  await world.clock.advance(3 * MINUTE + 15_000);
  expect(end()).toMatch(
    /cannot scale back: Deployment kube-system\/autoscaler: .*failed calling webhook; Deployment kube-system\/node-repair: .*; Deployment kube-system\/descheduler: /u,
  );
});
