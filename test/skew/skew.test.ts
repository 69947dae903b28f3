/** Programs of the former release and of this one in a fleet: `scripts/skew.ts` builds the former one. */
import { cpSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { AGENT, APISERVER, CONTROLLER } from '../../packages/shared/src/api/names.ts';
import { eventually } from '../framework/eventually.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../framework/fleet/with-fleet.ts';
import { letThrough } from '../framework/kubelet/users.ts';

jest.setTimeout(1_200_000);

// oxlint-disable-next-line node/no-process-env -- the script names the folder so
const { BRUPOP_FORMER: FORMER = '' } = process.env;
const FORMER_TAG = 'former';
const VALUES = { 'agent.updateCheckIntervalSeconds': 1 };
const APPS = '/apis/apps/v1';
const KINDS = { [AGENT]: 'daemonsets', [APISERVER]: 'deployments', [CONTROLLER]: 'deployments' } as const;
type Program = keyof typeof KINDS;
const PROGRAMS = Object.keys(KINDS) as Program[];

interface Workload {
  readonly metadata: { readonly generation: number };
  readonly spec: { readonly template: object; readonly replicas?: number };
  readonly status: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly readyReplicas?: number;
    readonly desiredNumberScheduled?: number;
    readonly updatedNumberScheduled?: number;
    readonly numberReady?: number;
  };
}

/** The template of the pods of each program. */
type Templates = Readonly<Record<Program, object>>;

/** The programs run as other users, who do not reach the cache. */
const programs = mkdtempSync(join(tmpdir(), 'brupop-former-'));
letThrough(programs);
cpSync(join(FORMER, 'dist'), programs, { recursive: true });
const withFormer = { otherImages: { [FORMER_TAG]: programs } };

async function installFormer({ fleet }: FleetContext): Promise<void> {
  const chart = join(FORMER, 'charts/bottlerocket-update-operator');
  await fleet.operator.install({ ...VALUES, 'image.tag': FORMER_TAG }, chart);
  await fleet.configure({});
}

const pathOf = ({ fleet }: FleetContext, program: Program): string =>
  `${APPS}/namespaces/${fleet.operator.namespace}/${KINDS[program]}/${program}`;

async function templates(context: FleetContext): Promise<Templates> {
  const found = PROGRAMS.map(async (program): Promise<[Program, object]> => {
    const { spec } = await context.cluster.api.get<Workload>(pathOf(context, program));
    return [program, spec.template];
  });
  return Object.fromEntries(await Promise.all(found)) as Record<Program, object>;
}

/** Runs each program as these templates say, and waits until the pods of others are gone. */
async function run(context: FleetContext, wanted: Templates): Promise<void> {
  const { api } = context.cluster;
  for (const program of PROGRAMS) {
    const patch = [{ op: 'replace', path: '/spec/template', value: wanted[program] }];
    await api.request('PATCH', pathOf(context, program), patch, 'application/json-patch+json');
  }
  await eventually(
    async () => {
      for (const program of PROGRAMS) {
        const { metadata, spec, status } = await api.get<Workload>(pathOf(context, program));
        const { replicas = status.desiredNumberScheduled ?? 0 } = spec;
        const updated = status.updatedReplicas ?? status.updatedNumberScheduled;
        const ready = status.readyReplicas ?? status.numberReady;
        const all = status.replicas ?? status.desiredNumberScheduled;
        const found = { generation: status.observedGeneration, updated, ready, all };
        expect(found).toEqual({
          generation: metadata.generation,
          updated: replicas,
          ready: replicas,
          all: replicas,
        });
      }
    },
    { limitMs: 240_000, pauseMs: 500 },
  );
}

/** Waits until a node is about to be drained or is away. */
async function untilUnderWay({ fleet }: FleetContext): Promise<void> {
  await eventually(
    () => {
      const states = [...fleet.nodes.keys()].map((name) => fleet.shadow(name)?.spec.state);
      expect(states).toContain('RebootedIntoUpdate');
    },
    { limitMs: 120_000 },
  );
}

/** No agent is too old or too new. */
function expectSupported({ fleet }: FleetContext): void {
  for (const name of fleet.nodes.keys()) {
    const conditions = fleet.shadow(name)?.status?.conditions ?? [];
    expect(conditions.find(({ type }) => type === 'AgentSupported')).toBeUndefined();
  }
}

it('every mixture of programs of the former release and of this one updates the nodes', async () => {
  await withFleet({ nodes: fleetNodes(2), ...withFormer, install: installFormer }, async (context) => {
    const { fleet } = context;
    await fleet.untilAllRun(NEW);
    const former = await templates(context);
    await fleet.operator.upgrade(VALUES);
    const own = await templates(context);
    const mixtures = [1, 2, 3, 4, 5, 6].map((bits) =>
      Object.fromEntries(PROGRAMS.map((one, i) => [one, ((bits >> i) & 1) === 1 ? own[one] : former[one]])),
    ) as Record<Program, object>[];
    for (const mixture of mixtures) {
      await run(context, mixture);
      await fleet.untilAllRun(fleet.publishNext());
      expectSupported(context);
    }
    await run(context, own);
    await fleet.untilAllRun(fleet.publishNext());
  });
});

it('an update under way ends after the chart is upgraded, and after it is rolled back', async () => {
  const durations = { prepareMs: 500, bootMs: 3_000 };
  await withFleet({ nodes: fleetNodes(3), durations, ...withFormer, install: installFormer }, async (context) => {
    const { fleet } = context;
    await untilUnderWay(context);
    await fleet.operator.upgrade(VALUES);
    await fleet.untilAllRun(NEW);
    const next = fleet.publishNext();
    await untilUnderWay(context);
    await fleet.operator.rollback();
    await fleet.untilAllRun(next);
    expectSupported(context);
    expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([2, 2, 2]);
  });
});
