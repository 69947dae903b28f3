import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1DaemonSet, V1Node, V1PodList, V1Taint } from '@kubernetes/client-node';
import { jest } from '@jest/globals';
import { AGENT, GROUP, SHADOW_PLURAL } from '../../../packages/shared/src/api/names.ts';
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { helm, releaseNamespace } from '../../framework/chart.ts';
import { commandsOf, runCommands } from '../../framework/commands.ts';
import type { ControlPlane } from '../../framework/control-plane/start.ts';
import type { Crd } from '../../framework/crds.ts';
import { eventually } from '../../framework/eventually.ts';
import { fleetNodes } from '../../framework/fleet/fleet.ts';
import { type FleetContext, NEW, withFleet } from '../../framework/fleet/with-fleet.ts';
import { CLOSED, installAfterPrepare } from '../../framework/rust-operator/install-after.ts';
import {
  createShadow,
  definition as DEFINITION,
  installRustOperator,
  report,
  rustOperator as RUST_OPERATOR,
  shadows as SHADOWS,
} from '../../framework/rust-operator/rust-operator.ts';

jest.setTimeout(600_000);

const EXCLUSION = 'node.kubernetes.io/exclude-from-external-load-balancers';

/** The nodes of the fleet, by what the Rust operator left there. */
const IDLE = 'node-1';
const FAILED_IN_DRAIN = 'node-2';
const CORDONED_BY_USER = 'node-3';
const STAGED = 'node-4';

let backup = '';
beforeEach(() => {
  backup = mkdtempSync(join(tmpdir(), 'brupop-takeover-'));
});
afterEach(() => rmSync(backup, { recursive: true, force: true }));

const UNCORDON = commandsOf('docs/takeover.md', 'Before the installation');

const CONFIG = `/apis/${GROUP}/v1alpha1/brupopconfigs/cluster`;

const takeover = (command: string): string => `scripts/takeover.sh ${command} --backup ${backup} --timeout 60`;

/** From its manifest: without what Helm records. */
async function applyRustManifest(cluster: ControlPlane): Promise<void> {
  for (const part of ['crd', 'operator']) {
    const manifest = join(backup, `${part}.yaml`);
    writeFileSync(manifest, await helm(cluster, 'template', 'brupop', join(RUST_OPERATOR, part)));
    await runCommands(cluster, `kubectl apply -f ${manifest}`);
    await runCommands(cluster, `kubectl wait --for=condition=Established crd/${SHADOW_PLURAL}.${GROUP}`);
  }
}

/** A fleet in the hands of the Rust operator. */
async function arrange(
  { cluster }: FleetContext,
  install: (cluster: ControlPlane) => Promise<void> = async (to) => await installRustOperator(to),
): Promise<void> {
  const { api } = cluster;
  await api.create('/api/v1/namespaces', { metadata: { name: releaseNamespace } });
  await install(cluster);
  await createShadow(cluster, IDLE, 'Idle', 'Idle');
  await createShadow(cluster, FAILED_IN_DRAIN, 'RebootedIntoUpdate', 'ErrorReset');
  // Its agent has never reported.
  await createShadow(cluster, CORDONED_BY_USER, 'Idle', undefined);
  await createShadow(cluster, STAGED, 'StagedAndPerformedUpdate', 'StagedAndPerformedUpdate');
  // As after an upgrade from a release that stored v1.
  await api.patch(`${DEFINITION}/status`, { status: { storedVersions: ['v1', 'v2'] } });
  for (const node of [FAILED_IN_DRAIN, CORDONED_BY_USER])
    await api.patch(`/api/v1/nodes/${node}`, { spec: { unschedulable: true } });
  await api.patch(`/api/v1/nodes/${FAILED_IN_DRAIN}`, { metadata: { labels: { [EXCLUSION]: 'True' } } });
}

/** kube-controller-manager adds it soon after a cordon. */
const UNSCHEDULABLE_TAINT = 'node.kubernetes.io/unschedulable';

const isOfOthers = ({ key }: V1Taint): boolean => key !== UNSCHEDULABLE_TAINT;

/** Nodes and pods as workloads see them. */
async function surroundings({ cluster: { api }, namespace }: FleetContext): Promise<unknown> {
  const nodes = await api.get<{ items: V1Node[] }>('/api/v1/nodes');
  const pods = await api.get<V1PodList>(`/api/v1/namespaces/${namespace}/pods`);
  return {
    nodes: nodes.items.map(({ metadata, spec }) => [
      metadata?.name,
      metadata?.labels,
      { ...(spec as object), taints: spec?.taints?.filter(isOfOthers) ?? [] },
    ]),
    pods: pods.items.map(({ metadata }) => metadata?.uid ?? '').toSorted(),
  };
}

/** After a change of the definition, the API server answers 429 for a moment. */
async function uidsOfShadows({ api }: ControlPlane): Promise<(string | undefined)[]> {
  const { items } = await eventually(async () => await api.get<{ items: BottlerocketShadow[] }>(SHADOWS));
  return items.map(({ metadata }) => metadata.uid);
}

/** Runs the script, and meanwhile acts as the agent of the Rust operator. */
async function prepare(context: FleetContext): Promise<string> {
  const { cluster } = context;
  const script = runCommands(cluster, takeover('prepare'), 240_000);
  const agent = eventually(
    async () => {
      const { spec } = await cluster.api.get<BottlerocketShadow>(`${SHADOWS}/brs-${FAILED_IN_DRAIN}`);
      if (spec.state !== 'Idle') throw new Error('its update was not ended');
      await report(cluster.api, FAILED_IN_DRAIN, 'Idle');
    },
    { limitMs: 120_000 },
  );
  const [told] = await Promise.all([script, agent]);
  return told;
}

async function stateOfRustAgents({ api }: ControlPlane): Promise<unknown> {
  const { spec } = await api.get<V1DaemonSet>(`/apis/apps/v1/namespaces/${releaseNamespace}/daemonsets/${AGENT}`);
  return spec?.selector.matchLabels?.['brupop.bottlerocket.aws/component'];
}

/** What its node waits for. */
function reasonOf(shadow: BottlerocketShadow | undefined): string | undefined {
  return shadow?.status?.conditions?.find(({ type }) => type === 'Progressing')?.reason;
}

async function expectCordons({ cluster: { api } }: FleetContext, expected: readonly string[]): Promise<void> {
  const { items } = await api.get<{ items: V1Node[] }>('/api/v1/nodes');
  const cordoned = items.filter(({ spec }) => spec?.unschedulable === true);
  expect(cordoned.map(({ metadata }) => metadata?.name)).toEqual(expected);
}

describe('the takeover of a fleet of the Rust operator', () => {
  it('from its manifest can be given up before the installation, and repeated', async () => {
    let uids: (string | undefined)[] = [];
    const before = async (context: FleetContext): Promise<void> => {
      await arrange(context, applyRustManifest);
      uids = await uidsOfShadows(context.cluster);
      const told = await prepare(context);
      expect(told).toContain(`kubectl uncordon ${CORDONED_BY_USER}`);

      await applyRustManifest(context.cluster);
      await runCommands(context.cluster, UNCORDON);
      expect(await stateOfRustAgents(context.cluster)).toBe('agent');
      expect(await uidsOfShadows(context.cluster)).toEqual(uids);
      await expectCordons(context, [CORDONED_BY_USER]);

      for (const node of [IDLE, FAILED_IN_DRAIN, STAGED]) await report(context.cluster.api, node, 'Idle');
      await runCommands(context.cluster, takeover('prepare'));
      await expectCordons(context, [CORDONED_BY_USER]);
    };
    await withFleet({ nodes: fleetNodes(4), maxUnavailable: 3, before }, async (context) => {
      expect(await uidsOfShadows(context.cluster)).toEqual(uids);
      await context.cluster.api.patch(`/api/v1/nodes/${CORDONED_BY_USER}`, { spec: { unschedulable: null } });
      await context.fleet.untilAllRun(NEW);
    });
  });

  it('keeps its shadows, disturbs no node, ends its cordons, and can be reverted', async () => {
    let uids: (string | undefined)[] = [];
    const before = async (context: FleetContext): Promise<void> => {
      await arrange(context);
      uids = await uidsOfShadows(context.cluster);
      const found = await surroundings(context);
      expect(await runCommands(context.cluster, takeover('check'))).toContain(
        `brs-${FAILED_IN_DRAIN} RebootedIntoUpdate ErrorReset`,
      );
      const told = await prepare(context);
      expect(told).toContain(`kubectl uncordon ${CORDONED_BY_USER}`);
      expect(told).not.toContain(`kubectl uncordon ${FAILED_IN_DRAIN}`);
      expect(await surroundings(context)).toEqual(found);
      // Running it again changes nothing.
      await runCommands(context.cluster, takeover('prepare'));
      expect(await surroundings(context)).toEqual(found);
    };
    await withFleet({ nodes: fleetNodes(4), maxUnavailable: 3, before }, async ({ cluster, fleet }) => {
      expect(await uidsOfShadows(cluster)).toEqual(uids);
      const { spec, metadata } = await cluster.api.get<Crd>(DEFINITION);
      expect(spec.versions.map(({ name }) => name)).toEqual(['v2']);
      expect(metadata.annotations).not.toHaveProperty('cert-manager.io/inject-ca-from');
      await expect(helm(cluster, 'uninstall', 'brupop-crd', '--namespace', 'default')).rejects.toThrow('not found');

      await eventually(() => expect(fleet.observer.nodes.get(FAILED_IN_DRAIN)?.spec?.unschedulable).toBeUndefined(), {
        limitMs: 120_000,
      });
      expect(fleet.observer.nodes.get(CORDONED_BY_USER)?.spec?.unschedulable).toBe(true);
      await cluster.api.patch(`/api/v1/nodes/${CORDONED_BY_USER}`, { spec: { unschedulable: null } });
      await fleet.untilAllRun(NEW);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1, 1, 1]);
      expect(await uidsOfShadows(cluster)).toEqual(uids);

      // The controller creates it.
      await eventually(async () => await cluster.api.get(CONFIG));
      await runCommands(cluster, commandsOf('docs/uninstall.md', 'Everything'), 180_000);
      await eventually(async () => {
        await cluster.api.create('/api/v1/namespaces', { metadata: { name: releaseNamespace } });
      });
      await installRustOperator(cluster);
      await createShadow(cluster, IDLE, 'Idle', 'Idle');
      const nodes = readFileSync(join(backup, 'nodes.txt'), 'utf8').trim().split('\n').join(' ');
      await runCommands(cluster, `kubectl label ${nodes} bottlerocket.aws/updater-interface-version=2.0.0`);
      expect(await stateOfRustAgents(cluster)).toBe('agent');
    });
  });

  it('with the documented commands starts no update outside of the windows', async () => {
    const states = new Set<string>();
    const before = async (context: FleetContext): Promise<void> => {
      await arrange(context);
      await prepare(context);
      const { shadows } = context.fleet.observer;
      // Until now the Rust operator's steps were under way.
      await eventually(() =>
        expect(shadows.list().map(({ spec }) => spec.state)).toEqual(['Idle', 'Idle', 'Idle', 'Idle']),
      );
      shadows.subscribe(({ object }) => states.add(object.spec.state));
    };
    const install = async ({ cluster }: FleetContext): Promise<void> =>
      await installAfterPrepare(cluster, backup, { maintenance: CLOSED, monitoring: { healthyFor: '0s' } });
    await withFleet({ nodes: fleetNodes(4), maxUnavailable: 3, before, install }, async ({ cluster, fleet }) => {
      const untilWaiting = async (name: string): Promise<void> =>
        await eventually(() => expect(reasonOf(fleet.shadow(name))).toBe('OutsideMaintenanceWindow'), {
          limitMs: 120_000,
        });
      await Promise.all([IDLE, FAILED_IN_DRAIN, STAGED].map(untilWaiting));
      const { spec } = await cluster.api.get<BrupopConfig>(CONFIG);
      expect(spec.maintenance).toMatchObject(CLOSED);
      expect([...states]).toEqual(['Idle']);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([0, 0, 0, 0]);

      // The window was all that they waited for.
      await cluster.api.patch(CONFIG, { spec: { maintenance: null } });
      await cluster.api.patch(`/api/v1/nodes/${CORDONED_BY_USER}`, { spec: { unschedulable: null } });
      await fleet.untilAllRun(NEW);
    });
  });
});
