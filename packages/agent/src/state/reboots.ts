import type { LastOperation } from '@brupop/shared/api/shadow';
import { isRebootInProgress } from '../actions.ts';
import type { HostView, Observation } from './observe.ts';

interface PendingReboot {
  readonly name: string;
  /** Since when this process has known it (monotonic milliseconds). */
  readonly sinceMs: number;
}

/**
 * Tracks requested reboots. `asked` is a call of this process. `pending` is one that an earlier
 * process may have made: a Reboot step is recorded as in progress, or there is no record at all and
 * the host has not answered yet that no update is activated.
 */
export class Reboots {
  /** The reboot call of this process that may still take effect. */
  asked: { readonly atMs: number; readonly bootID: string } | undefined;
  /** `startTime` of this process's Reboot step for which no call was made yet. */
  unasked: string | undefined;
  pending: PendingReboot | undefined;
  /** The boot in which certainly no reboot was requested. */
  #noneIn: string | undefined;
  /** Kept until the boot ends. */
  #unrecorded: { readonly bootID: string; readonly pending: PendingReboot } | undefined;

  observe(seen: Observation): void {
    if (isInactive(seen.host)) this.#noneIn = seen.bootID;
    const unrecorded = this.#possibleUnrecorded(seen);
    const name = nameOnRecord(seen, this.unasked);
    if (name === undefined) this.pending = unrecorded;
    else if (this.pending?.name !== name) this.pending = { name, sinceMs: seen.nowMs };
  }

  /** Only an inactive host rules out a call of a process whose shadow was deleted. */
  #possibleUnrecorded({ bootID, nowMs, shadow }: Observation): PendingReboot | undefined {
    if (this.#unrecorded?.bootID !== bootID || this.#noneIn === bootID) this.#unrecorded = undefined;
    if (this.#noneIn !== bootID && shadow !== undefined && shadow.status === undefined) {
      this.#unrecorded ??= { bootID, pending: { name: 'not on record', sinceMs: nowMs } };
    }
    return this.#unrecorded?.pending;
  }

  /** The host was not activated before, so no reboot was requested. */
  activated(bootID: string): void {
    this.#noneIn = bootID;
  }

  /** For a Reboot step that an earlier process started, the call may have been made. */
  recorded(step: LastOperation, before: LastOperation | undefined): void {
    const unasked = !isRebootInProgress(before) || before.startTime === this.unasked;
    this.unasked = unasked ? step.startTime : undefined;
  }

  accepted(atMs: number, bootID: string): void {
    this.asked = { atMs, bootID };
    this.requested();
  }

  /** The host may have accepted a reboot call. */
  requested(): void {
    this.unasked = undefined;
    this.#noneIn = undefined;
    this.#unrecorded = undefined;
  }
}

function nameOnRecord({ shadow, bootID }: Observation, unasked: string | undefined): string | undefined {
  const last = shadow?.status?.lastOperation;
  const isPending = isRebootInProgress(last) && last.bootID === bootID && last.startTime !== unasked;
  return isPending ? `${last.startTime} ${last.lastUpdateTime}` : undefined;
}

function isInactive(host: HostView): boolean {
  if (host.kind === 'unreachable') return false;
  const { update } = host;
  if (update.kind === 'status') return update.status.state !== 'Ready';
  return update.kind === 'uninitialized' || (update.kind === 'failed' && update.code === 'HostUnsupported');
}
