/** The certificates of the operator, with all of its programs. */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:tls';
import { jest } from '@jest/globals';
import type { V1Node, V1Pod, V1PodList } from '@kubernetes/client-node';
import { AGENT } from '../../../packages/shared/src/api/names.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { type Impostor, type Imposture, startImpostor } from '../../framework/apiserver/impostor.ts';
import { makeAuthority } from '../../framework/certificates.ts';
import { eventually } from '../../framework/eventually.ts';
import { mirrorPod, PLACEMENT, PLACEMENT_LABELS, readyStatus } from '../../framework/fleet/compromised-node.ts';
import { type Fleet, fleetNodes } from '../../framework/fleet/fleet.ts';
import { untilSomeNodeIsToldTo } from '../../framework/fleet/steps.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';
import { localAddress } from '../../framework/kubelet/addresses.ts';
import type { Address } from '../../framework/kubelet/service-environment.ts';

jest.setTimeout(600_000);

async function podsOf({ cluster, fleet }: FleetContext): Promise<V1Pod[]> {
  return (await cluster.api.get<V1PodList>(`/api/v1/namespaces/${fleet.operator.namespace}/pods`)).items;
}

/** The issuer of the certificate that an endpoint serves. */
async function issuerOf({ host, port }: Address): Promise<string | undefined> {
  const socket = connect({ host, port, rejectUnauthorized: false });
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(5_000) });
    return socket.getPeerX509Certificate()?.issuer;
  } finally {
    socket.destroy();
  }
}

async function agentLogs(context: FleetContext): Promise<string> {
  const names = (await podsOf(context)).map(({ metadata }) => metadata?.name ?? '');
  const agents = names.filter((name) => name.startsWith(AGENT));
  return (await Promise.all(agents.map(async (name) => await context.fleet.kubelet.logs(name)))).join('');
}

describe('the authority and the certificate of the apiserver', () => {
  it('are replaced during a rollout without a restart, and no agent ever refuses a certificate', async () => {
    await withFleet({ nodes: fleetNodes(4), durations: { prepareMs: 1_000 } }, async (context) => {
      const { fleet, cluster } = context;
      const { operator, proxy } = fleet;
      await untilSomeNodeIsToldTo(fleet, 'StagedAndPerformedUpdate');
      const agents = (await podsOf(context)).filter(({ metadata }) => metadata?.name?.startsWith(AGENT));
      const path = `/api/v1/namespaces/${operator.namespace}`;
      const next = makeAuthority('the next authority');
      const { cert, key } = next.issue({ commonName: operator.serverName, dnsNames: [operator.serverName] });
      const trust = async (bundle: string): Promise<void> => {
        await cluster.api.patch(`${path}/configmaps/brupop-ca`, { data: { 'ca.crt': bundle } });
      };
      await trust(`${operator.certificate.caCert}${next.caCert}`);
      // Agents read the bundle again when they connect, unless they did within the last 5 s.
      await systemClock.sleep(6_000);
      const stringData = { 'tls.crt': cert, 'tls.key': key };
      await cluster.api.patch(`${path}/secrets/brupop-apiserver-tls`, { stringData });
      await eventually(
        async () => {
          const issuers = await Promise.all(proxy.targets('https').map(issuerOf));
          expect(new Set(issuers)).toEqual(new Set(['CN=the next authority']));
        },
        { limitMs: 60_000, pauseMs: 500 },
      );
      await trust(next.caCert);
      const version = fleet.publishNext();
      await fleet.untilAllRun(version);
      const after = await podsOf(context);
      expect(after.map(({ metadata }) => metadata?.uid)).toEqual(
        expect.arrayContaining(agents.map(({ metadata }) => metadata?.uid)),
      );
      const problems = (await agentLogs(context)).split('\n').filter((line) => line.includes('"error":'));
      expect(problems.filter((line) => /certificate|authorit|altnames/u.test(line))).toEqual([]);
    });
  });
});

const POLICY_BINDINGS = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings';

/** Creates the impostor's pod with the credentials of the node's kubelet, and waits until it is an endpoint. */
async function pose({ cluster, fleet }: FleetContext, podIP: string): Promise<string> {
  const kubelet = cluster.api.as(cluster.tokens['kubelet-of-compromised']);
  const node = await cluster.api.get<V1Node>('/api/v1/nodes/compromised');
  const { namespace } = fleet.operator;
  const pod = mirrorPod(node, { namespace });
  const path = `/api/v1/namespaces/${namespace}/pods`;
  await eventually(async () => await kubelet.create(path, pod));
  const name = pod.metadata?.name ?? '';
  await kubelet.patch(`${path}/${name}/status`, { status: readyStatus(podIP) });
  await eventually(() => expect(endpointsOf(fleet)).toContain(localAddress(podIP)));
  return `${path}/${name}`;
}

async function restartAgents(context: FleetContext): Promise<void> {
  const agentsOf = async (): Promise<V1Pod[]> =>
    (await podsOf(context)).filter(({ metadata }) => metadata?.name?.startsWith(AGENT));
  const before = await agentsOf();
  const path = `/api/v1/namespaces/${context.fleet.operator.namespace}/pods`;
  await Promise.all(before.map(({ metadata }) => context.cluster.api.delete(`${path}/${metadata?.name}`)));
  const old = new Set(before.map(({ metadata }) => metadata?.uid));
  await eventually(
    async () => {
      const ready = (await agentsOf()).filter(
        ({ metadata, status }) =>
          !old.has(metadata?.uid) &&
          status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
      );
      expect(ready).toHaveLength(before.length);
    },
    { limitMs: 60_000, pauseMs: 200 },
  );
}

function endpointsOf({ proxy }: Fleet): string[] {
  return proxy.targets('https').map(({ host }) => host);
}

describe('a compromised node whose pod is an endpoint of the apiserver', () => {
  it.each<Imposture>(['forges', 'hangs'])(
    'and %s gets nothing from agents, which go on with the others',
    async (how) => {
      const nodes = [{ name: 'compromised', zone: 'zone-a' }, { name: 'apart', zone: 'zone-b' }, ...fleetNodes(2)];
      const before = async ({ cluster, fleet }: FleetContext): Promise<void> => {
        await cluster.api.patch('/api/v1/nodes/apart', { metadata: { labels: PLACEMENT_LABELS } });
        await fleet.node('apart').setManaged(false);
      };
      const untilUpdated = async (fleet: Fleet, version: string): Promise<void> => {
        const managed = nodes.filter(({ name }) => name !== 'apart');
        await eventually(() => managed.forEach(({ name }) => fleet.assertRuns(name, version)), { limitMs: 240_000 });
      };
      await withFleet({ nodes, values: PLACEMENT, before }, async (context) => {
        const { fleet, cluster } = context;
        await untilUpdated(fleet, NEW);
        await eventually(() => expect(endpointsOf(fleet)).toHaveLength(3), { limitMs: 60_000 });
        await cluster.api.delete(`${POLICY_BINDINGS}/brupop-mirror-pods`);
        const podIP = `10.250.${randomInt(256)}.${1 + randomInt(254)}`;
        const impostor: Impostor = await startImpostor(how, [fleet.operator.serverName], {
          host: localAddress(podIP),
          port: 8443,
        });
        try {
          const path = await pose(context, podIP);
          expect(endpointsOf(fleet)).toHaveLength(4);
          const startedAt = performance.now();
          // Agents choose an endpoint at random for each connection.
          for (let round = 0; round < 12 && impostor.connections === 0; round += 1) await restartAgents(context);
          await untilUpdated(fleet, fleet.publishNext());
          process.stdout.write(
            `${how}: ${Math.round(performance.now() - startedAt)} ms, ${impostor.connections} connections\n`,
          );
          expect(impostor.connections).toBeGreaterThan(0);
          expect(impostor.received).toBe('');
          await cluster.api.delete(path, { gracePeriodSeconds: 0 });
        } finally {
          await impostor.stop();
        }
      });
    },
  );
});
