/** Which failures that are in the status the rollout remembers. */
import { pinned } from '@brupop/shared/testing/settings';
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW, OLD } from '../../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../../whole-plan.ts';

const HOUR = 60 * MINUTE;
const waiting = (name: string) => aManagedNode(name);

it('of one node the latest ten failures count, since its kubelet may invent versions and have it forget that they failed', () => {
  const invented = Array.from({ length: 500 }, (_, at) => `9.${at}.0`);
  const failedNodes = invented.flatMap((version, at) =>
    ['a', 'b'].map((name) => ({ name, version, code: 'RolledBack', since: ago((at + 1) * MINUTE) })),
  );
  const known = { name: 'c', version: NEW, code: 'RolledBack', since: ago(10 * 24 * HOUR) };
  const snapshot = aSnapshot(['a', 'b', 'c', 'd'].map(waiting), { rollout: { failureBudget: 1 } });
  const status = { failedNodes: [...failedNodes, known] };
  const { failed, frozen } = plan({ ...snapshot, config: snapshot.config && { ...snapshot.config, status } }, NOW);
  expect(failed.filter(({ name }) => name === 'a').map(({ version }) => version)).toEqual(invented.slice(0, 10));
  expect([failed.length, frozen.length]).toEqual([21, 10]);
  expect(failed.at(-1)).toMatchObject({ name: 'c', version: NEW });
});

describe('nodes that failed with an older version to which the fleet is pinned, and were deleted', () => {
  const failedNodes = ['x', 'y'].map((name) => ({ name, version: OLD, code: 'RolledBack', since: ago(MINUTE) }));
  const pinnedTo = (offered: string, running = NEW): Plan => {
    const shadow = {
      spec: { settings: pinned({ versionLock: OLD }) },
      status: { current_version: running, target_version: offered },
    };
    const nodes = ['a', 'b', 'c'].map((name) => aManagedNode(name, {}, shadow));
    const snapshot = aSnapshot(nodes, { versions: { pin: OLD }, rollout: { failureBudget: 1 } });
    const config = snapshot.config && { ...snapshot.config, status: { failedNodes } };
    return plan({ ...snapshot, config }, NOW);
  };

  it.each([
    ['the hosts offer it', OLD],
    ['the hosts do not offer it yet', NEW],
  ])('count, and the version is frozen, when %s', (_, offered) => {
    const made = pinnedTo(offered);
    expect(made.failed.map(({ name }) => name)).toEqual(['x', 'y']);
    expect(made.frozen.map(({ version }) => version)).toEqual([OLD]);
    expect(made.specs.filter(({ outcome }) => outcome === 'Started')).toEqual([]);
  });

  it('are forgotten when all nodes run it', () => {
    expect(pinnedTo(OLD, OLD).failed).toEqual([]);
  });
});
