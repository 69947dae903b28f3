import { jest } from '@jest/globals';

import type { BottlerocketShadow, ShadowState } from '../../packages/shared/src/shadow.ts';
import { inflict } from '../support/faults/inflict.ts';
import { fleetNodes } from '../support/fleet/fleet.ts';
import { NEW, withFleet } from '../support/fleet/with-fleet.ts';
import type { Scene } from '../support/fleet/with-fleet.ts';

jest.setTimeout(600_000);

type Moment = (shadow: BottlerocketShadow, version: string) => boolean;

/** Instants of an update to `version` between which the leader acts on a node. */
const told =
  (state: ShadowState): Moment =>
  ({ spec }, version) =>
    spec.state === state && spec.version === version;
const reported =
  (state: ShadowState): Moment =>
  ({ spec, status }, version) =>
    spec.state === state && spec.version === version && status?.current_state === state;

const moments: Readonly<Record<string, Moment>> = {
  'a node is told to stage': told('StagedAndPerformedUpdate'),
  'a node has staged': reported('StagedAndPerformedUpdate'),
  'a node is told to reboot': told('RebootedIntoUpdate'),
  'a node has rebooted': reported('RebootedIntoUpdate'),
  'a node is told to watch itself': told('MonitoringUpdate'),
  'a node has watched itself': reported('MonitoringUpdate'),
  'a node is told that it is done': ({ spec, status }, version) =>
    spec.state === 'Idle' && status?.current_state === 'MonitoringUpdate' && status.current_version === version,
};

/** Publishes a version and kills the leading controller at the first such moment; resolves with the kill. */
async function killAt({ fleet, cluster, namespace }: Scene, moment: Moment): Promise<{ version: string; how: string }> {
  const version = fleet.publishNext();
  const come = Promise.withResolvers<undefined>();
  const unsubscribe = fleet.observer.shadows.subscribe(({ object }) => {
    if (moment(object, version)) come.resolve(undefined);
  });
  await come.promise;
  unsubscribe();
  const fault = { kind: 'killed', who: { program: 'controller', which: 'leader' }, forMs: 0 } as const;
  return { version, how: await inflict({ fleet, cluster, namespace }, fault) };
}

test('a leading controller that is killed at any state of an update is followed by another, and each node is rebooted once', async () => {
  const values = { 'agent.updateCheckIntervalSeconds': 1 };
  await withFleet({ nodes: fleetNodes(2), values }, async (scene) => {
    const { fleet } = scene;
    await fleet.untilAllRun(NEW);
    for (const [name, moment] of Object.entries(moments)) {
      const { version, how } = await killAt(scene, moment);
      expect([name, how]).toEqual([name, 'hit']);
      await fleet.untilAllRun(version);
    }
    const updates = 1 + Object.keys(moments).length;
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([updates, updates]);
  });
});
