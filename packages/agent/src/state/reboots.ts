import type { LastOperation } from '@brupop/shared/api/shadow';
import { isRebootUnderWay } from '../decide/status.ts';
import type { HostView, Observation } from './observe.ts';

/** A reboot that the host may have been asked for, and since when this process has known of it (monotonic milliseconds). */
export interface PendingReboot {
  readonly name: string;
  readonly sinceMs: number;
}

/** What this process knows of the reboots that its host was, or may have been, asked for. */
export class Reboots {
  /** The reboot call of this process that may still take effect. */
  asked: { readonly atMs: number; readonly bootID: string } | undefined;
  /** `startTime` of the Reboot step that this process began and in which no host has taken a reboot call yet. */
  unasked: string | undefined;
  pending: PendingReboot | undefined;
  /** The boot in which nobody had asked for a reboot when this process saw or activated the host, nor has this process since. */
  #noneIn: string | undefined;
  /** Kept until the boot ends: by then its time has passed, or it has come. */
  #offRecord: { readonly bootID: string; readonly pending: PendingReboot } | undefined;

  /** Takes note of what was seen. */
  observe(seen: Observation): void {
    if (isInactive(seen.host)) this.#noneIn = seen.bootID;
    const offRecord = this.#notOnRecord(seen);
    const name = nameOnRecord(seen, this.unasked);
    if (name === undefined) this.pending = offRecord;
    else if (this.pending?.name !== name) this.pending = { name, sinceMs: seen.nowMs };
  }

  /**
   * While nothing at all is on record, a process whose shadow was deleted may have asked. That it has not shows only when the host says that it is not
   * activated: a host that goes down says nothing.
   */
  #notOnRecord({ bootID, nowMs, shadow }: Observation): PendingReboot | undefined {
    if (this.#offRecord?.bootID !== bootID || this.#noneIn === bootID) this.#offRecord = undefined;
    if (this.#noneIn !== bootID && shadow !== undefined && shadow.status === undefined) {
      this.#offRecord ??= { bootID, pending: { name: 'not on record', sinceMs: nowMs } };
    }
    return this.#offRecord?.pending;
  }

  /** This process has activated an update: the host was not activated before, so nobody has asked for a reboot. */
  activated(bootID: string): void {
    this.#noneIn = bootID;
  }

  /** A Reboot step that others began may have been asked for by them. */
  written(step: LastOperation, before: LastOperation | undefined): void {
    const unasked = !isRebootUnderWay(before) || before.startTime === this.unasked;
    this.unasked = unasked ? step.startTime : undefined;
  }

  /** The host has taken a reboot call, or may have. */
  mayGoDown(): void {
    this.unasked = undefined;
    this.#noneIn = undefined;
    this.#offRecord = undefined;
  }
}

function nameOnRecord({ shadow, bootID }: Observation, unasked: string | undefined): string | undefined {
  const last = shadow?.status?.lastOperation;
  const is = isRebootUnderWay(last) && last.bootID === bootID && last.startTime !== unasked;
  return is ? `${last.startTime} ${last.lastUpdateTime}` : undefined;
}

/** True when the host has said that no update is activated. A locked, a silent and an unreadable one say nothing. */
function isInactive(host: HostView): boolean {
  if (host.kind === 'silent') return false;
  const { update } = host;
  if (update.kind === 'status') return update.status.state !== 'Ready';
  return update.kind === 'uninitialized' || (update.kind === 'failed' && update.code === 'HostUnsupported');
}
