import type { BottlerocketShadow, Operation, ShadowState } from '../../../packages/shared/src/api/shadow.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { Call } from '../host/host.ts';
import type { Random } from './random.ts';

/** An instant of an update, as a value: JSON, so that a run can be printed and repeated. What is left out may be anything. */
export type Trigger = StateTrigger | CallTrigger;

/** A spec comes to call for a state, an agent comes to report one, or to say that a step is under way. */
export interface StateTrigger {
  readonly at: 'state';
  readonly spec?: ShadowState;
  readonly status?: ShadowState;
  readonly step?: Operation;
}

/** An agent has sent a call, which has had no effect yet; or the answer is ready and not sent yet. */
export interface CallTrigger {
  readonly at: 'call sent' | 'call answered';
  readonly to: 'host' | 'API server';
  readonly method: string;
  readonly path: string;
  readonly spec?: ShadowState;
  readonly step?: Operation;
}

/** In words; two that are equal have the same. */
export function nameOf({ at, method, path, to, spec, step }: CallTrigger): string {
  const when = at === 'call sent' ? 'before' : 'after';
  return `${when} ${method} ${path} of the ${to} in ${spec ?? 'any state'}, ${step ?? 'any step'}`;
}

/** Has `told` decide on each call of each agent. Calls of the API server only where the fleet watches them. */
export function watchCalls(fleet: Fleet, told: (node: string, instant: CallTrigger) => 'drop' | 'pass'): void {
  fleet.callWatcher = async (node, call) => told(node, instantOf(fleet, node, 'API server', call));
  for (const node of fleet.nodes.keys()) watchHost(fleet, node, (instant) => told(node, instant));
}

function watchHost(fleet: Fleet, node: string, told: (instant: CallTrigger) => 'drop' | 'pass'): void {
  fleet.node(node).host.watchCalls(async (call) => told(instantOf(fleet, node, 'host', call)));
}

function instantOf(fleet: Fleet, node: string, to: CallTrigger['to'], { moment, method, path }: Call): CallTrigger {
  const { spec, status } = fleet.shadow(node) ?? {};
  const step = status?.lastOperation?.operation;
  return {
    at: moment === 'sent' ? 'call sent' : 'call answered',
    to,
    method,
    path: path.replace(`/v1/nodes/${node}/`, ''),
    ...(spec !== undefined && { spec: spec.state }),
    ...(step !== undefined && { step }),
  };
}

export interface Awaited {
  /** Of an update to this version. */
  readonly version: string;
  /** On this node; on any, if it is left out. */
  readonly node?: string | undefined;
  readonly limitMs: number;
}

/** Resolves when the instant has come, with true, or when it has not come in time. Of calls it sees those to hosts. */
export async function untilTriggered(fleet: Fleet, trigger: Trigger, awaited: Awaited): Promise<boolean> {
  const come = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => come.resolve(false), awaited.limitMs);
  const forget =
    trigger.at === 'state' ? onState(fleet, trigger, awaited, come) : onCall(fleet, trigger, awaited, come);
  try {
    return await come.promise;
  } finally {
    clearTimeout(timer);
    forget();
  }
}

type Come = Pick<PromiseWithResolvers<boolean>, 'resolve'>;

function onState(fleet: Fleet, trigger: StateTrigger, { version, node }: Awaited, come: Come): () => void {
  return fleet.observer.shadows.subscribe(({ object, old }) => {
    if (node !== undefined && object.metadata.name !== `brs-${node}`) return;
    const isThere = isOf(object, version) && isAt(object, trigger);
    if (isThere && !(old !== undefined && isOf(old, version) && isAt(old, trigger))) come.resolve(true);
  });
}

function onCall(fleet: Fleet, trigger: CallTrigger, { version, node }: Awaited, come: Come): () => void {
  const nodes = [...fleet.nodes.keys()].filter((name) => node === undefined || name === node);
  for (const name of nodes) {
    watchHost(fleet, name, (instant) => {
      if (isOf(fleet.shadow(name), version) && isSame(trigger, instant)) come.resolve(true);
      return 'pass';
    });
  }
  return () => {
    for (const name of nodes) fleet.nodes.get(name)?.host.watchCalls(undefined);
  };
}

function isOf(shadow: BottlerocketShadow | undefined, version: string): boolean {
  return (shadow?.spec.version ?? shadow?.status?.current_version) === version;
}

function isAt({ spec, status }: BottlerocketShadow, trigger: StateTrigger): boolean {
  const last = status?.lastOperation;
  return (
    (trigger.spec ?? spec.state) === spec.state &&
    (trigger.status === undefined || trigger.status === status?.current_state) &&
    (trigger.step === undefined || (trigger.step === last?.operation && last.state === 'Processing'))
  );
}

function isSame(trigger: CallTrigger, { at, to, method, path, spec, step }: CallTrigger): boolean {
  const isCall = trigger.at === at && trigger.to === to && trigger.method === method && trigger.path === path;
  return isCall && (trigger.spec ?? spec) === spec && (trigger.step ?? step) === step;
}

const SPECS: readonly ShadowState[] = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate', 'MonitoringUpdate'];
const STEPS: readonly Operation[] = ['Stage', 'Drain', 'Activate', 'Reboot', 'Restore'];
const CALLS = ['/actions/prepare-update', '/actions/activate-update', '/actions/reboot'] as const;

/** A random instant of an update that this fleet can be watched for. */
export function drawTrigger(random: Random): Trigger {
  return random.pick<() => Trigger>([
    () => ({ at: 'state', spec: random.pick(SPECS) }),
    () => ({ at: 'state', status: random.pick(SPECS) }),
    () => ({ at: 'state', step: random.pick(STEPS) }),
    () => ({
      at: random.pick(['call sent', 'call answered']),
      to: 'host',
      method: 'POST',
      path: random.pick(CALLS),
    }),
  ])();
}
