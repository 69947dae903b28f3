import type { BottlerocketShadow, Operation, ShadowState } from '../../../packages/shared/src/api/shadow.ts';
import type { Fleet } from '../fleet/fleet.ts';
import type { Call } from '../host/host.ts';
import type { Random } from './random.ts';

/**
 * An instant of an update, as JSON, so that a run can be printed and repeated. A missing field
 * matches anything.
 */
export type Trigger = StateTrigger | CallTrigger;

/** A spec changes to a state, or an agent reports a state or the start of a step. */
export interface StateTrigger {
  readonly at: 'state';
  readonly spec?: ShadowState;
  readonly status?: ShadowState;
  readonly step?: Operation;
}

/**
 * An agent has sent a call that has had no effect yet, or the response is ready and not sent yet.
 */
export interface CallTrigger {
  readonly at: 'call sent' | 'call answered';
  readonly to: 'host' | 'API server';
  readonly method: string;
  readonly path: string;
  readonly spec?: ShadowState;
  readonly step?: Operation;
}

/** Text of an instant, the same for equal instants. */
export function nameOf({ at, method, path, to, spec, step }: CallTrigger): string {
  const when = at === 'call sent' ? 'before' : 'after';
  return `${when} ${method} ${path} of the ${to} in ${spec ?? 'any state'}, ${step ?? 'any step'}`;
}

/**
 * Calls `told` for each call of each agent. Calls to the API server are included only if the fleet
 * watches them.
 */
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
  /** In an update to this version. */
  readonly version: string;
  /** On this node; default any. */
  readonly node?: string | undefined;
  readonly limitMs: number;
}

/**
 * Resolves with true when the instant occurs, or with false after the limit. Of calls it sees those
 * to hosts.
 */
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

/** A random instant of an update that this fleet can observe. */
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
