import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { CONTROLLER } from '../../../packages/shared/src/api/names.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { eventually } from '../../framework/eventually.ts';
import { inject } from '../../framework/faults/inject.ts';
import { type StateTrigger, untilTriggered } from '../../framework/faults/trigger.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../../framework/fleet/held-drains.ts';
import { untilSomeNodeIsBlocked } from '../../framework/fleet/steps.ts';
import { NEW, type FleetContext, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(600_000);

const moments: Readonly<Record<string, StateTrigger>> = {
  'a spec calls for staging': { at: 'state', spec: 'StagedAndPerformedUpdate' },
  'a node has staged': { at: 'state', spec: 'StagedAndPerformedUpdate', status: 'StagedAndPerformedUpdate' },
  'a spec calls for a reboot': { at: 'state', spec: 'RebootedIntoUpdate' },
  'a node has rebooted': { at: 'state', spec: 'RebootedIntoUpdate', status: 'RebootedIntoUpdate' },
  'a spec calls for monitoring': { at: 'state', spec: 'MonitoringUpdate' },
  'a node has been monitored': { at: 'state', spec: 'MonitoringUpdate', status: 'MonitoringUpdate' },
  'a spec calls for Idle': { at: 'state', spec: 'Idle', status: 'MonitoringUpdate' },
};
const WRITES: ReadonlySet<string> = new Set(['create', 'update', 'patch', 'delete']);
const LIMIT_MS = 60_000;

/** Publishes a version and kills the leading controller at the moment; resolves after the kill. */
async function killAt(context: FleetContext, moment: StateTrigger): Promise<{ version: string; how: string }> {
  const version = context.fleet.publishNext();
  if (!(await untilTriggered(context.fleet, moment, { version, limitMs: LIMIT_MS })))
    return { version, how: 'never came' };
  const fault = { kind: 'killed', who: { program: 'controller', which: 'leader' }, forMs: 0 } as const;
  return { version, how: await inject(context, fault) };
}

test('another replica becomes leader when the leader is killed in any state, and each node reboots once', async () => {
  const values = { 'agent.updateCheckIntervalSeconds': 1 };
  await withFleet({ nodes: fleetNodes(2), values }, async (context) => {
    const { fleet } = context;
    await fleet.untilAllRun(NEW);
    for (const [name, moment] of Object.entries(moments)) {
      const { version, how } = await killAt(context, moment);
      expect([name, how]).toEqual([name, 'hit']);
      await fleet.untilAllRun(version);
    }
    const updates = 1 + Object.keys(moments).length;
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([updates, updates]);
  });
});

test('a leader that is frozen past its lease and thawed writes nothing', async () => {
  await withFleet({ nodes: fleetNodes(3), before: holdAllDrains }, async (context) => {
    const { fleet, cluster } = context;
    const waiting = await untilSomeNodeIsBlocked(fleet);
    const { name = '' } = fleet.observer.leader()?.metadata ?? {};
    fleet.kubelet.kill(name, 'SIGSTOP');
    // Requests in flight have been answered by then.
    await sleep(1_000);
    const position = await auditPosition(cluster.auditLogPath);
    await eventually(() => expect([name, undefined]).not.toContain(fleet.observer.leader()?.metadata.name), {
      limitMs: LIMIT_MS,
    });
    // Both have something to write now.
    fleet.kubelet.kill(name, 'SIGCONT');
    await fleet.configure({ paused: true });
    await eventually(() => {
      const others = [...fleet.nodes.keys()].filter((node) => node !== waiting);
      const reasons = others.map((node) => fleet.shadow(node)?.status?.conditions?.[0]?.reason);
      expect(reasons).toEqual(['Paused', 'Paused']);
    });
    await sleep(3_000);
    const requests = await operatorRequests(cluster.auditLogPath, fleet.operator.namespace, position);
    // It may try to renew its Lease, which is rejected.
    const writes = requests.filter(({ user, verb, status }) => user === CONTROLLER && WRITES.has(verb) && status < 300);
    const byPod = Map.groupBy(writes, ({ pod }) => pod);
    expect(byPod.get(name)?.map(({ verb, resource }) => `${verb} ${resource}`) ?? []).toEqual([]);
    expect(byPod.size).toBe(1);
    await fleet.configure({ paused: false });
    await releaseDrains(context);
    await fleet.untilAllRun(NEW);
  });
});
