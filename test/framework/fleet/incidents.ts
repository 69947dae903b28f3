/**
 * What goes wrong in a fleet, one after the other: a pause, a blackout, a drain that is blocked, a version that boots on no
 * host, which is frozen, and calls that hosts answer with errors. Each but the last lasts `forMs`, so that a dashboard shows it; at
 * the end all nodes run the last version.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { eventually } from '../eventually.ts';
import { holdAllDrains, releaseDrains } from './held-drains.ts';
import { configStatus } from './reports.ts';
import { untilSomeNodeIsBlocked } from './steps.ts';
import type { FleetContext } from './with-fleet.ts';

const LIMIT = { limitMs: 600_000, pauseMs: 200 };

export interface IncidentOptions {
  readonly forMs: number;
  /** What the configuration says besides. */
  readonly config: BrupopConfigSpec;
  readonly say: (line: string) => void;
}

export async function incidents(context: FleetContext, { forMs, config, say }: IncidentOptions): Promise<void> {
  const { fleet } = context;
  say('A pause…');
  await fleet.configure({ ...config, paused: true, pauseReason: 'a change freeze' });
  const first = fleet.publishNext();
  await sleep(forMs);
  say('A blackout…');
  const blackout = { from: timeIn(-1_000), to: timeIn(forMs), reason: 'the end of the quarter' };
  const blackouts = [...(config.maintenance?.blackouts ?? []), blackout];
  await fleet.configure({ ...config, maintenance: { ...config.maintenance, blackouts } });
  await sleep(forMs);
  say('A drain that is blocked…');
  await holdAllDrains(context);
  await untilSomeNodeIsBlocked(fleet);
  await sleep(forMs);
  await releaseDrains(context);
  await fleet.untilAllRun(first, LIMIT.limitMs);
  say('A version that boots on no host…');
  for (const { host } of fleet.nodes.values()) await host.faults.set({ boot: { rollsBack: true } });
  fleet.publishNext();
  await eventually(async () => {
    const { frozenVersions = [], nodes } = await configStatus(context);
    const isFrozen = frozenVersions.length > 0 && nodes?.updating === 0;
    if (!isFrozen) throw new Error(`the version is not frozen, or a node updates: ${JSON.stringify(nodes)}`);
  }, LIMIT);
  await sleep(forMs);
  say('A later version, and hosts that answer some calls with errors…');
  const api = { answer: 'error', path: '/updates/status', times: 2 } as const;
  for (const { host } of fleet.nodes.values()) await host.faults.set({ boot: { rollsBack: false }, api });
  await fleet.untilAllRun(fleet.publishNext(), LIMIT.limitMs);
}

/** RFC 3339, in whole seconds. */
export function timeIn(ms: number): string {
  return new Date(Date.now() + ms).toISOString().replace(/\.\d+/u, '');
}
