import { OperationError } from '@brupop/shared/api/error-codes';
import type { Clock } from '@brupop/shared/runtime/clock';
import { sameVersion } from '@brupop/shared/api/version';
import { messageOf, shorten } from '@brupop/shared/runtime/errors';
import { LIMITS, type UpdateCommand } from '../limits.ts';
import {
  type CommandRecord,
  describeStatus,
  type Guard,
  type Host,
  HostError,
  isActivated,
  isOffered,
  isStaged,
  StaleDecisionError,
  type UpdateStatus,
} from './host.ts';

export interface CommandCall {
  readonly command: UpdateCommand;
  /** Timestamp of the record before the command was started. */
  readonly before: string | undefined;
  /** Version that a refresh must offer, a prepare must write, and an activation must boot next. */
  readonly version?: string | undefined;
  /** Version that the host is locked to: a refresh must not offer another one. */
  readonly lock?: string | undefined;
}

interface Command extends CommandCall {
  readonly limitMs: number;
  readonly guard: Guard;
}

interface Context {
  readonly host: Host;
  readonly clock: Clock;
  /** False when another spec has arrived since the decision. */
  readonly isCurrent: () => boolean;
  readonly signal: AbortSignal;
}

/**
 * Another spec does not wait for these: the host finishes them alone, and then its status shows the result. An activation
 * has to be known before the Node can be restored.
 */
const LEFT_TO_HOST: ReadonlySet<UpdateCommand> = new Set(['refresh', 'prepare']);

/**
 * Runs a command of the host's updater: start, poll until the update lock is free, read the
 * command's own record. The lock is held without a gap, so the first answer other than 423 is
 * final, also when the start had no answer. Throws OperationError when the command did not do what
 * it is for, HostError when the host is unreachable or busy, or has not started it, and
 * StaleDecisionError from `guard` or when another spec arrives.
 */
export async function runCommand(command: Command, context: Context): Promise<void> {
  const unanswered = await start(command, context);
  const status = await finish(command, context);
  const error = commandResult(command, status);
  if (error !== undefined) throw hasRecord(command, status) ? error : (unanswered ?? error);
}

/** Returns the error of a call without an answer: the host may have started the command all the same. */
async function start({ command, guard }: Command, { host, signal }: Context): Promise<HostError | undefined> {
  try {
    await host.start(command, signal, guard);
    return undefined;
  } catch (error) {
    if (error instanceof HostError && error.kind === 'unanswered') return error;
    throw translate(command, error);
  }
}

function hasRecord({ command, before }: CommandCall, status: UpdateStatus | undefined): boolean {
  const record = status?.latestCommand;
  return record?.type === command && record.timestamp !== before;
}

/** Returns undefined when the host has no status any more. */
async function finish(
  { command, limitMs }: Command,
  { host, clock, isCurrent, signal }: Context,
): Promise<UpdateStatus | undefined> {
  const startedAt = clock.monotonic();
  let unreachableSince: number | undefined;
  for (let pause: number = LIMITS.pollFirst; ; pause = Math.min(pause * 1.5, LIMITS.pollLongest)) {
    const answer = await poll(command, host, signal);
    if (!(answer instanceof HostError)) return answer;
    if (LEFT_TO_HOST.has(command) && !isCurrent())
      throw new StaleDecisionError(`another spec has arrived, the host finishes its ${command} alone`);
    const now = clock.monotonic();
    unreachableSince = answer.kind === 'locked' ? undefined : (unreachableSince ?? now);
    if (unreachableSince !== undefined && now - unreachableSince > LIMITS.staleSocket)
      throw new HostError(answer.kind, answer.message, { cause: answer.cause, sinceMs: unreachableSince });
    if (now - startedAt > limitMs)
      throw new OperationError('StepTimedOut', `${command} ran for longer than ${limitMs} ms`);
    await clock.sleep(pause, signal);
  }
}

/** Returns the status, or the error after which to poll again. */
async function poll(
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
    if (isTransient(error)) return error;
    throw translate(command, error);
  }
}

function isTransient({ kind }: HostError): boolean {
  return kind === 'locked' || kind === 'refused' || kind === 'unanswered';
}

/** Turns an answer that no retry changes into the error of the operation. */
function translate(command: UpdateCommand, error: unknown): unknown {
  if (!(error instanceof HostError) || isTransient(error)) return error;
  if (error.kind === 'unsupported')
    return new OperationError('HostUnsupported', `this host has no in-place updates: ${messageOf(error)}`);
  if (error.kind === 'unreadable') return new OperationError('HostStatusUnreadable', messageOf(error));
  return commandError(command, messageOf(error));
}

const FAILED = {
  refresh: 'RefreshFailed',
  prepare: 'PrepareFailed',
  activate: 'ActivateFailed',
  deactivate: 'ActivateFailed',
} as const;

function commandError(command: UpdateCommand, message: string): OperationError {
  return new OperationError(FAILED[command], `${command}: ${shorten(message, 500)}`);
}

/** @param status - the first one after the command that was not 423, undefined when there is none */
export function commandResult(call: CommandCall, status: UpdateStatus | undefined): OperationError | undefined {
  const { command, before } = call;
  if (hasActivated(call, status)) return undefined;
  const record = status?.latestCommand;
  if (status === undefined || record === undefined || record.timestamp === before) {
    return commandError(command, 'ended without a record: its process died');
  }
  if (record.type !== command) return commandError(command, `expected its record, found that of ${record.type}`);
  if (!record.succeeded)
    return commandError(command, `exit status ${record.exitStatus ?? 'unknown'}: ${record.stderr}`);
  return effectOf(call, status, record);
}

function effectOf(
  { command, version, lock }: CommandCall,
  status: UpdateStatus,
  record: CommandRecord,
): OperationError | undefined {
  if (lock !== undefined) return lockResult(status, lock);
  return version === undefined ? undefined : EFFECTS[command](status, record, version);
}

/** Whatever the latest record is: a refresh of another actor may hide that of the activation. */
function hasActivated({ command, version }: CommandCall, status: UpdateStatus | undefined): boolean {
  return command === 'activate' && version !== undefined && status !== undefined && isActivated(status, version);
}

/** Only the offer shows whether the host has applied its settings. */
function lockResult({ chosenVersion }: UpdateStatus, lock: string): OperationError | undefined {
  if (chosenVersion === undefined || sameVersion(chosenVersion, lock)) return undefined;
  const message = `expected the host to offer nothing but ${lock}, to which it is locked, found ${chosenVersion}`;
  return new OperationError('VersionNotOffered', message);
}

type Effect = (status: UpdateStatus, record: CommandRecord, version: string) => OperationError | undefined;

const EFFECTS: Readonly<Record<UpdateCommand, Effect>> = {
  refresh: (status, _record, version) =>
    isOffered(status, version)
      ? undefined
      : new OperationError(
          'VersionNotOffered',
          `expected the host to offer ${version}, found ${status.chosenVersion ?? 'nothing'} (state ${status.state}); see its version lock and update waves`,
        ),
  prepare: (status, record, version) =>
    isStaged(status, version)
      ? undefined
      : new OperationError(
          'WrongVersionStaged',
          `expected prepare to write ${version}, found "${shorten(record.stderr, 200)}" (${describeStatus(status)})`,
        ),
  activate: (status, _record, version) =>
    commandError('activate', `expected ${version} to boot next, found ${describeStatus(status)}`),
  deactivate: () => undefined,
};
