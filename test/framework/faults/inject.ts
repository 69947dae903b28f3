import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import { AGENT, APISERVER, COMPONENT_LABEL, CONTROLLER } from '../../../packages/shared/src/api/names.ts';
import { ApiError } from '../control-plane/api.ts';
import type { Component } from '../control-plane/process.ts';
import { eventually } from '../eventually.ts';
import type { Scene } from '../fleet/with-fleet.ts';
import { allowUnavailable, budgetPath } from '../fleet/workloads.ts';
import { allowEvictions, forbidEvictions } from './evictions.ts';
import type { Fault, FaultKind, ShadowEdit, Victim } from './fault.ts';
import { revive } from './recovery.ts';

type Of<K extends FaultKind> = Extract<Fault, { kind: K }>;
/** A victim that is down at the moment cannot be hit. */
export type Outcome = 'hit' | 'missed';

type Inject = { readonly [K in FaultKind]: (scene: Scene, fault: Of<K>) => Promise<Outcome> };

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

const INJECT: Inject = {
  killed: async (scene, { who, forMs }) => {
    const victims = signal(scene, who, 'SIGKILL');
    const component = componentOf(scene, who);
    await component?.kill('SIGKILL'); // resolves when it is gone
    await sleep(forMs);
    if (component?.pid === undefined) await component?.restart();
    return outcome(victims.length);
  },
  frozen: async (scene, { who, forMs }) => {
    const victims = signal(scene, who, 'SIGSTOP');
    await sleep(forMs);
    for (const pid of victims) send(pid, 'SIGCONT');
    return outcome(victims.length);
  },
  'each API server killed': async (scene) => {
    let killed = 0;
    for (const { metadata, status } of podsOf(scene, APISERVER).filter(isReady)) {
      const name = metadata?.name ?? '';
      if (!killPod(scene, name)) continue;
      killed += 1;
      await eventually(() => assertRestarted(scene, name, restartsOf(status)), PATIENCE);
    }
    return outcome(killed);
  },
  'leader cut off': async ({ fleet }, { how, forMs }) => {
    const node = fleet.observer.leader()?.spec?.nodeName;
    if (node === undefined) return 'missed';
    await fleet.kubernetes.cut(node, how);
    await sleep(forMs);
    await fleet.kubernetes.heal(node);
    return 'hit';
  },
  'no API server': async (scene, { forMs }) => {
    await scale(scene, 0);
    await sleep(forMs);
    await scale(scene, 3);
    return 'hit';
  },
  'cut off': async ({ fleet }, { node, from, how, forMs }) => {
    const links = from === 'API server' ? fleet.proxy.links : fleet.kubernetes;
    await links.cut(node, how);
    await sleep(forMs);
    await links.heal(node);
    return 'hit';
  },
  'host API ill': async ({ fleet }, { node, fault, forMs }) => {
    const { faults } = fleet.node(node).host;
    await faults.set({ api: fault });
    await sleep(forMs);
    await faults.set({ api: undefined });
    return 'hit';
  },
  'host API crashed': async ({ fleet }, { node, forMs }) => {
    await fleet.node(node).host.crashApiServer(forMs);
    return 'hit';
  },
  'host locked': async ({ fleet }, { node, forMs }) => {
    fleet.node(node).host.holdUpdateLock(forMs);
    await sleep(forMs);
    return 'hit';
  },
  'host command killed': async ({ fleet }, { node }) => {
    fleet.node(node).host.killDispatcher();
    return 'hit';
  },
  'socket replaced': async ({ fleet }, { node }) => {
    await fleet.node(node).host.replaceSocket();
    return 'hit';
  },
  'power cut': async ({ fleet }, { node }) => {
    const { host } = fleet.node(node);
    if (!host.up) return 'missed';
    await host.powerCut();
    return 'hit';
  },
  'slow to return': async ({ fleet }, { node, forMs }) => {
    const { host } = fleet.node(node);
    await host.faults.set({ reboot: { neverReturns: true, times: 1 } });
    await sleep(forMs);
    await host.faults.set({ reboot: undefined });
    await host.powerOn();
    return 'hit';
  },
  'boot rolls back': async ({ fleet }, { node, forMs }) => {
    const { faults } = fleet.node(node).host;
    await faults.set({ boot: { rollsBack: true } });
    await sleep(forMs);
    await faults.set({ boot: undefined });
    return 'hit';
  },
  'shadow deleted': async (scene, { node }) => {
    await change(scene, 'DELETE', scene.fleet.shadowPath(node));
    return 'hit';
  },
  'shadow edited': async (scene, { node, edit }) => {
    await editShadow(scene, node, edit);
    return 'hit';
  },
  'label removed': async ({ fleet }, { node, forMs }) => {
    await eventually(async () => await fleet.node(node).setManaged(false), PATIENCE);
    await sleep(forMs);
    await eventually(async () => await fleet.node(node).setManaged(true), PATIENCE);
    return 'hit';
  },
  'node replaced': async ({ fleet }, { node }) => {
    await fleet.replaceNode(node);
    return 'hit';
  },
  'pod deleted': async (scene, { program, index }) => {
    const { metadata } = pick(podsOf(scene, COMPONENTS[program]), index) ?? {};
    if (metadata === undefined) return 'missed';
    await change(scene, 'DELETE', `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`);
    return 'hit';
  },
  'evictions forbidden': async (scene, { forMs }) => {
    await eventually(async () => await forbidEvictions(scene.cluster), PATIENCE);
    await sleep(forMs);
    await eventually(async () => await allowEvictions(scene.cluster), PATIENCE);
    return 'hit';
  },
  'budget strict': async (scene, { forMs }) => {
    await eventually(async () => await allowUnavailable(scene, 0), PATIENCE);
    await sleep(forMs);
    await eventually(async () => await allowUnavailable(scene, 1), PATIENCE);
    return 'hit';
  },
};

/** Brings the fault about, and resolves when it is over and healed. */
export async function inject<K extends FaultKind>(scene: Scene, fault: Of<K>): Promise<Outcome> {
  return await (INJECT[fault.kind] as (scene: Scene, fault: Of<K>) => Promise<Outcome>)(scene, fault);
}

/** Starts again what has died of the control plane, and has budgets forget evictions that were cut off: Kubernetes takes two minutes for that. */
export async function heal(scene: Scene): Promise<void> {
  await revive(scene);
  const budget = `${budgetPath(scene.namespace)}/status`;
  const forget = { status: { disruptedPods: null } };
  await eventually(async () => await scene.cluster.api.request('PATCH', budget, forget, MERGE), PATIENCE);
}

/** Sends a signal; answers to which processes. */
function signal(scene: Scene, who: Victim, name: 'SIGKILL' | 'SIGSTOP'): number[] {
  const pids = pidsOf(scene, who);
  for (const pid of pids) send(pid, name);
  return pids;
}

function outcome(victims: number): Outcome {
  return victims === 0 ? 'missed' : 'hit';
}

/** The program of the control plane; undefined for one of the operator's. */
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

function pidsOf(scene: Scene, who: Victim): number[] {
  const component = componentOf(scene, who);
  if (component !== undefined) return component.pid === undefined ? [] : [component.pid];
  const { kubelet } = scene.fleet;
  if (who.program === 'agent') return kubelet.pids(AGENT, who.node);
  return 'which' in who ? replicaPids(scene, who.program, who.which) : [];
}

function replicaPids({ fleet }: Scene, program: 'apiserver' | 'controller', which: string | number): number[] {
  const all = fleet.kubelet.pids(COMPONENTS[program]);
  if (which === 'all') return all;
  if (typeof which === 'number') return [pick(all, which)].filter((pid) => pid !== undefined);
  const { nodeName } = fleet.observer.leader()?.spec ?? {};
  const leaders = nodeName === undefined ? [] : fleet.kubelet.pids(CONTROLLER, nodeName);
  return which === 'leader' ? leaders : all.filter((pid) => !leaders.includes(pid));
}

/** Throws until the pod is ready again after more restarts than before; one that is gone needs no waiting for. */
function assertRestarted(scene: Scene, name: string, before: number): void {
  const pod = podsOf(scene, APISERVER).find(({ metadata }) => metadata?.name === name);
  if (pod !== undefined && (restartsOf(pod.status) <= before || !isReady(pod))) throw new Error(`${name} is not back`);
}

/** False when another fault has been faster. */
function killPod({ fleet }: Scene, name: string): boolean {
  try {
    fleet.kubelet.kill(name, 'SIGKILL');
    return true;
  } catch {
    return false;
  }
}

function restartsOf(status: V1Pod['status']): number {
  return status?.containerStatuses?.[0]?.restartCount ?? 0;
}

function isReady({ status }: V1Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
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

async function editShadow(scene: Scene, node: string, edit: ShadowEdit): Promise<void> {
  const path = scene.fleet.shadowPath(node);
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
