/** A version that does not boot on one node. */
import type { V1PodList } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import { AGENT, APISERVER, CONTROLLER } from '../../packages/shared/src/api/names.ts';
import { eventually } from '../framework/eventually.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { type FleetContext, NEW, OLD, oneFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

const BROKEN = 'node-2';

const onFleet = oneFleet({
  nodes: fleetNodes(3),
  before: async ({ fleet }) => await fleet.node(BROKEN).host.faults.set({ boot: { rollsBack: true } }),
});

interface Line {
  readonly time: string;
  readonly level: string;
  readonly msg: string;
  readonly component: string;
  readonly [field: string]: string | number | undefined;
}

/** The logs of all pods of the operator that were seen, also of those that are gone. */
class Logs {
  readonly #context: FleetContext;
  readonly #pods = new Set<string>();

  constructor(context: FleetContext) {
    this.#context = context;
  }

  async look(): Promise<void> {
    const { cluster, fleet } = this.#context;
    const { items } = await cluster.api.get<V1PodList>(`/api/v1/namespaces/${fleet.operator.namespace}/pods`);
    for (const { metadata } of items) this.#pods.add(metadata?.name ?? '');
  }

  /** As `sort` shows them. */
  async lines(): Promise<string[]> {
    const texts = await Promise.all([...this.#pods].map(async (pod) => await this.#context.fleet.kubelet.logs(pod)));
    return texts
      .flatMap((text) => text.split('\n'))
      .filter((text) => text.startsWith('{'))
      .toSorted();
  }
}

const parsed = (lines: readonly string[]): Line[] => lines.map((text) => JSON.parse(text) as Line);

/** In this order, with other lines between them. */
const STORY: readonly (readonly [component: string, msg: string])[] = [
  [CONTROLLER, 'the update starts'],
  [AGENT, 'writing the update to the other partition'],
  [CONTROLLER, 'the update continues with its next step'],
  [AGENT, 'draining the node'],
  [APISERVER, 'node cordoned'],
  [APISERVER, 'the drain ends'],
  [AGENT, 'activating the update'],
  [AGENT, 'rebooting the host'],
  [CONTROLLER, 'the update has failed'],
];

async function expectStory({ fleet }: FleetContext, logs: Logs): Promise<void> {
  const written = await logs.lines();
  const story = written.filter((text) => text.includes(BROKEN));
  const [all, lines] = [parsed(written), parsed(story)];

  const steps = lines.filter(({ component, msg }) => STORY.some(([a, b]) => a === component && b === msg));
  let next = 0;
  for (const { component, msg } of steps) if (STORY[next]?.[0] === component && STORY[next]?.[1] === msg) next += 1;
  expect(STORY.slice(next)).toEqual([]);

  const attempt = lines.find(({ msg }) => msg === 'the update starts')?.['attempt'];
  expect(attempt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/u);
  const ofAttempt = steps.slice(steps.findIndex(({ msg }) => msg === 'the update starts'));
  expect(ofAttempt.map((line) => [line.msg, line['node'], line['attempt']])).toEqual(
    ofAttempt.map(({ msg }) => [msg, BROKEN, attempt]),
  );

  const failures = lines.filter(({ level, msg }) => level === 'warn' && msg === 'the update has failed');
  expect(failures.map(({ component }) => component).toSorted()).toEqual([AGENT, CONTROLLER]);
  for (const line of failures)
    expect(line).toMatchObject({ node: BROKEN, from: OLD, to: NEW, code: 'RolledBack', attempt });

  expect(all.filter((line) => line['pod'] !== undefined && line['node'] === undefined)).toEqual([]);
  const saysNoMore = ({ msg, reason }: Line): boolean => msg.toLowerCase() === String(reason).toLowerCase();
  expect(all.filter(saysNoMore)).toEqual([]);
  const starts = all.filter(({ msg }) => msg === 'starting');
  expect(new Set(starts.map(({ component }) => component))).toEqual(new Set([AGENT, APISERVER, CONTROLLER]));
  expect(
    starts.filter(({ release, commit }) => !/^\d+\.\d+\.\d+$/u.test(String(release)) || commit === undefined),
  ).toEqual([]);
  const agents = starts.filter(({ component }) => component === AGENT);
  expect(new Set(agents.map((line) => line['node']))).toEqual(new Set(fleet.nodes.keys()));
  const standby = all.find(({ msg }) => msg.startsWith('on standby'));
  expect(standby?.['leader']).toMatch(/^brupop-controller-/u);
  const others = all.filter(({ level }) => level === 'warn' || level === 'error');
  expect(others.filter((line) => line['node'] !== BROKEN)).toEqual([]);
}

/** Waits until the node has failed, and the others run the new version. */
async function untilFailed(
  { fleet }: FleetContext,
  look = async (): Promise<void> => await Promise.resolve(),
): Promise<void> {
  await eventually(
    async () => {
      await look();
      for (const name of fleet.nodes.keys()) fleet.assertRuns(name, name === BROKEN ? OLD : NEW);
      const status = fleet.shadow(BROKEN)?.status;
      expect(status?.crash_count).toBe(1);
      expect(status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'RolledBack', version: NEW });
      expect(status?.conditions?.map(({ type, status: is, reason }) => [type, is, reason])).toEqual([
        ['Progressing', 'False', 'ManualRetryRequired'],
        ['Ready', 'False', 'ManualRetryRequired'],
        ['Stalled', 'True', 'ManualRetryRequired'],
      ]);
    },
    { limitMs: 120_000 },
  );
}

describe('a rollout with a version that does not boot on one node', () => {
  it('one grep over a failed node tells its story, with the cause as a warning', async () => {
    await onFleet(async (context) => {
      const logs = new Logs(context);
      await untilFailed(context, async () => await logs.look());
      expect(context.fleet.node(BROKEN).host.reboots).toBe(1);
      await expectStory(context, logs);
    });
  });

  it('keeps a node on its old version when the new one does not boot, and retries only on request', async () => {
    await onFleet(async (context) => {
      const { fleet, cluster } = context;
      await untilFailed(context);
      expect(fleet.node(BROKEN).host.reboots).toBe(1);
      const known = fleet.shadow(BROKEN)?.metadata.uid;
      await cluster.api.delete(fleet.shadowPath(BROKEN));
      await eventually(
        () => {
          const { metadata, status } = fleet.shadow(BROKEN) ?? {};
          expect(metadata?.uid).not.toBe(known);
          expect(status?.lastOperation).toMatchObject({ state: 'Failed', errorCode: 'RolledBack', version: NEW });
          expect(status?.conditions?.[0]).toMatchObject({ reason: 'ManualRetryRequired' });
        },
        { limitMs: 90_000 },
      );
      expect(fleet.node(BROKEN).host.reboots).toBe(2);
      await fleet.node(BROKEN).host.faults.set({ boot: { rollsBack: false } });
      await fleet.askForRetry(BROKEN, NEW);
      await fleet.untilAllRun(NEW);
      expect(fleet.node(BROKEN).host.reboots).toBe(3);
    });
  });
});
