/** Hosts that do not answer their agents after the reboot of an update, or of settings. */
import type { NodeRecord } from '@brupop/shared/api/record';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { grouped } from '@brupop/shared/testing/settings';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { ago, aManagedNode, aSnapshot, failure, MINUTE, NEW, NOW, OLD, underWay } from '../testing/objects.ts';
import { wholePlan as plan } from '../whole-plan.ts';

/** Its step remains in progress, since only the next answer of the host shows whether it has rolled back. */
const silent = (name: string, bootID: string, { from, settings }: { from: string; settings?: object }): ManagedNode => {
  const record: NodeRecord = {
    startedAt: ago(10 * MINUTE),
    from,
    rebootRequestedAt: ago(9 * MINUTE),
    bootBefore: 'boot-1',
  };
  const lastOperation = failure('HostUnreachable', { operation: 'Reboot', state: 'Processing' });
  return aManagedNode(
    name,
    { bootID },
    {
      spec: { ...underWay('RebootedIntoUpdate'), ...settings },
      record,
      status: { current_state: 'ErrorReset', current_version: from, bootID, crash_count: 1, lastOperation },
    },
  );
};

it('fail with the version that they have booted, and freeze it; those that have not booted do not', () => {
  const update = { from: OLD };
  const nodes = [silent('a', 'boot-2', update), silent('b', 'boot-2', update), silent('c', 'boot-1', update)];
  const made = plan(aSnapshot([...nodes, aManagedNode('d')]), NOW);
  expect(made.failed.map(({ name, code }) => `${name} ${code}`)).toEqual(['a HostUnreachable', 'b HostUnreachable']);
  expect(made.specs.map(({ outcome, record: { failed } }) => [outcome, failed?.version])).toEqual([
    ['Failed', NEW],
    ['Failed', NEW],
    ['Failed', undefined],
  ]);
  expect(made.frozen).toMatchObject([{ version: NEW }]);
});

it('fail with the settings for which they were rebooted', () => {
  const reboot = { from: NEW, settings: { settings: grouped({ motd: 'a' }, 'NeedsReboot') } };
  const made = plan(aSnapshot([silent('a', 'boot-2', reboot)]), NOW);
  expect(made.failed).toEqual([]);
  expect(made.specs[0]?.record.failed).toBeUndefined();
  expect(made.specs[0]?.record.settingsFailed).toMatchObject({ at: rfc3339(NOW) });
});
