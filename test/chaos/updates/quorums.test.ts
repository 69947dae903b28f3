/** Sets of pods of which a majority has to be left, on whole fleets. Their members are static pods, which no budget protects. */
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { V1Node } from '@kubernetes/client-node';
import { eventually } from '../../framework/eventually.ts';
import type { Victim } from '../../framework/faults/fault.ts';
import { inject } from '../../framework/faults/inject.ts';
import { type StateTrigger, untilTriggered } from '../../framework/faults/trigger.ts';
import { readyStatus } from '../../framework/fleet/compromised-node.ts';
import { setReady } from '../../framework/fleet/daemon-pods.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { configStatus } from '../../framework/fleet/reports.ts';
import { awayOf, createMembers, DATABASES, staticMember, staticQuorum } from '../../framework/fleet/static-members.ts';
import { type FleetContext, NEW, OLD, withFleet } from '../../framework/fleet/with-fleet.ts';

// oxlint-disable-next-line node/no-process-env -- a longer run is asked for so
const { BRUPOP_KILLS = '20' } = process.env;
const KILLS = Number(BRUPOP_KILLS);

// After most kills, the next leader waits for the Lease of the last one to expire.
jest.setTimeout(Math.max(900_000, KILLS * 45_000));

const VOTERS = ['node-1', 'node-2', 'node-3'];
const concurrency = { maxUpdating: '100%', controlPlane: 'Ignored' } as const;
const ETCD = { concurrency, quorums: [staticQuorum('etcd', 3)] };
const LEADER: Victim = { program: 'controller', which: 'leader' };
const CONTROLLERS: Victim = { program: 'controller', which: 'all' };
const API_SERVERS: Victim = { program: 'apiserver', which: 'all' };
/** Nodes beyond the members go together. */
const TOGETHER = { maxUnavailable: 6, durations: { prepareMs: 300, bootMs: 1_000 } };

const progressing = ({ fleet }: FleetContext, name: string) =>
  fleet.shadow(name)?.status?.conditions?.find(({ type }) => type === 'Progressing');
const reboots = ({ fleet }: FleetContext, names: readonly string[]): number[] =>
  names.map((name) => fleet.node(name).host.reboots);
const setMemberReady = async (context: FleetContext, node: string, ready: boolean): Promise<void> =>
  await setReady({ ...context, namespace: DATABASES }, { metadata: { name: `etcd-${node}` } }, ready);

/** Creates a member on a node that is not selected, as whoever has the credentials of its kubelet. */
async function forgeMember({ cluster }: FleetContext, status: 'True' | 'False'): Promise<void> {
  const kubelet = cluster.api.as(cluster.tokens['kubelet-of-compromised']);
  const node = await cluster.api.get<V1Node>('/api/v1/nodes/compromised');
  const { metadata } = await kubelet.create<{ metadata: { name: string } }>(
    `/api/v1/namespaces/${DATABASES}/pods`,
    staticMember(node, 'etcd'),
  );
  const ready = readyStatus('10.0.0.9') as { conditions: { type: string }[] };
  const conditions = ready.conditions.map((one) => (one.type === 'Ready' ? { ...one, status, reason: 'Forged' } : one));
  await kubelet.patch(`/api/v1/namespaces/${DATABASES}/pods/${metadata.name}/status`, {
    status: { ...ready, conditions },
  });
}

const WITH_COMPROMISED = [...fleetNodes(3), { name: 'compromised', zone: 'zone-a' }];

it('three members go one at a time when all nodes may, the leader last, whatever a kubelet forges', async () => {
  const before = async (context: FleetContext): Promise<void> => {
    await createMembers(context, 'etcd', VOTERS, (name) => ({ role: name === 'node-1' ? 'leader' : 'follower' }));
    await forgeMember(context, 'False');
  };
  const last = { matchLabels: { role: 'leader' } };
  const config = { concurrency, quorums: [staticQuorum('etcd', 3, { last })] };
  await withFleet(
    { nodes: WITH_COMPROMISED, config: { ...config, paused: true }, ...TOGETHER, before },
    async (context) => {
      const { fleet } = context;
      const away = awayOf(context, VOTERS);
      await fleet.untilAllAreOffered(NEW);
      await fleet.configure(config);
      await fleet.untilAllRun(NEW);
      expect(away.most).toBe(1);
      expect(away.order.at(-1)).toBe('node-1');
      expect(reboots(context, VOTERS)).toEqual([1, 1, 1]);
      await eventually(async () =>
        expect((await configStatus(context)).quorums).toMatchObject([{ name: 'etcd', members: 3, ready: 3 }]),
      );
    },
  );
});

it('no member goes while another one is not Ready, and a forged one does not stand in for it', async () => {
  const before = async (context: FleetContext): Promise<void> => {
    await createMembers(context, 'etcd', VOTERS);
    await forgeMember(context, 'True');
    await setMemberReady(context, 'node-3', false);
  };
  await withFleet({ nodes: WITH_COMPROMISED, config: ETCD, ...TOGETHER, before }, async (context) => {
    const { fleet } = context;
    await eventually(() => fleet.assertRuns('compromised', NEW), { limitMs: 240_000 });
    await eventually(() => {
      for (const name of ['node-1', 'node-2']) {
        expect(progressing(context, name)).toMatchObject({
          reason: 'QuorumAtRisk',
          message: expect.stringContaining('databases/etcd-node-3 on node-3') as string,
        });
      }
    });
    expect(reboots(context, ['node-1', 'node-2'])).toEqual([0, 0]);
    await setMemberReady(context, 'node-3', true);
    const away = awayOf(context, VOTERS);
    await fleet.untilAllRun(NEW);
    expect(away.most).toBe(1);
  });
});

it('five members of which one is tolerated go two at a time, four one at a time, and two or one only if they may', async () => {
  const all = fleetNodes(5).map(({ name }) => name);
  const before = async (context: FleetContext): Promise<void> => await createMembers(context, 'etcd', all);
  const config = { concurrency, quorums: [staticQuorum('etcd', 5, { tolerate: 1 })] };
  await withFleet({ nodes: fleetNodes(5), config, ...TOGETHER, before }, async (context) => {
    const { fleet } = context;
    const ofFive = awayOf(context, all);
    await fleet.untilAllRun(NEW);
    expect(ofFive.most).toBeLessThanOrEqual(2);

    await createMembers(context, 'four', all.slice(0, 4));
    await fleet.configure({ concurrency, quorums: [staticQuorum('four', 4)] });
    const ofFour = awayOf(context, all.slice(0, 4));
    await fleet.untilAllRun(fleet.publishNext());
    expect(ofFour.most).toBe(1);

    await createMembers(context, 'two', all.slice(0, 2));
    await createMembers(context, 'one', ['node-3']);
    const small = (downtime: 'Refused' | 'Allowed') => [
      staticQuorum('two', 2, { downtime }),
      staticQuorum('one', 1, { downtime }),
    ];
    await fleet.configure({ concurrency, quorums: small('Refused') });
    const version = fleet.publishNext();
    await eventually(
      () => {
        for (const name of ['node-4', 'node-5']) fleet.assertRuns(name, version);
        const reasons = ['node-1', 'node-2', 'node-3'].map((name) => progressing(context, name)?.reason);
        expect(reasons).toEqual(['QuorumAtRisk', 'QuorumAtRisk', 'QuorumAtRisk']);
      },
      { limitMs: 240_000 },
    );
    expect(reboots(context, ['node-1', 'node-2', 'node-3'])).toEqual([2, 2, 2]);
    const ofTwo = awayOf(context, ['node-1', 'node-2']);
    await fleet.configure({ concurrency, quorums: small('Allowed') });
    await fleet.untilAllRun(version);
    expect(ofTwo.most).toBe(1);
  });
});

it('no second member goes when the first one is not Ready on the new version', async () => {
  const config = {
    ...ETCD,
    monitoring: { healthyFor: '20s', timeout: '1m' },
    rollout: { failureBudget: '100%' },
  } as const;
  const before = async (context: FleetContext): Promise<void> => await createMembers(context, 'etcd', VOTERS);
  await withFleet({ nodes: fleetNodes(4), config, ...TOGETHER, before }, async (context) => {
    const { fleet } = context;
    const first = await eventually(
      () => {
        const found = VOTERS.find((name) => fleet.shadow(name)?.spec.state === 'MonitoringUpdate');
        if (found === undefined) throw new Error('no member is monitored');
        return found;
      },
      { limitMs: 120_000, pauseMs: 20 },
    );
    await setMemberReady(context, first, false);
    await eventually(
      async () =>
        expect((await configStatus(context)).failedNodes).toMatchObject([{ name: first, code: 'NotHealthy' }]),
      { limitMs: 240_000 },
    );
    const others = VOTERS.filter((name) => name !== first);
    expect(progressing(context, first)?.message).toContain(
      `the member databases/etcd-${first} of the quorum etcd is not Ready`,
    );
    await sleep(15_000);
    expect(reboots(context, others)).toEqual([0, 0]);
    expect(others.map((name) => fleet.node(name).host.version)).toEqual([OLD, OLD]);
    await setMemberReady(context, first, true);
    await fleet.untilAllRun(NEW);
  });
});

type Aim = readonly [StateTrigger, Victim];
/** From the write that starts a node until its drain has begun, and who is killed then. */
const AIMS: readonly [Aim, ...Aim[]] = [
  [{ at: 'state', spec: 'StagedAndPerformedUpdate' }, LEADER],
  [{ at: 'state', spec: 'StagedAndPerformedUpdate', status: 'StagedAndPerformedUpdate' }, CONTROLLERS],
  [{ at: 'state', spec: 'RebootedIntoUpdate' }, LEADER],
  [{ at: 'state', spec: 'RebootedIntoUpdate' }, API_SERVERS],
];

it('no two members are away when controllers and API servers are killed between the start and the drain of a node', async () => {
  const before = async (context: FleetContext): Promise<void> => await createMembers(context, 'etcd', VOTERS);
  const values = { 'agent.updateCheckIntervalSeconds': 1 };
  await withFleet({ nodes: fleetNodes(3), config: ETCD, values, ...TOGETHER, before }, async (context) => {
    const { fleet } = context;
    const away = awayOf(context, VOTERS);
    let version = NEW;
    for (let kills = 0; kills < KILLS;) {
      const [moment, who] = AIMS[kills % AIMS.length] ?? AIMS[0];
      await eventually(() => expect(fleet.observer.leader()).toBeDefined(), { limitMs: 60_000 });
      if (VOTERS.every((name) => fleet.node(name).host.version === version)) version = fleet.publishNext();
      if (!(await untilTriggered(fleet, moment, { version, limitMs: 5_000 }))) continue;
      // At once, or during what the write of the spec causes.
      await sleep(Math.max(0, Math.random() - 0.5) * 1_000);
      if ((await inject(context, { kind: 'killed', who, forMs: 0 })) === 'hit') kills += 1;
      expect(away.most).toBeLessThanOrEqual(1);
    }
    await fleet.untilAllRun(version, 480_000);
    expect(away.most).toBe(1);
    expect(away.order.toSorted()).toEqual(VOTERS);
  });
});
