/** A fleet at rest gets a controller of another release: nothing is written until the owners change their specs. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import { COMPONENT_LABEL, CONTROLLER } from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketNodeGroup } from '../../../packages/shared/src/api/node-group.ts';
import { auditPosition, countRequests, operatorRequests } from '../../framework/audit.ts';
import { accountOfController } from '../../framework/controller/installation.ts';
import { otherRelease } from '../../framework/controller/other-release.ts';
import { startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { applyGroup, groupStatus, setPool } from '../../framework/fleet/pools.ts';
import { type FleetContext, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

jest.setTimeout(1_500_000);

const WATCH_MS = 10 * 60_000;
const GROUPS = { gpu: ['node-1', 'node-2'], web: ['node-3', 'node-4'] } as const;
const NAMES = Object.values(GROUPS).flat();
const TEAM = 'example.com/team';
const RENDERED_BY = 'example.com/rendered-by';
const TAINT = { key: 'example.com/dedicated', value: 'pool', effect: 'PreferNoSchedule' } as const;
const OTHER_TAINT = { ...TAINT, value: 'another-release' };
const MOTD = 'settings.motd';
const API = '/apis/brupop.bottlerocket.aws/v1alpha1';
const CONFIG = { versions: { pin: OLD } };

/** Other defaults, and another rendering of labels, taints and settings. */
const RELEASE = {
  'config-spec': { 'always(1)': '{ default: 3, absent: 1 }' },
  rendered: {
    'labels: sorted(labels)': `labels: sorted({ ...labels, '${RENDERED_BY}': 'another-release' })`,
    'taints: taints.toSorted(byId)':
      "taints: taints.map((one) => ({ ...one, value: 'another-release' })).toSorted(byId)",
    'settings: sorted(Object.fromEntries(leavesOf(settings)))': `settings: sorted({ ...Object.fromEntries(leavesOf(settings)), '${MOTD}': '"another release"' })`,
  },
};

const specOf = (name: string) => ({
  nodeMetadata: { labels: { [TEAM]: name }, taints: [TAINT], domains: ['example.com'] },
  settings: { motd: name },
});

async function createPools(context: FleetContext): Promise<void> {
  for (const [name, nodes] of Object.entries(GROUPS)) for (const node of nodes) await setPool(context, node, name);
}

/** What a release might change of a node: its Node, its shadow and its host. */
function nodeOf({ fleet }: FleetContext, name: string) {
  const { metadata, spec } = fleet.observer.nodes.get(name) ?? {};
  const { host } = fleet.node(name);
  return {
    labels: metadata?.labels,
    annotations: metadata?.annotations,
    taints: spec?.taints,
    unschedulable: spec?.unschedulable === true,
    shadow: fleet.shadow(name)?.metadata.resourceVersion,
    settings: Object.fromEntries(host.settings.live),
    changes: host.history.filter(({ method }) => method === 'PATCH').length,
    bootID: host.bootID,
  };
}

const nodesOf = (context: FleetContext, names: readonly string[] = NAMES): unknown[] =>
  names.map((name) => nodeOf(context, name));

/** The condition PendingChanges of each group and of the configuration. */
async function pendingChanges({ cluster }: FleetContext): Promise<(string | undefined)[]> {
  const config = await cluster.api.get<BrupopConfig>(`${API}/brupopconfigs/cluster`);
  const { items } = await cluster.api.get<{ items: BottlerocketNodeGroup[] }>(`${API}/bottlerocketnodegroups`);
  return [...items, config].map(
    ({ status }) => status?.conditions?.find(({ type }) => type === 'PendingChanges')?.message,
  );
}

const renderedOtherwise = (motd: string): string =>
  'This release renders the spec differently. The next change of the spec will also change ' +
  `spec.nodeMetadata.labels.${RENDERED_BY} from none to another-release, ` +
  `spec.nodeMetadata.taints from ${JSON.stringify([TAINT])} to ${JSON.stringify([OTHER_TAINT])}, ` +
  `spec.${MOTD} from "${motd}" to "another release"`;
const OTHER_DEFAULT: unknown = expect.stringMatching(
  /^This release has other defaults\..* spec\.concurrency\.maxUpdating from 1 to 3$/u,
);
const NOTHING = 'The next change of the spec changes nothing else';

/** Writes of the operator's programs. Leases are renewed, and reviews are not stored. */
async function writesSince({ cluster, fleet }: FleetContext, position: number): Promise<string[]> {
  const requests = await operatorRequests(cluster.auditLogPath, fleet.operator.namespace, position);
  const writes = requests.filter(
    ({ verb, resource }) => !['get', 'list', 'watch'].includes(verb) && !/^leases$|reviews$/u.test(resource),
  );
  return [...countRequests(writes).keys()].toSorted();
}

async function untilInEffect(context: FleetContext): Promise<void> {
  await eventually(
    async () => {
      for (const name of Object.keys(GROUPS)) expect((await groupStatus(context, name)).confirmedGeneration).toBe(1);
      const motds = NAMES.map((name) => nodeOf(context, name).settings[MOTD]);
      expect(motds).toEqual(Object.entries(GROUPS).flatMap(([name, nodes]) => nodes.map(() => name)));
    },
    { limitMs: 300_000, pauseMs: 1_000 },
  );
}

async function stopControllers({ cluster, fleet }: FleetContext): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${fleet.operator.namespace}/deployments/${CONTROLLER}/scale`;
  await cluster.api.patch(path, { spec: { replicas: 0 } });
  await eventually(() => {
    const left = fleet.observer.pods.list().filter(({ metadata }) => metadata.labels?.[COMPONENT_LABEL] === CONTROLLER);
    expect(left).toEqual([]);
  });
}

/** The change of each owner brings what the condition has named for it, and nothing else. */
async function expectChanges(context: FleetContext, before: readonly unknown[]): Promise<void> {
  const { gpu, web } = GROUPS;
  const { labels, taints, settings } = nodeOf(context, gpu[0]);
  await applyGroup(context, 'gpu', { ...specOf('gpu'), order: 'Name' });
  await eventually(
    async () => expect(await pendingChanges(context)).toEqual([NOTHING, renderedOtherwise('web'), OTHER_DEFAULT]),
    { limitMs: 60_000 },
  );
  await eventually(
    async () => {
      expect((await groupStatus(context, 'gpu')).confirmedGeneration).toBe(2);
      expect(nodeOf(context, gpu[0])).toMatchObject({
        labels: { ...labels, [RENDERED_BY]: 'another-release' },
        taints: taints?.map((one) => (one.key === TAINT.key ? OTHER_TAINT : one)),
        unschedulable: false,
        settings: { ...settings, [MOTD]: 'another release' },
      });
    },
    { limitMs: 300_000, pauseMs: 1_000 },
  );
  expect(nodesOf(context, web)).toEqual(before.slice(gpu.length));

  await context.fleet.configure({ ...CONFIG, order: 'Name' });
  await eventually(async () =>
    expect(await pendingChanges(context)).toEqual([NOTHING, renderedOtherwise('web'), NOTHING]),
  );
  const { status } = await context.cluster.api.get<BrupopConfig>(`${API}/brupopconfigs/cluster`);
  expect(status?.inForce?.spec['concurrency']).toMatchObject({ maxUpdating: 3 });
  expect(nodesOf(context, web)).toEqual(before.slice(gpu.length));
}

it('writes nothing for ten minutes, and then what the condition PendingChanges has named for each owner', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'brupop-release-'));
  const values = { 'nodeMetadata.domains[0]': 'example.com' };
  try {
    const release = await otherRelease(folder, RELEASE);
    await withFleet({ nodes: fleetNodes(4), values, config: CONFIG, before: createPools }, async (context) => {
      const { cluster } = context;
      for (const name of Object.keys(GROUPS)) await applyGroup(context, name, specOf(name));
      await untilInEffect(context);
      await stopControllers(context);
      const before = nodesOf(context);
      const position = await auditPosition(cluster.auditLogPath);

      const replica = await startReplica(cluster, await accountOfController(cluster), {}, release);
      try {
        await eventually(
          async () =>
            expect(await pendingChanges(context)).toEqual([
              renderedOtherwise('gpu'),
              renderedOtherwise('web'),
              OTHER_DEFAULT,
            ]),
          { limitMs: 120_000 },
        );
        expect(await writesSince(context, position)).toEqual([
          'brupop-controller patch bottlerocketnodegroups/status',
          'brupop-controller patch brupopconfigs/status',
        ]);
        const watchedFrom = await auditPosition(cluster.auditLogPath);
        await sleep(WATCH_MS);
        expect(await writesSince(context, watchedFrom)).toEqual([]);
        expect(nodesOf(context)).toEqual(before);
        expect(await replica.isLeader()).toBe(true);
        await expectChanges(context, before);
      } finally {
        await replica.stop();
      }
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
