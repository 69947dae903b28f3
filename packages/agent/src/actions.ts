/**
 * The actions of the agent, one row each: what an action calls, how long it may take, whether it
 * may run while the host may still reboot on the request of an earlier process, and how it is
 * carried out.
 *
 * `decide` chooses an action, the agent's loop performs it to its end, the tracker records the
 * result. When another spec arrives during a refresh or a prepare, the loop leaves that to the host
 * and decides again. To add an action, add a member of `Action` and its row; the compiler asks for
 * the rest.
 */
import type { Leaves } from '@brupop/shared/api/settings';
import type { AgentShadow, SpecReference } from '@brupop/shared/api/agent-protocol';
import { OperationError } from '@brupop/shared/api/error-codes';
import type { AgentStatus, LastOperation, ShadowSpec } from '@brupop/shared/api/shadow';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { ApiserverClient } from './apiserver/client.ts';
import { runCommand } from './host/command.ts';
import { type Guard, type Host, HostError, StaleDecisionError } from './host/host.ts';
import { commandLimit, LIMITS, type UpdateCommand } from './limits.ts';
import { changeKey } from './settings/plan.ts';
import { completed, neededWith } from './settings/whole.ts';

export type Action = { readonly reason: string } & (
  | /** Observe again at `untilMs` on the monotonic clock, or when something changes. */ {
      readonly do: 'wait';
      readonly untilMs: number;
    }
  | /** Exit, so that the kubelet starts the process with current mounts and environment. */ { readonly do: 'exit' }
  | { readonly do: 'report'; readonly status: AgentStatus }
  | { readonly do: 'exclude' | 'drain' | 'restore' | 'reboot' }
  | /** Ask the host what changes of its settings would disrupt. */ {
      readonly do: 'classify';
      readonly changes: Leaves;
    }
  | /** Store settings on the host and have them applied, if the host still has `expected`. */ {
      readonly do: 'configure';
      readonly changes: Leaves;
      /** Absent: the former values are set again, whatever the host has. */
      readonly expected?: Leaves;
      /** The former values. Absent: `changes` are those. */
      readonly undo?: Leaves;
    }
  | {
      readonly do: 'command';
      readonly command: UpdateCommand;
      /** Timestamp of the host's latest command record when the decision was made. */
      readonly before: string | undefined;
      readonly version?: string;
      readonly lock?: string;
    }
);

export type RemoteAction = Exclude<Action, { readonly do: 'wait' | 'exit' }>;

export interface Execution {
  readonly host: Host;
  readonly api: ApiserverClient;
  readonly clock: Clock;
  readonly shadow: AgentShadow | undefined;
  /** When it was decided (monotonic milliseconds). */
  readonly decidedMs: number;
  /** False when another spec has arrived since. */
  readonly isCurrent: () => boolean;
  readonly signal: AbortSignal;
}

interface ActionRow<A extends RemoteAction> {
  /** It pauses while calls of that target fail. */
  readonly target: 'host' | 'apiserver';
  limitMs(action: A, spec: ShadowSpec | undefined): number;
  duringReboot(action: A): boolean;
  /**
   * Carries out the action to its end and returns the answer. Throws OperationError when the host
   * did not do it, HostError when the host is unreachable or busy (the action may have happened),
   * StaleDecisionError when it must be decided again, ApiError when the apiserver did not do it.
   */
  perform(action: A, execution: Execution): Promise<unknown>;
}

type Rows = { readonly [K in RemoteAction['do']]: ActionRow<RemoteAction & { readonly do: K }> };

const fourCalls = (): number => LIMITS.hostCall * 4;
const apiserverCall = { target: 'apiserver', limitMs: fourCalls, duringReboot: () => true } as const;
const hostCall = { target: 'host', limitMs: fourCalls, duringReboot: () => false } as const;

const ACTIONS: Rows = {
  report: {
    ...apiserverCall,
    duringReboot: ({ status }) => isRebootInProgress(status.lastOperation),
    perform: ({ status }, { api, shadow, signal }) =>
      api.report({ shadowUID: referTo(shadow).shadowUID, status }, signal),
  },
  exclude: { ...apiserverCall, perform: (_action, { api, shadow, signal }) => api.exclude(referTo(shadow), signal) },
  drain: { ...apiserverCall, perform: (_action, { api, shadow, signal }) => api.drain(referTo(shadow), signal) },
  restore: { ...apiserverCall, duringReboot: () => false, perform: (_action, { api, signal }) => api.restore(signal) },
  command: {
    ...hostCall,
    limitMs: ({ command }, spec) => commandLimit(command, spec) + LIMITS.staleSocket,
    perform: ({ command, before, version, lock }, execution) => {
      const limitMs = commandLimit(command, execution.shadow?.spec);
      return runCommand({ command, before, version, lock, limitMs, guard: guardOf(execution) }, execution);
    },
  },
  classify: {
    ...hostCall,
    limitMs: () => LIMITS.hostCall * 6,
    perform: async ({ changes }, { host, signal }) => {
      const found = await host.classify(changes, signal);
      return new Map([...changes].map(([key, value]) => [changeKey(key, value), found.get(key)]));
    },
  },
  configure: { ...hostCall, perform: configure },
  reboot: { ...hostCall, duringReboot: () => true, perform: (_action, execution) => reboot(execution) },
};

/** True from right before the reboot is requested until it has failed or another step follows. */
export function isRebootInProgress(step: LastOperation | undefined): step is LastOperation {
  return step?.operation === 'Reboot' && step.state === 'Processing';
}

export function rowOf(action: RemoteAction): ActionRow<RemoteAction> {
  return ACTIONS[action.do];
}

const WORDS: Readonly<Record<Exclude<Action['do'], 'command'> | UpdateCommand, string>> = {
  wait: 'waiting',
  exit: 'exiting, to be started again',
  report: 'reporting the state of the node',
  exclude: 'excluding the node from load balancers',
  drain: 'draining the node',
  restore: 'restoring the node',
  reboot: 'rebooting the host',
  classify: 'asking the host what a change of settings disrupts',
  configure: 'changing settings of the host',
  refresh: 'checking for updates',
  prepare: 'writing the update to the other partition',
  activate: 'activating the update',
  deactivate: 'deactivating the update',
};

/** The action in words, for log lines. */
export function wordsOf(action: Action): string {
  return WORDS[action.do === 'command' ? action.command : action.do];
}

function referTo(shadow: AgentShadow | undefined): SpecReference {
  if (shadow === undefined) throw new Error('the shadow is not known');
  return { shadowUID: shadow.uid, generation: shadow.generation };
}

/** Stops a call that was decided too long ago, as after SIGSTOP and SIGCONT. */
function guardOf({ decidedMs, clock }: Pick<Execution, 'decidedMs' | 'clock'>): Guard {
  return () => {
    const ageMs = clock.monotonic() - decidedMs;
    if (ageMs > LIMITS.decisionFresh) throw new StaleDecisionError(`the observation is ${Math.round(ageMs)} ms old`);
  };
}

/**
 * Compares right before the change: a user may have changed the settings, and the host cannot compare. The time that the
 * host takes for its answer does not count against the decision.
 */
async function configure(
  { changes, expected }: Action & { readonly do: 'configure' },
  execution: Execution,
): Promise<void> {
  const { host, clock, signal } = execution;
  const keys = [...changes.keys()];
  const needed = neededWith(keys);
  guardOf(execution)();
  const isRead = expected !== undefined || needed.length > 0;
  const live = isRead ? await host.settings([...new Set([...keys, ...needed])], signal) : new Map<string, string>();
  const readMs = clock.monotonic();
  if (expected !== undefined && keys.some((key) => live.get(key) !== expected.get(key)))
    throw new StaleDecisionError('the settings of the host have changed');
  await host.changeSettings(completed(changes, live), signal, guardOf({ clock, decidedMs: readMs }));
}

async function reboot(execution: Execution): Promise<void> {
  try {
    await execution.host.reboot(execution.signal, guardOf(execution));
  } catch (error) {
    if (!(error instanceof HostError) || error.kind === 'refused') throw error;
    throw new OperationError('RebootRefused', messageOf(error));
  }
}
