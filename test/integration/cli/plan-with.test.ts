/**
 * `kubectl brupop plan --with FILE` beside a controller on a real API server: what it says before an edit is what the
 * controller then does and reports. No agent answers, so that the fleet is as the first plan after the edit left it.
 */
import { jest } from '@jest/globals';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import {
  COMPONENT_LABEL,
  CONFIG_KIND,
  CONFIG_NAME,
  CONFIG_VERSION,
  CONTROLLER,
  GROUP,
  NODE_GROUP_KIND,
  NODE_GROUP_PLURAL,
  NODE_GROUP_VERSION,
  shadowName,
} from '../../../packages/shared/src/api/names.ts';
import type { BottlerocketNodeGroup } from '../../../packages/shared/src/api/node-group.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { releaseNamespace } from '../../framework/chart.ts';
import { Plugin } from '../../framework/cli/plugin.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, deleteMembers, readShadows } from '../../framework/controller/agents.ts';
import { configure, CONFIG_PATH, readBrupopConfig } from '../../framework/controller/configuration.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(240_000);

const GROUPS = `/apis/${GROUP}/${NODE_GROUP_VERSION}/${NODE_GROUP_PLURAL}`;
const VERSIONS = { old: '1.20.0', next: '1.21.0', other: '1.22.0' } as const;
/** How many nodes each pool has. */
const POOLS = { web: 3, db: 2, none: 3 } as const;
const CLOSED = { windows: [{ schedule: '0 0 29 2 *', duration: '1m' }] };
const OPEN = { windows: [{ schedule: '0 0 * * *', duration: '24h' }] };

/** Of one node. */
interface Outcome {
  readonly node: string;
  readonly change: string;
  readonly version: string;
  readonly reason: string;
  readonly message: string;
}

interface Group {
  readonly name: keyof typeof POOLS;
  readonly spec: object;
}

interface World {
  readonly config: BrupopConfigSpec;
  readonly group?: Group;
}

let cluster: ControlPlane;
let plugin: Plugin;
let replica: Replica;
/** Of this case: a controller remembers what was deleted, by its name. */
let nodes: readonly string[] = [];
let cases = 0;
/** The first one of the first case. */
const LEADER_NODE = 'db-0-of-1';

beforeAll(async () => {
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  plugin = await Plugin.build(cluster);
  plugin.users['admin'] = { token: cluster.adminToken };
  await configure(cluster, {});
  await apply({ config: { paused: true } });
  replica = await startReplica(cluster, serviceAccountDir, { nodeName: LEADER_NODE });
});

afterAll(async () => {
  await replica.stop();
  await cluster.stop();
  plugin.remove();
});

beforeEach(async () => {
  cases += 1;
  const members = Object.entries(POOLS).flatMap(([pool, count]) =>
    Array.from({ length: count }, (_, index) => [`${pool}-${index}-of-${cases}`, pool] as const),
  );
  for (const [name, pool] of members) {
    await createMember(cluster, name, VERSIONS.next);
    await cluster.api.patch(`/api/v1/nodes/${name}`, { metadata: { labels: { pool } } });
  }
  nodes = members.map(([name]) => name).toSorted();
});

afterEach(async () => {
  await deleteMembers(cluster, nodes);
  await cluster.api.request('DELETE', GROUPS);
  await apply({ config: { paused: true } });
});

const objectOf = ({ name, spec }: Group): object => ({
  apiVersion: `${GROUP}/${NODE_GROUP_VERSION}`,
  kind: NODE_GROUP_KIND,
  metadata: { name },
  spec: { nodeSelector: { matchLabels: { pool: name } }, ...spec },
});

/** As `kubectl replace` does. The controller may write the status between the read and the write. */
async function apply({ config, group }: World): Promise<void> {
  const kind = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: CONFIG_KIND };
  await eventually(async () => {
    const { metadata } = await readBrupopConfig(cluster);
    await cluster.api.request('PUT', CONFIG_PATH, { ...kind, metadata, spec: config }, 'application/json');
  });
  if (group === undefined) return;
  const path = `${GROUPS}/${group.name}?fieldManager=user&force=true`;
  await cluster.api.request('PATCH', path, objectOf(group), 'application/apply-patch+yaml');
}

function fileOf({ config, group }: World): string {
  const path = join(plugin.folder, 'edit.yaml');
  const objects = [
    { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: CONFIG_KIND, metadata: { name: CONFIG_NAME }, spec: config },
    ...(group === undefined ? [] : [objectOf(group)]),
  ];
  writeFileSync(path, objects.map((one) => JSON.stringify(one)).join('\n---\n'));
  return path;
}

/** What the controller has done to each node and reports of it. */
async function reported(): Promise<Outcome[]> {
  const shadows = new Map((await readShadows(cluster)).map((one) => [one.metadata.name, one]));
  return nodes.map((node) => {
    const { spec, status } = shadows.get(shadowName(node)) ?? {};
    const { reason = '', message = '' } = status?.conditions?.find(({ type }) => type === 'Progressing') ?? {};
    return { node, change: changeIn(spec), version: spec?.version ?? '', reason, message };
  });
}

/** Each node was at rest, without settings. */
function changeIn(spec: BottlerocketShadow['spec'] | undefined): string {
  if (spec?.state !== 'Idle') return 'Started';
  return spec.settings == null ? '' : 'Configured';
}

/** When the controller has seen the latest objects and has written nothing more for a while. */
async function settled(): Promise<Outcome[]> {
  let before = '';
  let since = Date.now();
  return await eventually(
    async () => {
      const config = await readBrupopConfig(cluster);
      const { items } = await cluster.api.get<{ items: BottlerocketNodeGroup[] }>(GROUPS);
      for (const { metadata, status } of [config, ...items])
        expect(status?.observedGeneration).toBe(metadata.generation);
      const found = await reported();
      for (const { node, reason } of found) expect([node, reason]).not.toEqual([node, '']);
      const text = JSON.stringify(found);
      if (text !== before) since = Date.now();
      before = text;
      expect(Date.now() - since).toBeGreaterThan(1_500);
      return found;
    },
    { limitMs: 60_000 },
  );
}

interface Difference {
  readonly before: Outcome;
  readonly after: Outcome;
}

async function predicted(world: World): Promise<Difference[]> {
  const { stdout, stderr } = await plugin.run('plan', '--with', fileOf(world), '-o', 'json');
  expect(stderr).toBe('');
  return JSON.parse(stdout) as Difference[];
}

const PAUSED: BrupopConfigSpec = { paused: true, pauseReason: 'change freeze' };
const ALL: BrupopConfigSpec = { maintenance: CLOSED, concurrency: { maxUpdating: 8 } };

/** Each with how many nodes are to start and how many are to differ, so that no case is empty. */
const EDITS: readonly [name: string, from: World, to: World, starts: number, differ: number][] = [
  ['the end of a pause', { config: PAUSED }, { config: {} }, 1, 8],
  ['a pause', { config: { maintenance: CLOSED } }, { config: { ...PAUSED, maintenance: CLOSED } }, 0, 8],
  [
    'the end of a pause and a higher concurrency.maxUpdating',
    { config: PAUSED },
    { config: { concurrency: { maxUpdating: 3 } } },
    3,
    8,
  ],
  [
    'a share of the fleet, as concurrency.maxUpdating and maxUnavailable',
    { config: PAUSED },
    { config: { concurrency: { maxUpdating: '50%', maxUnavailable: '25%' } } },
    2,
    8,
  ],
  ['a maintenance window that is open', { config: ALL }, { config: { ...ALL, maintenance: OPEN } }, 8, 8],
  ['a maintenance window that is closed', { config: PAUSED }, { config: ALL }, 0, 8],
  [
    'a blackout',
    { config: PAUSED },
    { config: { maintenance: { blackouts: [{ from: '2020-01-01T00:00:00Z', to: '2090-01-01T00:00:00Z' }] } } },
    0,
    8,
  ],
  [
    'a pin to the version that hosts offer',
    { config: ALL },
    { config: { ...ALL, versions: { pin: VERSIONS.next } } },
    0,
    8,
  ],
  ['a pin to another version', { config: ALL }, { config: { ...ALL, versions: { pin: VERSIONS.other } } }, 0, 8],
  [
    'a pin to the version that nodes run',
    { config: { maintenance: OPEN, paused: true } },
    { config: { maintenance: OPEN, versions: { pin: VERSIONS.old } } },
    0,
    8,
  ],
  ['an age that no version has', { config: PAUSED }, { config: { versions: { minimumAge: '72h' } } }, 0, 8],
  [
    'a selection of nodes',
    { config: PAUSED },
    { config: { nodeSelector: { matchLabels: { pool: 'web' } }, concurrency: { maxUpdating: 2 } } },
    2,
    8,
  ],
  ['a version that is denied', { config: PAUSED }, { config: { versions: { deny: [VERSIONS.next] } } }, 0, 8],
  [
    'canaries',
    { config: PAUSED },
    { config: { concurrency: { maxUpdating: 4 }, rollout: { canary: { nodes: 2 } } } },
    2,
    8,
  ],
  [
    'a group with a limit of its own',
    { config: PAUSED },
    { config: { concurrency: { maxUpdating: 6 } }, group: { name: 'web', spec: { concurrency: { maxUpdating: 1 } } } },
    6,
    8,
  ],
  [
    'a group that is paused',
    { config: ALL },
    {
      config: { ...ALL, maintenance: OPEN },
      group: { name: 'web', spec: { paused: true, pauseReason: 'end of quarter' } },
    },
    5,
    8,
  ],
  [
    'a group with a pin',
    { config: ALL },
    { config: ALL, group: { name: 'db', spec: { versions: { pin: VERSIONS.other } } } },
    0,
    2,
  ],
  [
    'a group with a window of its own',
    { config: ALL },
    { config: ALL, group: { name: 'db', spec: { maintenance: OPEN } } },
    2,
    2,
  ],
];

/** Returns what differs, and how the fleet is after the edit. */
async function compared(from: World, to: World): Promise<{ differences: Difference[]; after: Outcome[] }> {
  await apply(from);
  await settled();
  const { before, differences } = await agreed(to);
  await apply(to);
  const is = new Map(differences.map((one) => [one.after.node, one.after]));
  const after = before.map((one) => is.get(one.node) ?? one);
  const reasons = new Map(after.map(({ node, reason }) => [node, reason]));
  await eventually(
    async () => {
      expect(await reported()).toEqual(after);
      const { status } = await readBrupopConfig(cluster);
      for (const { node, reason } of status?.plan ?? []) expect([node, reason]).toEqual([node, reasons.get(node)]);
    },
    { limitMs: 60_000 },
  );
  expect(await settled()).toEqual(after);
  return { differences, after };
}

/** Once the planner here finds of the fleet as it is what the controller reports: both follow the same objects. */
async function agreed(to: World): Promise<{ before: Outcome[]; differences: Difference[] }> {
  return await eventually(
    async () => {
      const before = await reported();
      const differences = await predicted(to);
      expect(await reported()).toEqual(before);
      const was = new Map(differences.map((one) => [one.before.node, one.before]));
      expect(before.map((one) => was.get(one.node) ?? one)).toEqual(before);
      return { before, differences };
    },
    { limitMs: 60_000 },
  );
}

const started = (outcomes: readonly Outcome[]): string[] =>
  outcomes.flatMap(({ node, change }) => (change === 'Started' ? [node] : []));

it('the node of the leader starts after others, as plan --with has said', async () => {
  const lease = await cluster.api.get<{ spec: { holderIdentity: string } }>(
    `/apis/coordination.k8s.io/v1/namespaces/${releaseNamespace}/leases/${CONTROLLER}`,
  );
  const [name = ''] = lease.spec.holderIdentity.split('_');
  const pods = `/api/v1/namespaces/${releaseNamespace}/pods`;
  await cluster.api.create(pods, {
    metadata: { name, labels: { [COMPONENT_LABEL]: CONTROLLER } },
    spec: { nodeName: LEADER_NODE, containers: [{ name: 'controller', image: 'none' }] },
  });
  const { after } = await compared({ config: PAUSED }, { config: {} });
  expect([nodes[0], started(after)]).toEqual([LEADER_NODE, [nodes[1]]]);
  await cluster.api.delete(`${pods}/${name}`);
});

describe.each(EDITS)('%s', (_, from, to, starts, differ) => {
  it('does what plan --with has said', async () => {
    const { differences, after } = await compared(from, to);
    expect([started(after).length, differences.length]).toEqual([starts, differ]);
  });
});
