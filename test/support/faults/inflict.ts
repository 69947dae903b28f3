import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';

import { AGENT, APISERVER, COMPONENT_LABEL, CONTROLLER } from '../../../packages/shared/src/constants.ts';
import { ApiError } from '../control-plane/api.ts';
import type { Component } from '../control-plane/process.ts';
import type { Scene } from '../fleet/with-fleet.ts';
import { eventually } from '../eventually.ts';
import { allowEvictions, forbidEvictions } from './evictions.ts';
import type { Fault, FaultKind, ShadowEdit, Victim } from './fault.ts';

type Of<K extends FaultKind> = Extract<Fault, { kind: K }>;
type Inflict = { readonly [K in FaultKind]: (scene: Scene, fault: Of<K>) => Promise<void> };

const COMPONENTS = { agent: AGENT, apiserver: APISERVER, controller: CONTROLLER } as const;
const PROGRAMS = {
  etcd: 'etcd',
  'kube-apiserver': 'apiserver',
  'kube-controller-manager': 'controllerManager',
  'kube-scheduler': 'scheduler',
} as const;
const MERGE = 'application/merge-patch+json';
/** Kubernetes is asked again while it is itself one of the victims. */
const PATIENCE = { limitMs: 60_000, pauseMs: 200 };

const INFLICT: Inflict = {
  killed: async (scene, { who, forMs }) => {
    await signal(scene, who, 'SIGKILL');
    await sleep(forMs);
    const component = componentOf(scene, who);
    if (component?.pid === undefined) await component?.restart();
  },
  frozen: async (scene, { who, forMs }) => {
    const thaw = await signal(scene, who, 'SIGSTOP');
    await sleep(forMs);
    thaw();
  },
  'no API server': async (scene, { forMs }) => {
    await scale(scene, 0);
    await sleep(forMs);
    await scale(scene, 3);
  },
  'cut off': async ({ fleet }, { node, from, how, forMs }) => {
    const links = from === 'API server' ? fleet.proxy.links : fleet.kubernetes;
    await links.cut(node, how);
    await sleep(forMs);
    await links.heal(node);
  },
  'host API ill': async ({ fleet }, { node, fault, forMs }) => {
    const { faults } = fleet.node(node).host;
    await faults.set({ api: fault });
    await sleep(forMs);
    await faults.set({ api: undefined });
  },
  'host API crashed': async ({ fleet }, { node, forMs }) => await fleet.node(node).host.crashApiServer(forMs),
  'host locked': async ({ fleet }, { node, forMs }) => {
    fleet.node(node).host.holdUpdateLock(forMs);
    await sleep(forMs);
  },
  'host command killed': async ({ fleet }, { node }) => fleet.node(node).host.killDispatcher(),
  'socket replaced': async ({ fleet }, { node }) => await fleet.node(node).host.replaceSocket(),
  'power cut': async ({ fleet }, { node }) => {
    const { host } = fleet.node(node);
    if (host.up) await host.powerCut();
  },
  'slow to return': async ({ fleet }, { node, forMs }) => {
    const { host } = fleet.node(node);
    await host.faults.set({ reboot: { neverReturns: true, times: 1 } });
    await sleep(forMs);
    await host.faults.set({ reboot: undefined });
    await host.powerOn();
  },
  'boot rolls back': async ({ fleet }, { node, forMs }) => {
    const { faults } = fleet.node(node).host;
    await faults.set({ boot: { rollsBack: true } });
    await sleep(forMs);
    await faults.set({ boot: undefined });
  },
  'shadow deleted': async (scene, { node }) => await change(scene, 'DELETE', shadowPath(scene, node)),
  'shadow edited': async (scene, { node, edit }) => await editShadow(scene, node, edit),
  'label removed': async ({ fleet }, { node, forMs }) => {
    await eventually(async () => await fleet.node(node).setManaged(false), PATIENCE);
    await sleep(forMs);
    await eventually(async () => await fleet.node(node).setManaged(true), PATIENCE);
  },
  'node replaced': async ({ fleet }, { node }) => await fleet.replaceNode(node),
  'pod deleted': async (scene, { program, index }) => {
    const { metadata } = pick(podsOf(scene, COMPONENTS[program]), index) ?? {};
    if (metadata === undefined) return;
    await change(scene, 'DELETE', `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`);
  },
  'evictions forbidden': async (scene, { forMs }) => {
    await eventually(async () => await forbidEvictions(scene.cluster), PATIENCE);
    await sleep(forMs);
    await eventually(async () => await allowEvictions(scene.cluster), PATIENCE);
  },
  'budget strict': async (scene, { forMs }) => {
    await allowUnavailable(scene, 0);
    await sleep(forMs);
    await allowUnavailable(scene, 1);
  },
};

/** Brings the fault about, and resolves when it is over and healed. */
export async function inflict<K extends FaultKind>(scene: Scene, fault: Of<K>): Promise<void> {
  await (INFLICT[fault.kind] as (scene: Scene, fault: Of<K>) => Promise<void>)(scene, fault);
}

/** Starts again what has died of the control plane, and has budgets forget evictions that were cut off: Kubernetes takes two minutes for that. */
export async function heal({ cluster, namespace }: Scene): Promise<void> {
  const parts = Object.values(cluster.components);
  for (const part of parts) if (part.pid === undefined) await part.restart();
  const budget = `/apis/policy/v1/namespaces/${namespace}/poddisruptionbudgets/web/status`;
  const forget = { status: { disruptedPods: null } };
  await eventually(async () => await cluster.api.request('PATCH', budget, forget, MERGE), PATIENCE);
}

/** Sends a signal; answers how to let what was stopped go on. Somebody who is away at the moment cannot be hurt. */
async function signal(scene: Scene, who: Victim, name: 'SIGKILL' | 'SIGSTOP'): Promise<() => void> {
  const component = componentOf(scene, who);
  if (component !== undefined) {
    await component.kill(name);
    return () => void component.kill('SIGCONT');
  }
  const pids = await pidsOf(scene, who);
  for (const pid of pids) send(pid, name);
  return () => pids.forEach((pid) => send(pid, 'SIGCONT'));
}

/** The program of the control plane; undefined for one of ours. */
function componentOf({ cluster }: Scene, { program }: Victim): Component | undefined {
  if (program === 'agent' || program === 'apiserver' || program === 'controller') return undefined;
  return cluster.components[PROGRAMS[program]];
}

function send(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function pidsOf(scene: Scene, who: Victim): Promise<number[]> {
  const { kubelet } = scene.fleet;
  if (who.program === 'agent') return kubelet.pids(AGENT, who.node);
  if (!('which' in who)) return [];
  const all = kubelet.pids(COMPONENTS[who.program]);
  if (who.which === 'all') return all;
  if (who.program === 'apiserver') return [pick(all, who.which)].filter((pid) => pid !== undefined);
  const leaders = await leaderPids(scene);
  return who.which === 'leader' ? leaders : all.filter((pid) => !leaders.includes(pid));
}

/** Processes of the controller that holds the Lease; none while nobody can be asked. */
async function leaderPids(scene: Scene): Promise<number[]> {
  const { cluster, fleet } = scene;
  const lease = `/apis/coordination.k8s.io/v1/namespaces/${fleet.operator.namespace}/leases/${CONTROLLER}`;
  const found = await Promise.race([
    cluster.api.get<{ spec: { holderIdentity?: string } }>(lease).catch(() => undefined),
    sleep(2_000).then(() => undefined),
  ]);
  const holder = found?.spec.holderIdentity ?? '';
  const leader = podsOf(scene, CONTROLLER).find(({ metadata }) => holder.includes(metadata?.name ?? '/'));
  return leader?.spec?.nodeName === undefined ? [] : fleet.kubelet.pids(CONTROLLER, leader.spec.nodeName);
}

function podsOf({ fleet }: Scene, component: string): V1Pod[] {
  return fleet.observer.pods
    .list()
    .filter(({ metadata }) => metadata.labels?.[COMPONENT_LABEL] === component)
    .toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name));
}

function pick<T>(list: readonly T[], index: number): T | undefined {
  return list[index % Math.max(1, list.length)];
}

/** Repeats a change until Kubernetes answers; what is not there is left alone. */
async function change({ cluster }: Scene, method: 'DELETE' | 'PATCH', path: string, body?: object): Promise<void> {
  await eventually(async () => {
    await cluster.api.request(method, path, body, MERGE).catch((error: unknown) => {
      if (!isStatus(error, 404)) throw error;
    });
  }, PATIENCE);
}

function isStatus(error: unknown, status: number): boolean {
  return error instanceof ApiError && error.status === status;
}

async function scale(scene: Scene, replicas: number): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${scene.fleet.operator.namespace}/deployments/${APISERVER}/scale`;
  await change(scene, 'PATCH', path, { spec: { replicas } });
}

function shadowPath({ fleet }: Scene, node: string): string {
  return `/apis/brupop.bottlerocket.aws/v2/namespaces/${fleet.operator.namespace}/bottlerocketshadows/brs-${node}`;
}

async function editShadow(scene: Scene, node: string, edit: ShadowEdit): Promise<void> {
  const path = shadowPath(scene, node);
  const { spec, status } = scene.fleet.shadow(node) ?? {};
  const version = spec?.version ?? status?.target_version ?? '9.9.9';
  const drained = { ...status?.lastOperation, operation: 'Activate', state: 'Processing' };
  const edits = {
    'spec to Idle': [path, { spec: { state: 'Idle', version: null } }],
    'spec to reboot': [path, { spec: { state: 'RebootedIntoUpdate', version } }],
    'another version': [path, { spec: { state: 'StagedAndPerformedUpdate', version: '9.9.9' } }],
    'status as if drained': [`${path}/status`, { status: status?.lastOperation ? { lastOperation: drained } : {} }],
    'status gone': [`${path}/status`, { status: null }],
  } as const satisfies Record<ShadowEdit, readonly [string, object]>;
  const [target, body] = edits[edit];
  await change(scene, 'PATCH', target, body);
}

async function allowUnavailable(scene: Scene, maxUnavailable: number): Promise<void> {
  const path = `/apis/policy/v1/namespaces/${scene.namespace}/poddisruptionbudgets/web`;
  await change(scene, 'PATCH', path, { spec: { maxUnavailable } });
}
