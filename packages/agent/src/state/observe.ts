import type { ErrorCode } from '@brupop/shared/api/error-codes';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { ShadowView } from '../apiserver/shadow-source.ts';
import { concernsSettings } from '../apiserver/status.ts';
import { type Host, HostError, type UpdaterSettings, type UpdateStatus } from '../host/host.ts';

export type UpdateView =
  | { readonly kind: 'status'; readonly status: UpdateStatus }
  | { readonly kind: 'uninitialized' }
  | { readonly kind: 'locked' }
  | { readonly kind: 'failed'; readonly code: ErrorCode; readonly message: string };

export type SettingsReading =
  | { readonly kind: 'read'; readonly settings: UpdaterSettings }
  | { readonly kind: 'failed'; readonly message: string };

interface AnsweringHost {
  readonly kind: 'answered';
  readonly version: string;
  readonly update: UpdateView;
  /** Read only if the spec or the status is about them. */
  readonly settings?: SettingsReading;
}

export type HostView =
  | AnsweringHost
  | { readonly kind: 'unreachable'; readonly refused: boolean; readonly message: string };

export interface Observation extends ShadowView {
  /** Epoch milliseconds; may jump. */
  readonly wallMs: number;
  /** Monotonic milliseconds. */
  readonly nowMs: number;
  readonly bootID: string;
  readonly uptimeMs: number;
  readonly host: HostView;
}

interface ObserveOptions {
  readonly host: Host;
  readonly clock: Clock;
  /** Called again after the host has answered, so that the newest spec counts. */
  readonly shadow: () => ShadowView;
  readonly signal: AbortSignal;
}

/** Observes host and shadow. Throws only when aborted, or when the boot ID cannot be read. */
export async function observe({ host, clock, shadow, signal }: ObserveOptions): Promise<Observation> {
  const bootID = await host.bootID();
  const { shadow: known } = shadow();
  const view = await viewHost(host, known !== undefined && concernsSettings(known), signal);
  signal.throwIfAborted();
  const uptimeMs = host.uptimeMs();
  return { ...shadow(), bootID, uptimeMs, host: view, wallMs: clock.now(), nowMs: clock.monotonic() };
}

async function viewHost(host: Host, withSettings: boolean, signal: AbortSignal): Promise<HostView> {
  try {
    const version = await host.version(signal);
    const update = await viewUpdate(host, signal);
    const settings = withSettings ? { settings: await readSettings(host, signal) } : {};
    return { kind: 'answered', version, update, ...settings };
  } catch (error) {
    const refused = error instanceof HostError && error.kind === 'refused';
    return { kind: 'unreachable', refused, message: messageOf(error) };
  }
}

async function readSettings(host: Host, signal: AbortSignal): Promise<SettingsReading> {
  try {
    return { kind: 'read', settings: await host.settings(signal) };
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    return { kind: 'failed', message: messageOf(error) };
  }
}

async function viewUpdate(host: Host, signal: AbortSignal): Promise<UpdateView> {
  try {
    return { kind: 'status', status: await host.updateStatus(signal) };
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    const { kind } = error;
    if (kind === 'locked' || kind === 'uninitialized') return { kind };
    if (kind === 'unsupported') return { kind: 'failed', code: 'HostUnsupported', message: messageOf(error) };
    if (kind === 'unreadable') return { kind: 'failed', code: 'HostStatusUnreadable', message: messageOf(error) };
    throw error;
  }
}
