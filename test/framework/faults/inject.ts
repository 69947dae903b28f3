import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import { AGENT, APISERVER, COMPONENT_LABEL, CONTROLLER } from '../../../packages/shared/src/api/names.ts';
import { ApiError } from '../control-plane/api.ts';
import type { Component } from '../control-plane/process.ts';
import { eventually } from '../eventually.ts';
import type { FleetContext } from '../fleet/with-fleet.ts';
import { allowUnavailable, budgetPath } from '../fleet/workloads.ts';
import { allowEvictions, forbidEvictions } from './evictions.ts';
import type { Fault, FaultKind, ShadowEdit, Victim } from './fault.ts';
import { revive } from './recovery.ts';

type Of<K extends FaultKind> = Extract<Fault, { kind: K }>;
/** Whether the fault found its victim; one that is down cannot be hit. */
export type Outcome = 'hit' | 'missed';

type Inject = { readonly [K in FaultKind]: (context: FleetContext, fault: Of<K>) => Promise<Outcome> };

const COMPONENTS = { agent: AGENT, apiserver: APISERVER, controller: CONTROLLER } as const;
const PROGRAMS = {
  etcd: 'etcd',
  'kube-apiserver': 'apiserver',
  'kube-controller-manager': 'controllerManager',
  'kube-scheduler': 'scheduler',
} as const;
const MERGE = 'application/merge-patch+json';
/** Calls are retried, because Kubernetes itself may be a victim. */
const PATIENCE = { limitMs: 60_000, pauseMs: 200 };

const INJECT: Inject = {
  killed: async (context, { who, forMs }) => {
    const victims = signal(context, who, 'SIGKILL');
    const component = componentOf(context, who);
    await component?.kill('SIGKILL'); // resolves when it is gone
    await sleep(forMs);
    if (component?.pid === undefined) await component?.restart();
    return outcome(victims.length);
  },
  frozen: async (context, { who, forMs }) => {
    const victims = signal(context, who, 'SIGSTOP');
    await sleep(forMs);
    for (const pid of victims) send(pid, 'SIGCONT');
    return outcome(victims.length);
  },
  'each API server killed': async (context) => {
    let killed = 0;
    for (const { metadata, status } of podsOf(context, APISERVER).filter(isReady)) {
      const name = metadata?.name ?? '';
      if (!killPod(context, name)) continue;
      killed += 1;
      await eventually(() => assertRestarted(context, name, restartsOf(status)), PATIENCE);
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
  'no API server': async (context, { forMs }) => {
    await scale(context, 0);
    await sleep(forMs);
    await scale(context, 3);
    return 'hit';
  },
  'cut off': async ({ fleet }, { node, from, how, forMs }) => {
    const links = from === 'API server' ? fleet.proxy.links : fleet.kubernetes;
    await links.cut(node, how);
    await sleep(forMs);
    await links.heal(node);
    return 'hit';
  },
  'host API faulty': async ({ fleet }, { node, fault, forMs }) => {
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
  'shadow deleted': async (context, { node }) => {
    await change(context, 'DELETE', context.fleet.shadowPath(node));
    return 'hit';
  },
  'shadow edited': async (context, { node, edit }) => {
    await editShadow(context, node, edit);
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
  'pod deleted': async (context, { program, index }) => {
    const { metadata } = pick(podsOf(context, COMPONENTS[program]), index) ?? {};
    if (metadata === undefined) return 'missed';
    await change(context, 'DELETE', `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`);
    return 'hit';
  },
  'evictions forbidden': async (context, { forMs }) => {
    await eventually(async () => await forbidEvictions(context.cluster), PATIENCE);
    await sleep(forMs);
    await eventually(async () => await allowEvictions(context.cluster), PATIENCE);
    return 'hit';
  },
  'budget strict': async (context, { forMs }) => {
    await eventually(async () => await allowUnavailable(context, 0), PATIENCE);
    await sleep(forMs);
    await eventually(async () => await allowUnavailable(context, 1), PATIENCE);
    return 'hit';
  },
};

/** Injects the fault, and resolves when it has ended. */
export async function inject<K extends FaultKind>(context: FleetContext, fault: Of<K>): Promise<Outcome> {
  return await (INJECT[fault.kind] as (context: FleetContext, fault: Of<K>) => Promise<Outcome>)(context, fault);
}

/**
 * Restarts stopped programs of the control plane, and clears evictions that were cut off from the
 * status of budgets, which takes Kubernetes two minutes.
 */
export async function heal(context: FleetContext): Promise<void> {
  await revive(context);
  const budget = `${budgetPath(context.namespace)}/status`;
  const forget = { status: { disruptedPods: null } };
  await eventually(async () => await context.cluster.api.request('PATCH', budget, forget, MERGE), PATIENCE);
}

/** Sends a signal; returns the processes that received it. */
function signal(context: FleetContext, who: Victim, name: 'SIGKILL' | 'SIGSTOP'): number[] {
  const pids = pidsOf(context, who);
  for (const pid of pids) send(pid, name);
  return pids;
}

function outcome(victims: number): Outcome {
  return victims === 0 ? 'missed' : 'hit';
}

/** The program of the control plane; undefined for one of the operator's. */
function componentOf({ cluster }: FleetContext, { program }: Victim): Component | undefined {
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

function pidsOf(context: FleetContext, who: Victim): number[] {
  const component = componentOf(context, who);
  if (component !== undefined) return component.pid === undefined ? [] : [component.pid];
  const { kubelet } = context.fleet;
  if (who.program === 'agent') return kubelet.pids(AGENT, who.node);
  return 'which' in who ? replicaPids(context, who.program, who.which) : [];
}

function replicaPids({ fleet }: FleetContext, program: 'apiserver' | 'controller', which: string | number): number[] {
  const all = fleet.kubelet.pids(COMPONENTS[program]);
  if (which === 'all') return all;
  if (typeof which === 'number') return [pick(all, which)].filter((pid) => pid !== undefined);
  const { nodeName } = fleet.observer.leader()?.spec ?? {};
  const leaders = nodeName === undefined ? [] : fleet.kubelet.pids(CONTROLLER, nodeName);
  return which === 'leader' ? leaders : all.filter((pid) => !leaders.includes(pid));
}

/** Throws until the pod is ready again after more restarts than before, or deleted. */
function assertRestarted(context: FleetContext, name: string, before: number): void {
  const pod = podsOf(context, APISERVER).find(({ metadata }) => metadata?.name === name);
  if (pod !== undefined && (restartsOf(pod.status) <= before || !isReady(pod))) throw new Error(`${name} is not back`);
}

/** False if another fault was faster. */
function killPod({ fleet }: FleetContext, name: string): boolean {
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

function podsOf({ fleet }: FleetContext, component: string): V1Pod[] {
  return fleet.observer.pods
    .list()
    .filter(({ metadata }) => metadata.labels?.[COMPONENT_LABEL] === component)
    .toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name));
}

function pick<T>(list: readonly T[], index: number): T | undefined {
  return list[index % Math.max(1, list.length)];
}

/** Repeats a change until Kubernetes answers; ignores a missing object. */
async function change(
  { cluster }: FleetContext,
  method: 'DELETE' | 'PATCH',
  path: string,
  body?: object,
  api = cluster.api,
): Promise<void> {
  await eventually(async () => {
    await api.request(method, path, body, MERGE).catch((error: unknown) => {
      if (!isStatus(error, 404)) throw error;
    });
  }, PATIENCE);
}

function isStatus(error: unknown, status: number): boolean {
  return error instanceof ApiError && error.status === status;
}

async function scale(context: FleetContext, replicas: number): Promise<void> {
  const path = `/apis/apps/v1/namespaces/${context.fleet.operator.namespace}/deployments/${APISERVER}/scale`;
  await change(context, 'PATCH', path, { spec: { replicas } });
}

async function editShadow(context: FleetContext, node: string, edit: ShadowEdit): Promise<void> {
  const path = context.fleet.shadowPath(node);
  const { spec, status } = context.fleet.shadow(node) ?? {};
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
  // The admission policies let no user do this, so it is done with the account that they trust.
  const { namespace } = context.fleet.operator;
  const account = `/api/v1/namespaces/${namespace}/serviceaccounts/${CONTROLLER}/token`;
  const { status: issued } = await eventually(
    async () => await context.cluster.api.create<{ status: { token: string } }>(account, { spec: {} }),
    PATIENCE,
  );
  await change(context, 'PATCH', target, body, context.cluster.api.as(issued.token));
}
