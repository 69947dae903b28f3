import { OperationError } from '@brupop/shared/api/error-codes';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { LIMITS, type UpdateCommand } from '../limits.ts';
import { commandError, type Finished, judgeCommand } from './host-status.ts';
import { type Guard, type Host, HostError, type UpdateStatus } from './host.ts';

interface Command extends Omit<Finished, 'status'> {
  readonly limitMs: number;
  readonly guard: Guard;
}

interface Context {
  readonly host: Host;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Runs a command of the host's updater: start, poll until the update lock is free, judge by the
 * command's own record. The lock is held without a gap, so the first answer other than 423 is
 * final. Throws OperationError when the command did not do what it is for, HostError when the host
 * is unreachable or busy, StaleDecisionError from `guard`.
 */
export async function runCommand(command: Command, context: Context): Promise<void> {
  const { host, signal } = context;
  await host.start(command.command, signal, command.guard).catch((error: unknown) => {
    throw translate(command.command, error);
  });
  const error = judgeCommand({ ...command, status: await finish(command, context) });
  if (error !== undefined) throw error;
}

/** Returns undefined when the host has no status any more. */
async function finish(
  { command, limitMs }: Command,
  { host, clock, signal }: Context,
): Promise<UpdateStatus | undefined> {
  const startedAt = clock.monotonic();
  let unreachableSince: number | undefined;
  for (let pause: number = LIMITS.pollFirst; ; pause = Math.min(pause * 1.5, LIMITS.pollLongest)) {
    const answer = await poll(command, host, signal);
    if (!(answer instanceof HostError)) return answer;
    const now = clock.monotonic();
    unreachableSince = answer.kind === 'locked' ? undefined : (unreachableSince ?? now);
    if (unreachableSince !== undefined && now - unreachableSince > LIMITS.staleSocket) throw answer;
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
