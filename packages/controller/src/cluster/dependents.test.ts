import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { aManagedNode, MINUTE, NOW, POLICY } from '../testing/objects.ts';
import { aDependent, configWith } from '../testing/scaled-world.ts';
import { ConnectivityGuard } from './connectivity.ts';
import { ClusterProbe } from './dependents.ts';

const HOUR = 60 * MINUTE;
const NODES = ['node-0', 'node-1', 'node-2', 'node-3']
  .map((name) => aManagedNode(name).node)
  .filter((node) => node !== undefined);

/** A process that starts when all nodes have been silent for `silentForMs`. */
class Process {
  status: BrupopConfigStatus | undefined;
  readonly #guard = new ConnectivityGuard();
  readonly #probe: ClusterProbe;
  #ms = 0;

  constructor(silentForMs: number, status: BrupopConfigStatus | undefined, { hasTargets = true, fleet = POLICY } = {}) {
    this.status = status;
    for (const node of NODES) {
      const metadata = { name: node.metadata.name, uid: 'lease', resourceVersion: '1' };
      const object = { metadata, renewedAt: NOW - silentForMs };
      this.#guard.observe({ type: 'Modified', object }, { wall: NOW, monotonic: 0 });
    }
    this.#probe = new ClusterProbe({
      hasTargets,
      guard: this.#guard,
      nodes: { list: () => NODES },
      configs: { get: (): BrupopConfig => configWith(this.status) },
      policies: { fleet },
      shadowOf: () => undefined,
    });
  }

  isUnsure(resource: string): boolean {
    return this.#probe.view([{ resource, ms: WATCH_STALE_MS }], false).isUnsure;
  }

  probe(afterMs = 0): unknown {
    this.#ms += afterMs;
    this.#probe.probe({ wall: NOW + this.#ms, monotonic: this.#ms, silentMs: 0, isUnsure: false });
    const { loss } = this.#probe.view([], false);
    return loss && { lost: loss.lost, isChanging: loss.isChanging, counted: loss.counted };
  }
}

const LOST = { lost: true, isChanging: false, counted: 4 };
const OFF = { lost: false, isChanging: false, counted: 0 };

it('a process that starts in a loss, also one without anything at 0, takes its beginning from the status', () => {
  const process = new Process(5 * HOUR, { clusterLostTime: rfc3339(NOW - 5 * HOUR) });
  expect(process.probe()).toEqual(LOST);
  process.status = {};
  expect(process.probe(HOUR)).toEqual(LOST);
});

it('later the status counts no more', () => {
  const process = new Process(5 * HOUR, {});
  expect(process.probe()).toEqual(OFF);
  process.status = { clusterLostTime: rfc3339(NOW - 5 * HOUR) };
  expect([process.probe(MINUTE), process.probe(MINUTE)]).toEqual([OFF, OFF]);
});

it('a dependent that has been at 0 for days does not make nodes count that are off', () => {
  const left = { kind: 'Deployment', namespace: 'kube-system', target: 'autoscaler', state: 'Down', replicas: 2 };
  const process = new Process(5 * HOUR, { dependents: [{ ...left, since: rfc3339(NOW - 48 * HOUR) }] });
  expect([process.probe(), process.probe(MINUTE)]).toEqual([OFF, OFF]);
});

it('a stale watch keeps dependents as they are, unless it is of budgets or groups', () => {
  const process = new Process(0, {});
  const resources = ['nodes', 'leases', 'brupopconfigs', 'bottlerocketshadows', 'poddisruptionbudgets'];
  expect(resources.map((resource) => process.isUnsure(resource))).toEqual([true, true, true, true, false]);
  expect(process.isUnsure('bottlerocketnodegroups')).toBe(false);
});

it('a chart without targets is no reason to say nothing of what the configuration asks for', () => {
  const none = { hasTargets: false };
  expect(new Process(0, {}, none).probe()).toBeUndefined();
  const fleet = { ...POLICY, connectivity: { ...POLICY.connectivity, dependents: [aDependent('autoscaler')] } };
  expect(new Process(0, {}, { ...none, fleet }).probe()).toMatchObject({ lost: false, counted: 4 });
});
