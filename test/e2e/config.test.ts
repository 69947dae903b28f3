import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../packages/shared/src/api/brupop-config.ts';
import type { BrupopConfigSpec } from '../../packages/shared/src/api/config-spec.ts';
import { SKIP_ANNOTATION } from '../../packages/shared/src/api/names.ts';
import { eventually } from '../framework/eventually.ts';
import { type Fleet, fleetNodes } from '../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../framework/fleet/held-drains.ts';
import { untilSomeNodeIsBlocked } from '../framework/fleet/steps.ts';
import { NEW, OLD, type FleetContext, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const HOUR_MS = 3_600_000;
const fromNow = (ms: number): string => new Date(Date.now() + ms).toISOString();
/** A window of one hour that opens in 12 hours. */
const later = (): NonNullable<BrupopConfigSpec['maintenance']> => ({
  windows: [{ schedule: `0 ${(new Date().getUTCHours() + 12) % 24} * * *`, duration: '1h' }],
});

const waitingFor = (fleet: Fleet, name: string): string | undefined => fleet.shadow(name)?.status?.waitingFor;
const versions = (fleet: Fleet): string[] => [...fleet.nodes.values()].map(({ host }) => host.version);
const locks = (fleet: Fleet): unknown[] =>
  [...fleet.nodes.values()].map(({ host }) => host.settings.updates().versionLock);

async function configOf({ cluster }: FleetContext): Promise<BrupopConfig> {
  return await cluster.api.get<BrupopConfig>('/apis/brupop.bottlerocket.aws/v1alpha1/brupopconfigs/cluster');
}

/** Waits until the configuration is completely in effect; returns its status. */
async function untilInEffect(context: FleetContext): Promise<NonNullable<BrupopConfig['status']>> {
  return await eventually(async () => {
    const { metadata, status } = await configOf(context);
    if (status?.confirmedGeneration !== metadata.generation) throw new Error('it is not in effect yet');
    return status ?? {};
  });
}

const reasonOf = ({ conditions = [] }: NonNullable<BrupopConfig['status']>, type: string): string | undefined =>
  conditions.find((condition) => condition.type === type)?.reason;

/** Waits until each node waits for this reason. */
async function untilAllWaitFor(context: FleetContext, expected: RegExp): Promise<void> {
  const { fleet } = context;
  await eventually(() => {
    for (const name of fleet.nodes.keys()) expect(waitingFor(fleet, name)).toMatch(expected);
  });
}

async function table(context: FleetContext, ...args: string[]): Promise<string> {
  return (await promisify(execFile)('kubectl', ['get', ...args], { env: context.cluster.env })).stdout;
}

/**
 * No update starts while the configuration prevents it, and each change of it shows another reason
 * at once.
 */
async function holdsBack(context: FleetContext): Promise<void> {
  const { fleet } = context;
  await untilAllWaitFor(context, /^Paused$/);
  expect(await table(context, 'brs', '-A')).toMatch(/WAITING FOR[\s\S]* Paused$/mu);
  await eventually(async () => expect(await table(context, 'brc')).toMatch(/STATUS[\s\S]*cluster +Paused/));

  const blackout = { from: fromNow(-HOUR_MS), to: fromNow(HOUR_MS), reason: 'sale' };
  await fleet.configure({ maintenance: { blackouts: [blackout] } });
  await untilAllWaitFor(context, /^Blackout until \d/);
  expect(reasonOf(await untilInEffect(context), 'WindowOpen')).toBe('Blackout');

  await fleet.configure({ maintenance: later() });
  await untilAllWaitFor(context, /^OutsideMaintenanceWindow until \d/);

  await fleet.configure({ nodeSelector: { matchLabels: { pool: 'other' } } });
  await untilAllWaitFor(context, /^NotSelected$/);
  expect((await untilInEffect(context)).nodes?.managed).toBe(0);

  await fleet.configure({ versions: { deny: [NEW] } });
  await untilAllWaitFor(context, /^VersionDenied$/);

  await fleet.configure({ versions: { minimumAge: '24h' } });
  await untilAllWaitFor(context, /^MinimumAgeNotReached until \d/);
  expect(versions(fleet)).toEqual([OLD, OLD, OLD, OLD]);
  expect(fleet.observer.leftovers()).toEqual([]);
}

/** Another value in every field that affects nodes, with a closed window. */
const everythingElse = (): BrupopConfigSpec => ({
  maintenance: { ...later(), timeZone: 'UTC', updateEstimate: '5m', margin: '1m' },
  concurrency: { maxUpdating: '75%', maxUnavailable: 3, maxPerZone: 2, maxZones: 2 },
  versions: { minimumAge: '1m', ignoreWaves: true, deny: ['1.30.0'] },
  drain: { timeout: '15m', volumeDetachTimeout: '1m', replacementTimeout: '1m' },
  loadBalancer: { exclusion: '1s' },
  timeouts: { stage: '10m', reboot: '10m' },
  monitoring: { healthyFor: '1s', timeout: '10m' },
  retry: { backoff: '1m', maxBackoff: '10m', attempts: 3 },
  nodeSelector: { matchExpressions: [{ key: 'pool', operator: 'DoesNotExist' }] },
  order: 'Random',
});

/**
 * A window closes while a node is drained, and every other field changes: that node continues, no
 * other starts.
 */
async function closesInTheMiddle(context: FleetContext): Promise<void> {
  const { fleet, cluster } = context;
  await cluster.api.patch('/api/v1/nodes/node-4', { metadata: { annotations: { [SKIP_ANNOTATION]: 'true' } } });
  await fleet.configure({});
  const name = await untilSomeNodeIsBlocked(fleet);
  const drained = fleet.shadow(name);
  await fleet.configure(everythingElse());
  await eventually(async () => expect((await configOf(context)).status?.inForce?.spec['order']).toBe('Random'));
  await eventually(() => {
    for (const [one, { host }] of fleet.nodes)
      expect([one, host.settings.updates().ignoreWaves]).toEqual([one, one !== name]);
  });
  expect(fleet.shadow(name)?.metadata.generation).toBe(drained?.metadata.generation);
  expect(fleet.shadow(name)?.status?.drain?.startTime).toBe(drained?.status?.drain?.startTime);
  await releaseDrains(context);
  await eventually(() => fleet.assertRuns(name, NEW), { limitMs: 60_000 });
  await untilInEffect(context);
  const others = [...fleet.nodes.keys()].filter((one) => one !== name && one !== 'node-4');
  await eventually(() => {
    for (const one of others)
      expect(waitingFor(fleet, one)).toMatch(/^(?:OutsideMaintenanceWindow|MinimumAgeNotReached) until/);
    expect(waitingFor(fleet, 'node-4')).toBe('Skipped');
  });
  expect(versions(fleet).filter((version) => version === NEW)).toHaveLength(1);
}

/** Half of four nodes, at most one per zone, and two zones at a time. */
async function rollsOutByZone(context: FleetContext): Promise<void> {
  const { fleet, cluster } = context;
  fleet.maxUnavailable = 2;
  await cluster.api.patch('/api/v1/nodes/node-4', { metadata: { annotations: { [SKIP_ANNOTATION]: null } } });
  await fleet.configure({ concurrency: { maxUpdating: '50%', maxUnavailable: '74%', maxPerZone: 1, maxZones: 2 } });
  await fleet.untilAllRun(NEW);
  const status = await eventually(async () => {
    const found = await untilInEffect(context);
    expect(reasonOf(found, 'Progressing')).toBe('UpToDate');
    return found;
  });
  expect(status.nodes).toEqual({ managed: 4, upToDate: 4, updating: 0, waiting: 0, failed: 0 });
  expect(status.versions?.find(({ version }) => version === NEW)).toMatchObject({ running: 4, offered: 0 });
  // An estimate needs the updates of five nodes; this fleet has four.
  expect(status.updateEstimate).toBeUndefined();
}

describe('one configuration', () => {
  it('controls a running fleet: pause, blackout, windows, selection, versions, zones, and pins up and down', async () => {
    await withFleet({ nodes: fleetNodes(4), config: { paused: true }, before: holdAllDrains }, async (context) => {
      const { fleet } = context;
      await holdsBack(context);
      await closesInTheMiddle(context);
      await rollsOutByZone(context);

      // All hosts offer a newer version; the pin moves them to the previous one.
      const newest = '1.28.0';
      fleet.publish([OLD, NEW, newest]);
      const concurrency = { maxUpdating: 2 };
      await fleet.configure({ concurrency, versions: { pin: OLD } });
      await fleet.untilAllRun(OLD);
      expect(locks(fleet)).toEqual([OLD, OLD, OLD, OLD]);
      await fleet.configure({ concurrency, versions: { pin: newest } });
      await fleet.untilAllRun(newest);
      await fleet.configure({ concurrency });
      await eventually(() => expect(locks(fleet)).toEqual(['latest', 'latest', 'latest', 'latest']));
      await untilInEffect(context);
    });
  });
});
