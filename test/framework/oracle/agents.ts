/**
 * What agents and their hosts do for a spec, one step with each event. They know the spec and the status, and nothing
 * of how a controller remembers an update.
 *
 *     Idle                       restores the Node, sets what it may, confirms
 *     StagedAndPerformedUpdate   begins, then has staged
 *     RebootedIntoUpdate         cordons and drains, then is empty, then is down, then runs the version
 *     MonitoringUpdate           confirms
 */
import type { Act } from './events.ts';
import { type RawNode, type RawSetting, type RawShadow, timeOf } from './objects.ts';

/** What no object shows. */
export interface Host {
  readonly running: string;
  readonly offered: string;
  readonly boots: number;
  /** Settings in effect, by key. */
  readonly settings: Readonly<Record<string, string>>;
}

export interface Machine {
  readonly node: RawNode;
  readonly shadow: RawShadow;
  readonly host: Host;
}

const CORDONED = 'brupop.bottlerocket.aws/cordoned';
type Operation = Readonly<Record<string, unknown>>;

/** Returns what has become of the three. */
export function act(machine: Machine, what: Act, now: number): Machine {
  const { state } = machine.shadow.spec;
  if (what === 'is held') return state === 'RebootedIntoUpdate' ? held(machine, now) : machine;
  if (what === 'forgets') return state === 'Idle' ? { ...confirms(machine, now), node: machine.node } : machine;
  return what === 'acts' ? goesOn(machine, now) : failed(machine, what, now);
}

function goesOn(machine: Machine, now: number): Machine {
  const { state } = machine.shadow.spec;
  if (isAnswered(machine.shadow)) return state === 'Idle' ? confirms(machine, now) : machine;
  if (state === 'StagedAndPerformedUpdate') return stages(machine, now);
  return state === 'RebootedIntoUpdate' ? reboots(machine, now) : confirms(machine, now);
}

function isAnswered({ metadata, spec, status }: RawShadow): boolean {
  const is = (state: string): boolean => status['current_state'] === state;
  return status['observedGeneration'] === metadata.generation && (is(spec.state) || is('ErrorReset'));
}

function operationOf({ shadow }: Machine): Operation {
  return (shadow.status['lastOperation'] ?? {}) as Operation;
}

function isDoing(machine: Machine, operation: string): boolean {
  const last = operationOf(machine);
  const isNow = machine.shadow.status['observedGeneration'] === machine.shadow.metadata.generation;
  return isNow && last['operation'] === operation && last['state'] === 'Processing';
}

/** With the status of the agent's report. */
function reports(machine: Machine, changes: Readonly<Record<string, unknown>>): Machine {
  const { shadow, host } = machine;
  const status = {
    crash_count: 0,
    state_transition_failure_timestamp: null,
    ...shadow.status,
    current_version: host.running,
    observedGeneration: shadow.metadata.generation,
    bootID: machine.node.status.nodeInfo.bootID,
    ...changes,
  };
  return { ...machine, shadow: { ...shadow, status } };
}

function operation({ node, shadow }: Machine, name: string, state: string, now: number): Operation {
  const time = timeOf(now);
  const { version } = shadow.spec;
  return {
    operation: name,
    state,
    version,
    bootID: node.status.nodeInfo.bootID,
    startTime: time,
    lastUpdateTime: time,
  };
}

function stages(machine: Machine, now: number): Machine {
  if (!isDoing(machine, 'Stage')) {
    const lastOperation = operation(machine, 'Stage', 'Processing', now);
    return reports(machine, { current_state: 'Idle', lastOperation });
  }
  const lastOperation = { ...operationOf(machine), state: 'Succeeded', lastUpdateTime: timeOf(now) };
  return reports(machine, { current_state: 'StagedAndPerformedUpdate', lastOperation });
}

function reboots(machine: Machine, now: number): Machine {
  const startTime = timeOf(now);
  const { generation: observedGeneration } = machine.shadow.metadata;
  if (isDoing(machine, 'Reboot')) return boots(machine, now, machine.shadow.spec.version ?? '');
  if (isDoing(machine, 'Drain')) {
    const drain = { observedGeneration, startTime, endTime: startTime, result: 'Drained', evicted: 1, remaining: 0 };
    const lastOperation = operation(machine, 'Reboot', 'Processing', now);
    const next = reports(machine, { current_state: 'StagedAndPerformedUpdate', drain, lastOperation });
    return { ...next, node: withReady(next.node, 'Unknown', now) };
  }
  const drain = { observedGeneration, startTime, evicted: 0, remaining: 1 };
  const lastOperation = operation(machine, 'Drain', 'Processing', now);
  const next = reports(machine, { current_state: 'StagedAndPerformedUpdate', drain, lastOperation });
  return { ...next, node: cordoned(next.node, now) };
}

function boots(machine: Machine, now: number, version: string): Machine {
  const { host } = machine;
  const boot = host.boots + 1;
  const ready = withReady(machine.node, 'True', now);
  const node = uncordoned({ ...ready, status: { ...ready.status, nodeInfo: { bootID: `boot-${boot}` } } });
  const next = { ...machine, node, host: { ...host, running: version, boots: boot } };
  const lastOperation = { ...operationOf(machine), state: 'Succeeded', lastUpdateTime: timeOf(now) };
  return reports(withSettings(next, ['Live', 'RestartsService', 'NeedsReboot']), {
    current_state: 'RebootedIntoUpdate',
    lastOperation,
  });
}

function confirms(machine: Machine, now: number): Machine {
  const { spec } = machine.shadow;
  if (spec.state !== 'Idle') return reports(machine, { current_state: spec.state });
  const lock = spec.settings?.leaves.find(({ key }) => key === 'settings.updates.version-lock');
  const pinned = lock === undefined ? machine.host.offered : (JSON.parse(lock.value) as string);
  const set = withSettings(machine, allowedBy(spec.settings?.allow ?? 'None'));
  const down = set.node.status.conditions.some(({ type, status }) => type === 'Ready' && status === 'Unknown');
  const node = uncordoned(down ? withReady(set.node, 'True', now) : set.node);
  return reports({ ...set, node }, { current_state: 'Idle', target_version: pinned });
}

const CLASSES = ['Live', 'RestartsService', 'NeedsReboot'] as const;
type Class = (typeof CLASSES)[number];
const allowedBy = (allow: string): Class[] => CLASSES.slice(0, CLASSES.indexOf(allow as Class) + 1);

function classOf(key: string): Class {
  if (key.includes('lockdown')) return 'NeedsReboot';
  return key.includes('max-pods') ? 'RestartsService' : 'Live';
}

function isOfUpdater({ key }: RawSetting): boolean {
  return key.startsWith('settings.updates.');
}

/** Sets what is requested and allowed, and restores what is no longer requested. */
function withSettings(machine: Machine, allowed: readonly Class[]): Machine {
  const { host, shadow } = machine;
  const leaves = shadow.spec.settings?.leaves ?? [];
  const may = (key: string): boolean => allowed.includes(classOf(key));
  const wanted = leaves.filter((leaf) => !isOfUpdater(leaf));
  const dropped = Object.keys(host.settings).filter((key) => !wanted.some((leaf) => leaf.key === key));
  const isChange = ({ key, value }: RawSetting): boolean => host.settings[key] !== value;
  const kept = Object.entries(host.settings).filter(([key]) => !dropped.includes(key) || !may(key));
  const done = wanted.filter((leaf) => !isChange(leaf) || may(leaf.key));
  const left = wanted.filter((leaf) => !done.includes(leaf)).map(({ key }) => key);
  const settings = Object.fromEntries([...kept, ...done.map(({ key, value }) => [key, value] as const)]);
  const pending = [...left, ...dropped.filter((key) => !may(key))].map((key) => ({
    key,
    class: classOf(key),
    reason: 'because',
  }));
  const records = [...leaves.filter(isOfUpdater), ...done].map(({ key, value, owner }) => ({ key, value, owner }));
  const status = { ...shadow.status, settings: { records, ...(pending.length > 0 && { pending }) } };
  return { ...machine, host: { ...host, settings }, shadow: { ...shadow, status } };
}

const CODES = { StagedAndPerformedUpdate: 'PrepareFailed', RebootedIntoUpdate: 'RolledBack' } as const;

function failed(machine: Machine, what: Exclude<Act, 'acts' | 'is held' | 'forgets'>, now: number): Machine {
  const { state } = machine.shadow.spec;
  if (state !== 'StagedAndPerformedUpdate' && state !== 'RebootedIntoUpdate') return machine;
  const isDown = isDoing(machine, 'Reboot');
  const own = isDown || state === 'StagedAndPerformedUpdate' ? CODES[state] : 'DrainTimedOut';
  const byName = { fails: own, 'times out': 'StepTimedOut', 'is withdrawn': 'VersionNotOffered' } as const;
  const errorCode = byName[what];
  const back = isDown ? boots(machine, now, machine.host.running) : machine;
  const last = {
    ...operation(back, 'Stage', 'Failed', now),
    ...operationOf(back),
    state: 'Failed',
    errorCode,
    message: 'it did not work',
  };
  const crash_count = Number(machine.shadow.status['crash_count'] ?? 0) + 1;
  return reports(back, { current_state: 'ErrorReset', crash_count, lastOperation: last });
}

function held(machine: Machine, now: number): Machine {
  const time = timeOf(now);
  const { generation: observedGeneration } = machine.shadow.metadata;
  const blockedBy = [{ pod: 'apps/held', reason: 'DisruptionBudget', message: 'refused', since: time }];
  const drain = { observedGeneration, startTime: time, evicted: 0, remaining: 1, blockedBy };
  const lastOperation = operation(machine, 'Drain', 'Processing', now);
  const next = reports(machine, { current_state: 'StagedAndPerformedUpdate', drain, lastOperation });
  return { ...next, node: cordoned(next.node, now) };
}

export function withCondition(node: RawNode, type: string, status: string, now: number): RawNode {
  const others = node.status.conditions.filter((one) => one.type !== type);
  const before = node.status.conditions.find((one) => one.type === type);
  const lastTransitionTime = before?.status === status ? before.lastTransitionTime : timeOf(now);
  return { ...node, status: { ...node.status, conditions: [...others, { type, status, lastTransitionTime }] } };
}

export function withReady(node: RawNode, status: string, now: number): RawNode {
  return withCondition(node, 'Ready', status, now);
}

function cordoned(node: RawNode, now: number): RawNode {
  if (node.spec.unschedulable === true) return node;
  const annotations = { ...node.metadata.annotations, [CORDONED]: timeOf(now) };
  return { ...node, metadata: { ...node.metadata, annotations }, spec: { ...node.spec, unschedulable: true } };
}

/** Removes the cordon of the operator only. */
export function uncordoned(node: RawNode): RawNode {
  const { [CORDONED]: own, ...annotations } = node.metadata.annotations;
  if (own === undefined) return node;
  return { ...node, metadata: { ...node.metadata, annotations }, spec: { ...node.spec, unschedulable: false } };
}
