/** How many failures of one node the rollout remembers. */
import { ago, aManagedNode, aSnapshot, MINUTE, NEW, NOW } from '../../testing/objects.ts';
import { wholePlan as plan } from '../../whole-plan.ts';

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
