import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jest } from '@jest/globals';
import { AGENT, WAITING_TAINT } from '../../packages/shared/src/api/names.ts';
import { operatorRequests } from '../framework/audit.ts';
import { renderChart } from '../framework/chart.ts';
import { createChecksNamespace } from '../framework/controller/checks.ts';
import { createOutage, readyPods, setPodsReady, setWaiting } from '../framework/controller/crashing.ts';
import { eventually } from '../framework/eventually.ts';
import { createDatabase } from '../framework/fleet/databases.ts';
import { fleetNodes } from '../framework/fleet/fleet.ts';
import { holdAllDrains, releaseDrains } from '../framework/fleet/held-drains.ts';
import { applyGroup, groupStatus } from '../framework/fleet/pools.ts';
import { untilSomeNodeIsBlocked } from '../framework/fleet/steps.ts';
import { NEW, type FleetContext, withFleet } from '../framework/fleet/with-fleet.ts';
import { deniedRequests, grantedRights, usedRights } from '../framework/privileges.ts';

jest.setTimeout(360_000);

const RECOVERY_NAMESPACE = 'recovers';

/** Every value that grants something. */
const VALUES = {
  'drain.allowForce': true,
  'tls.mode': 'self',
  'checks.enabled': true,
  'nodeMetadata.domains[0]': 'node-role.kubernetes.io',
  'recovery.namespaces[0]': RECOVERY_NAMESPACE,
  'dependents.targets[0].kind': 'Deployment',
  'dependents.targets[0].namespace': RECOVERY_NAMESPACE,
  'dependents.targets[0].name': 'autoscaler',
};

const CONFIG = { drain: { taintWaitingNodes: true }, loadBalancer: { exclusion: '1s' } };

interface RareRight {
  readonly why: string;
  /** A test that uses it, and its file. */
  readonly test: readonly [title: string, file: string];
}

const CHECKS = 'test/chaos/updates/check-jobs.test.ts';
const CERTIFICATES = 'test/integration/controller/certificates.test.ts';

/** What a rollout may leave unused. */
const RARE: Readonly<Record<string, RareRight>> = {
  'brupop-apiserver get pods': {
    why: 'a token is shown before the watch has its pod, or after the pod was deleted',
    test: [
      'rejects the token of a pod that was deleted, at once, although it has accepted it before',
      'test/integration/apiserver/auth.test.ts',
    ],
  },
  'brupop-apiserver delete pods': {
    why: 'the time limit of a drain is over, and the configuration says Force; the shortest limit is a minute',
    test: [
      'deletes the remaining pods with onTimeout Force, and leaves stuck ones behind',
      'test/integration/apiserver/drain-care.test.ts',
    ],
  },
  'brupop-controller create brupopconfigs': {
    why: 'a rollout that begins with a configuration needs no other',
    test: [
      'a controller records the defaults soon after its start, and again after a user deleted the configuration',
      'test/integration/controller/brupop-config.test.ts',
    ],
  },
  'brupop-controller get daemonsets': {
    why: 'agents restore their nodes, and have exited when their nodes are no longer managed',
    test: [
      'restores the node of an agent that does not answer, once its pod is gone and although another one poses as it',
      'test/integration/controller/controller.test.ts',
    ],
  },
  'brupop-controller get cronjobs': {
    why: 'the configuration has no checks and hooks',
    test: ['and does not start while there is no such CronJob', CHECKS],
  },
  'brupop-controller create jobs': {
    why: 'the configuration has no checks and hooks',
    test: ['run once each, before the drain and after the update, and leave nothing behind', CHECKS],
  },
  'brupop-controller get jobs': {
    why: 'the configuration has no checks and hooks',
    test: ['when a hook does not end in time, unless it says to proceed', CHECKS],
  },
  'brupop-controller list events': {
    why: 'the pods of Jobs can be created',
    test: ['by %s, with the reason of Kubernetes', CHECKS],
  },
  'brupop-controller delete jobs': {
    why: 'the configuration has no checks and hooks',
    test: ['a new leader deletes the Jobs of attempts that are over, and no others', CHECKS],
  },
  'brupop-controller patch deployments': {
    why: 'most nodes of the cluster renew their Leases',
    test: [
      'while most nodes are silent three dependents are at 0, in their order, and an autoscaler leaves them there',
      'test/chaos/updates/dependents-loss.test.ts',
    ],
  },
  'brupop-controller update secrets': {
    why: 'a certificate is renewed after weeks, or repaired',
    test: ['replaces a key that does not belong to the certificate', CERTIFICATES],
  },
  'brupop-controller update configmaps': {
    why: 'the authority is replaced after months, or repaired',
    test: ['every certificate is accepted by every agent while it is renewed and its authority replaced', CERTIFICATES],
  },
};

/** A drain that is blocked by a budget, one of pods with volumes, a node that is tainted, one that leaves. */
async function useEverything(context: FleetContext): Promise<void> {
  const { fleet } = context;
  const blocked = await untilSomeNodeIsBlocked(fleet);
  await eventually(() => {
    const tainted = fleet.observer.nodes
      .list()
      .filter(({ spec }) => spec?.taints?.some(({ key }) => key === WAITING_TAINT));
    expect(tainted.length).toBeGreaterThan(0);
  });
  await releaseDrains(context);
  await fleet.untilAllRun(NEW);
  await fleet.node(blocked).setManaged(false);
  await eventually(() => expect(fleet.shadow(blocked)).toBeUndefined(), { limitMs: 60_000 });
  await fleet.node(blocked).setManaged(true);
  await eventually(() => fleet.assertRuns(blocked, NEW), { limitMs: 60_000 });
}

/** A pod that waits in CrashLoopBackOff until a Service recovers. */
async function recoverService({ cluster, fleet }: FleetContext): Promise<void> {
  const namespace = RECOVERY_NAMESPACE;
  const { service, api, backends, pods } = await createOutage(cluster, { namespace, name: 'late', replicas: 1 });
  await setWaiting(cluster, pods);
  const podSelectors = [{ matchLabels: { app: api } }];
  await fleet.configure({ ...CONFIG, recovery: { services: [{ name: 'late', namespace, service, podSelectors }] } });
  await eventually(async () => {
    const requests = await operatorRequests(cluster.auditLogPath, fleet.operator.namespace, 0);
    expect(usedRights(requests)).toContain('brupop-controller watch endpointslices');
  });
  await setPodsReady(cluster, backends, true);
  await readyPods(cluster, { namespace, name: api, replicas: 1 }, pods);
}

describe('the accounts of the operator', () => {
  it('use every right that the chart grants, are denied nothing, and the agent has none', async () => {
    const before = async (context: FleetContext): Promise<void> => {
      await createChecksNamespace(context.cluster);
      await context.cluster.api.create('/api/v1/namespaces', { metadata: { name: RECOVERY_NAMESPACE } });
      await createDatabase(context.cluster, context.namespace, 'node-1');
      await holdAllDrains(context);
    };
    // The arrangement cordons two nodes.
    const options = { nodes: fleetNodes(3), values: VALUES, config: CONFIG, before, maxUnavailable: 2 };
    await withFleet(options, async (context) => {
      const { cluster, fleet } = context;
      await applyGroup(context, 'web', { nodeMetadata: { labels: { 'node-role.kubernetes.io/web': '' } } });
      await useEverything(context);
      await eventually(async () => expect((await groupStatus(context, 'web')).confirmedGeneration).toBe(1));
      await recoverService(context);
      const requests = await operatorRequests(cluster.auditLogPath, fleet.operator.namespace, 0);
      expect(deniedRequests(requests)).toEqual([]);
      expect(requests.filter(({ user }) => user === AGENT)).toEqual([]);
      const set = Object.entries(VALUES).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
      const granted = grantedRights(await renderChart(cluster, ...set));
      const used = usedRights(requests);
      expect([...used].filter((right) => !granted.has(right))).toEqual([]);
      const unused = [...granted].filter((right) => !used.has(right));
      expect(unused.filter((right) => !(right in RARE))).toEqual([]);
      expect(Object.keys(RARE).filter((right) => !granted.has(right))).toEqual([]);
    });
  });

  it.each(Object.entries(RARE))(
    'have the right "%s" for a case that a test shows',
    (_right, { test: [title, file] }) => {
      expect(readFileSync(join(import.meta.dirname, '../..', file), 'utf8')).toContain(`'${title}'`);
    },
  );
});
