import type { AgentShadow, SpecReference } from '@brupop/shared/api/agent-protocol';
import { messageOf } from '@brupop/shared/runtime/errors';
import { OperationError } from '@brupop/shared/api/error-codes';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Action } from './action.ts';
import type { ApiserverClient } from './apiserver/client.ts';
import { commandError, judgeCommand } from './host/host-status.ts';
import { type Guard, type Host, HostError, StaleDecisionError, type UpdateStatus } from './host/host.ts';
import { commandLimit, LIMITS, type UpdateCommand } from './limits.ts';
import type { Observation } from './state/observe.ts';

export interface Clients {
  readonly host: Host;
  readonly api: ApiserverClient;
  readonly clock: Clock;
}

type Command = Action & { readonly do: 'command' };
type Configure = Action & { readonly do: 'configure' };

/** Everything but waiting and ending. */
export type RemoteAction = Exclude<Action, { readonly do: 'wait' | 'exit' }>;

/**
 * Carries out one action to its end and answers what the call answered. Throws OperationError when the host did not do it, HostError when
 * it is out of reach or busy (the action may have happened), StaleDecisionError when it must be decided anew, ApiError for trouble with the apiserver.
 */
export async function act(
  action: RemoteAction,
  seen: Observation,
  clients: Clients,
  signal: AbortSignal,
): Promise<unknown> {
  if (action.do === 'command') return runCommand(action, seen, clients, signal);
  if (action.do === 'configure') return configure(action, seen, clients, signal);
  if (action.do === 'reboot') return reboot(clients.host, signal, guardOf(seen, clients.clock));
  const { shadow } = seen;
  if (shadow === undefined) throw new Error(`${action.do}: the shadow is not known`);
  return callApi(action, shadow, clients.api, signal);
}

function callApi(
  action: Exclude<RemoteAction, Command | Configure>,
  { uid, generation }: AgentShadow,
  api: ApiserverClient,
  signal: AbortSignal,
): Promise<unknown> {
  const reference: SpecReference = { shadowUID: uid, generation };
  switch (action.do) {
    case 'report':
      return api.report({ shadowUID: uid, status: action.status }, signal);
    case 'exclude':
      return api.exclude(reference, signal);
    case 'drain':
      return api.drain(action.makeRoom ? { ...reference, makeRoom: true } : reference, signal);
    default:
      return api.restore(signal);
  }
}

async function runCommand(
  { command, version, lock }: Command,
  seen: Observation,
  clients: Clients,
  signal: AbortSignal,
): Promise<void> {
  const { host } = seen;
  const update = host.kind === 'answered' ? host.update : undefined;
  const before = update?.kind === 'status' ? update.status.latestCommand?.timestamp : undefined;
  await clients.host.start(command, signal, guardOf(seen, clients.clock)).catch((error: unknown) => {
    throw translate(command, error);
  });
  const status = await finished(command, commandLimit(command, seen.shadow?.spec), clients, signal);
  const error = judgeCommand({ command, before, status, version, lock });
  if (error !== undefined) throw error;
}

/**
 * Waits for the end of a command that was started: the lock is held without a gap, so the first answer that is not 423 is final.
 * Undefined: the host has no status any more.
 */
async function finished(
  command: UpdateCommand,
  limitMs: number,
  clients: Clients,
  signal: AbortSignal,
): Promise<UpdateStatus | undefined> {
  const { host, clock } = clients;
  const startedAt = clock.monotonic();
  let silentSince: number | undefined;
  for (let pause: number = LIMITS.pollFirst; ; pause = Math.min(pause * 1.5, LIMITS.pollLongest)) {
    const looked = await look(command, host, signal);
    if (!(looked instanceof HostError)) return looked;
    const now = clock.monotonic();
    silentSince = looked.kind === 'locked' ? undefined : (silentSince ?? now);
    if (silentSince !== undefined && now - silentSince > LIMITS.staleSocket) throw looked;
    if (now - startedAt > limitMs)
      throw new OperationError('StepTimedOut', `${command} ran for longer than ${limitMs} ms`);
    await clock.sleep(pause, signal);
  }
}

/** The status, or the error that says to look again. */
async function look(
  command: UpdateCommand,
  host: Host,
  signal: AbortSignal,
): Promise<UpdateStatus | HostError | undefined> {
  try {
    return await host.updateStatus(signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof HostError)) throw error;
    if (error.kind === 'uninitialized') return undefined;
    if (error.kind === 'locked' || error.kind === 'refused' || error.kind === 'silent') return error;
    throw translate(command, error);
  }
}

/** Answers of the host that no repetition changes become errors of the operation. */
function translate(command: UpdateCommand, error: unknown): unknown {
  if (!(error instanceof HostError)) return error;
  switch (error.kind) {
    case 'refused':
    case 'silent':
    case 'locked':
      return error;
    case 'unsupported':
      return new OperationError('HostUnsupported', `this host has no in-place updates: ${messageOf(error)}`);
    case 'unreadable':
      return new OperationError('HostStatusUnreadable', messageOf(error));
    default:
      return commandError(command, messageOf(error));
  }
}

/** Asked again right before, since a person may have changed the settings since they were looked at; the host cannot compare them itself. */
async function configure(
  { changes }: Configure,
  seen: Observation,
  { host, clock }: Clients,
  signal: AbortSignal,
): Promise<void> {
  const view = seen.host.kind === 'answered' ? seen.host.settings : undefined;
  const known = view?.kind === 'read' ? view.settings : undefined;
  const { versionLock, ignoreWaves } = await host.settings(signal);
  if (versionLock !== known?.versionLock || ignoreWaves !== known.ignoreWaves)
    throw new StaleDecisionError('the settings have changed meanwhile');
  await host.changeSettings(changes, signal, guardOf(seen, clock));
}

/** A process that was stopped goes on with what it saw before, however long ago. */
function guardOf({ nowMs }: Observation, clock: Clock): Guard {
  return () => {
    const ageMs = clock.monotonic() - nowMs;
    if (ageMs > LIMITS.decisionFresh) throw new StaleDecisionError(`what was seen is ${Math.round(ageMs)} ms old`);
  };
}

async function reboot(host: Host, signal: AbortSignal, guard: Guard): Promise<void> {
  try {
    await host.reboot(signal, guard);
  } catch (error) {
    if (!(error instanceof HostError) || error.kind === 'refused') throw error;
    throw new OperationError('RebootRefused', messageOf(error));
  }
}
