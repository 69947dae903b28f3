import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { jest } from '@jest/globals';
import { monitoringCrds } from '../framework/chart/monitoring-crds.ts';
import { helm } from '../framework/chart.ts';
import type { ControlPlane } from '../framework/control-plane/start.ts';
import { Evictions } from '../framework/fleet/evictions.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { RELEASE, type Values } from '../framework/fleet/operator.ts';
import { type FleetContext, NEW, withFleet } from '../framework/fleet/with-fleet.ts';

jest.setTimeout(360_000);

/** The values of `of` for each component. */
function forEachOf(components: readonly string[], of: Values): Values {
  const prefixed = components.flatMap((component) =>
    Object.entries(of).map(([name, value]) => [`${component}.${name}`, value] as const),
  );
  return Object.fromEntries(prefixed);
}

const off: Values = {
  'agent.priorityClassName': '',
  ...forEachOf(['controller', 'apiserver'], {
    replicas: 1,
    priorityClassName: '',
    affinity: 'null',
    topologySpreadConstraints: 'null',
    'podDisruptionBudget.enabled': false,
  }),
};

/** The host network is missing: the stand-in kubelet has none. */
const on: Values = {
  logLevel: 'debug',
  healthPort: 9090,
  ...forEachOf(['agent', 'controller', 'apiserver'], {
    'podLabels.team': 'platform',
    'podAnnotations.rev': 'r1',
    'serviceAccountAnnotations.role': 'updates',
    'extraEnv[0].name': 'EXTRA',
    'extraEnv[0].valueFrom.fieldRef.fieldPath': 'status.hostIP',
    'extraVolumes[0].name': 'extra',
    'extraVolumes[0].emptyDir.medium': 'Memory',
    'extraVolumeMounts[0].name': 'extra',
    'extraVolumeMounts[0].mountPath': '/var/extra',
  }),
  'apiserver.service.ipFamilyPolicy': 'PreferDualStack',
  'metrics.services.enabled': true,
  'metrics.serviceMonitor.enabled': true,
  'dashboards.enabled': true,
  'alerts.enabled': true,
  'networkPolicy.enabled': true,
  'networkPolicy.metricsFrom[0].podSelector.matchLabels.app': 'prometheus',
  'flowSchema.enabled': true,
};

async function installMonitoringCrds({ api }: ControlPlane): Promise<void> {
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  await Promise.all(monitoringCrds.items.map(async (crd) => await api.create(path, crd)));
}

async function flowSchemasUsed({ assets, env }: ControlPlane): Promise<ReadonlySet<string | undefined>> {
  const { stdout } = await promisify(execFile)(assets.kubectl, ['get', '--raw', '/metrics'], {
    env,
    maxBuffer: 2 ** 26,
    timeout: 30_000,
  });
  const lines = stdout.matchAll(/^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="(?<name>[^"]+)"/gmu);
  return new Set([...lines].map(({ groups }) => groups?.['name']));
}

describe('a fleet is updated', () => {
  it('with every feature of the chart off, by one replica that evicts only others', async () => {
    const evictions = new Evictions();
    const before = async ({ fleet }: FleetContext): Promise<void> => evictions.follow(fleet);
    await withFleet({ nodes: fleetNodes(2), values: off, before }, async ({ fleet, cluster }) => {
      await fleet.untilAllRun(NEW);
      expect(await evictions.ofSelf(fleet)).toEqual([]);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1]);
      expect(await flowSchemasUsed(cluster)).not.toContain('brupop');
    });
  });

  it('with every feature of the chart on', async () => {
    const before = async ({ cluster }: FleetContext): Promise<void> => await installMonitoringCrds(cluster);
    await withFleet({ nodes: fleetNodes(2), values: on, before }, async ({ fleet, cluster }) => {
      await fleet.untilAllRun(NEW);
      const test = ['test', RELEASE, '--namespace', fleet.operator.namespace, '--timeout', '90s'];
      expect(await helm(cluster, ...test)).toMatch(/^Phase: +Succeeded$/mu);
      expect([...fleet.nodes.values()].map(({ host }) => host.reboots)).toEqual([1, 1]);
      expect(await flowSchemasUsed(cluster)).toContain('brupop');
    });
  });
});
