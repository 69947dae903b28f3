import { execFileSync } from 'node:child_process';
import { jest } from '@jest/globals';
import { Agent, request } from 'undici';
import {
  CONFIG_PLURAL,
  CONFIG_VERSION,
  GROUP,
  NODE_GROUP_PLURAL,
  NODE_GROUP_VERSION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
} from '@brupop/shared/api/names';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';
import { waiting } from '../../../packages/controller/src/plan/condition.ts';
import { type Reason, REASONS } from '../../../packages/controller/src/plan/facts/reasons.ts';
import { fullShadow } from '../../framework/example-shadow.ts';
import { fullGroup } from '../../framework/example-group.ts';
import { fullConfig } from '../../framework/examples.ts';

jest.setTimeout(120_000);

const shadows = `/apis/${GROUP}/${SHADOW_VERSION}/namespaces/default/${SHADOW_PLURAL}`;
const groups = `/apis/${GROUP}/${NODE_GROUP_VERSION}/${NODE_GROUP_PLURAL}`;
const configs = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;

interface Table {
  columnDefinitions: { name: string; priority: number; description: string }[];
  rows: { cells: unknown[] }[];
}

let cluster: ControlPlane;
let agent: Agent;

beforeAll(async () => {
  cluster = await startControlPlane();
  agent = new Agent({ allowH2: false, connect: { ca: cluster.ca } });
  await installCrds(cluster);
});

afterAll(async () => {
  await agent.destroy();
  await cluster.stop();
});

async function store(path: string, object: { metadata: { name: string }; status?: unknown }): Promise<void> {
  const { metadata } = await cluster.api.create<{ metadata: object }>(path, { ...object, status: undefined });
  await cluster.api.request('PUT', `${path}/${object.metadata.name}/status`, { ...object, metadata });
}

/**
 * The requests and the output of `kubectl get`, with the cells of the only object by column name.
 */
async function columnsOf(path: string): Promise<{ always: object; wide: object }> {
  const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io';
  const headers = { accept, authorization: `Bearer ${cluster.adminToken}` };
  const { body } = await request(`${cluster.url}${path}`, { dispatcher: agent, headers });
  const { columnDefinitions, rows } = (await body.json()) as Table;
  expect(rows).toHaveLength(1);
  const cells = (isWide: boolean): object =>
    Object.fromEntries(
      columnDefinitions.flatMap(({ name, priority }, index) =>
        priority > 0 === isWide ? [[name, rows[0]?.cells[index]]] : [],
      ),
    );
  return { always: cells(false), wide: cells(true) };
}

/** As kubectl prints the time since then. */
const age: unknown = expect.stringMatching(/^\d+s$/u);

/** What a configuration and a group show of their nodes, in order. */
const NODES = { 'Up To Date': 7, Updating: 2, Waiting: 2, Failed: 1 };

it('kubectl get brc shows what the fleet does', async () => {
  const { conditions } = fullConfig.status;
  const types = ['Progressing', 'Ready', 'WindowOpen', 'Degraded'];
  await store(configs, {
    ...fullConfig,
    status: { ...fullConfig.status, conditions: types.map((type) => ({ ...conditions[0], type })) },
  });
  const { always, wide } = await columnsOf(configs);
  expect(Object.entries(always)).toEqual(
    Object.entries({
      Name: 'cluster',
      Status: 'Paused',
      Ready: 'False',
      Degraded: 'False',
      ...NODES,
      'Complete By': '2026-01-03T03:00:00Z',
    }),
  );
  expect(Object.entries(wide)).toEqual(
    Object.entries({
      Managed: 12,
      Age: age,
      'Window Open': 'False',
      Opens: '2026-01-03T01:00:00Z',
      Closes: '2026-01-03T05:00:00Z',
      Message: 'Updates are paused: change freeze.',
    }),
  );
});

it('kubectl get brs shows what the node does', async () => {
  await store(shadows, fullShadow);
  const { always, wide } = await columnsOf(shadows);
  expect(Object.entries(always)).toEqual(
    Object.entries({
      Name: 'brs-node-1',
      State: 'ErrorReset',
      Version: '1.20.3',
      'Waiting For': 'OutsideMaintenanceWindow',
    }),
  );
  expect(Object.entries(wide)).toEqual(
    Object.entries({
      Target: '1.21.0',
      'Waiting Until': 'OutsideMaintenanceWindow until 2026-01-03T01:00:00Z',
      Failures: 2,
      Age: age,
      'Desired State': 'RebootedIntoUpdate',
      'Desired Version': '1.21.0',
      Group: 'ingress',
      Reason: 'Paused',
      Suspect: null,
      Step: 'Drain',
      'Blocked By': 'default/web-0',
      Message: 'Updates are paused: change freeze.',
    }),
  );
});

it('kubectl get brng shows what the group does', async () => {
  const { conditions } = fullGroup.status;
  const types = ['Progressing', 'Paused', 'Frozen', 'Degraded', 'Ready', 'WindowOpen'];
  const status = { ...fullGroup.status, conditions: types.map((type) => ({ ...conditions[0], type })) };
  await store(groups, { ...fullGroup, status });
  const { always, wide } = await columnsOf(groups);
  expect(Object.entries(always)).toEqual(
    Object.entries({
      Name: 'db',
      Status: 'Paused',
      Paused: 'False',
      Frozen: 'False',
      Degraded: 'False',
      ...NODES,
    }),
  );
  expect(Object.entries(wide)).toEqual(
    Object.entries({
      'Complete By': '2026-01-03T03:00:00Z',
      Managed: 12,
      Age: age,
      Precedence: 10,
      After: '["web"]',
      Ready: 'False',
      'Window Open': 'False',
      Opens: '2026-01-03T01:00:00Z',
      Message: 'Updates are paused: change freeze.',
    }),
  );
});

it('kubectl get brc shows a configuration that the controller has not seen yet', async () => {
  await cluster.api.delete(`${configs}/cluster`);
  await cluster.api.create(configs, { ...fullConfig, status: undefined });
  const { always } = await columnsOf(configs);
  expect(always).toMatchObject({ Name: 'cluster', Status: null, Updating: null, 'Complete By': null });
});

describe('a table of kubectl get has at most 120 columns, whatever the reasons', () => {
  const NODE = 'ip-10-255-123-45.ap-southeast-1.compute.internal';
  const STATES = ['Idle', 'StagedAndPerformedUpdate', 'RebootedIntoUpdate', 'MonitoringUpdate', 'ErrorReset'];
  const reasons = Object.keys(REASONS) as Reason[];
  const get = (...args: string[]): string[] =>
    execFileSync(cluster.assets.kubectl, ['get', ...args], { env: cluster.env, encoding: 'utf8' })
      .trim()
      .split('\n');
  const tooWide = (lines: readonly string[]): string[] => lines.filter((line) => line.trimEnd().length > 120);

  it('of nodes with long names', async () => {
    await cluster.api.delete(`${shadows}/${fullShadow.metadata.name}`);
    for (const [index, reason] of reasons.entries()) {
      const { waitingFor } = waiting({ reason, message: '', retryAt: Date.UTC(2026, 11, 5, 1) });
      const shown = { waitingFor, waitingReason: waitingFor.split(' ', 1)[0] };
      const versions = { current_version: '1.100.10', target_version: '1.101.10' };
      const status = { ...fullShadow.status, ...versions, ...shown, current_state: STATES[index % STATES.length] };
      await store(shadows, {
        ...fullShadow,
        status,
        metadata: { name: `brs-${NODE.replace('45', `${100 + index}`)}` },
      });
    }
    const lines = get('brs');
    expect(lines).toHaveLength(reasons.length + 1);
    expect(tooWide(lines)).toEqual([]);
    for (const [index, reason] of reasons.entries())
      expect(lines[index + 1]).toMatch(new RegExp(`1\\.100\\.10 +${reason}$`, 'u'));
  });

  it('of the configuration and of groups', async () => {
    const [reason = ''] = reasons.toSorted((a, b) => b.length - a.length);
    const conditions = ['Progressing', 'Ready', 'Paused', 'Frozen', 'WindowOpen', 'Degraded'].map((type) => ({
      ...fullConfig.status.conditions[0],
      type,
      reason,
      status: 'False',
    }));
    const nodes = { ...fullConfig.status.nodes, managed: 50_000, upToDate: 20_000, updating: 10_000, waiting: 20_000 };
    const name = 'stateful-databases-eu';
    const configStatus = { ...fullConfig.status, conditions, nodes };
    const groupStatus = { ...fullGroup.status, conditions, nodes };
    await cluster.api.patch(`${configs}/cluster/status`, { status: configStatus });
    await cluster.api.create(groups, { ...fullGroup, metadata: { name }, status: undefined });
    await cluster.api.patch(`${groups}/${name}/status`, { status: groupStatus });
    for (const lines of [get('brc'), get('brng')]) {
      expect(tooWide(lines)).toEqual([]);
      expect(lines.join('\n')).toContain(` ${reason} `);
    }
  });
});

it('kubectl explain describes every field', async () => {
  const explain = (field: string): string =>
    execFileSync(cluster.assets.kubectl, ['explain', `brc.${field}`, '--recursive'], {
      env: cluster.env,
      encoding: 'utf8',
    });
  for (const [field, type] of [
    ['spec', /maintenance\s+<Object>[^]*schedule\s+<string> -required-[^]*enum: Name, Random, OldestBoot/u],
    ['spec.maintenance.windows', /duration\s+<string> -required-/u],
    ['spec.maintenance.timeZone', /IANA time zone of the schedules, such as Europe\/Berlin\. The default is UTC\./u],
    ['spec.concurrency.maxUpdating', /FIELD: maxUpdating <Object>[^]*The default is 1\./u],
  ] as const) {
    expect(explain(field)).toMatch(type);
  }
});
