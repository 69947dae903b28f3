import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Clock } from '@brupop/shared/runtime/clock';
import { concernsSettings } from '../decide/host-settings-diff.ts';
import { type Host, HostError, type UpdaterSettings, type UpdateStatus } from '../host/host.ts';

/** What the host's update status shows. */
export type UpdateView =
  | { readonly kind: 'status'; readonly status: UpdateStatus }
  | { readonly kind: 'uninitialized' }
  | { readonly kind: 'locked' }
  | { readonly kind: 'failed'; readonly code: ErrorCode; readonly message: string };

/** The settings of the host's updater, or why they could not be read. */
export type SettingsReading =
  | { readonly kind: 'read'; readonly settings: UpdaterSettings }
  | { readonly kind: 'failed'; readonly message: string };

export type HostView =
  | {
      readonly kind: 'answered';
      readonly version: string;
      readonly update: UpdateView;
      /** Absent where the spec does not concern them: an ordinary node pays nothing for them. */
      readonly settings?: SettingsReading;
    }
  | { readonly kind: 'silent'; readonly refused: boolean; readonly message: string };

/** The shadow and how recent it is. */
export interface ShadowView {
  readonly shadow: AgentShadow | undefined;
  /** Since the apiserver last confirmed the spec: by a message of the stream that is connected now, or by acknowledging a report. */
  readonly specAgeMs: number;
  /** Since the apiserver last answered anything that was no refusal of our identity. */
  readonly apiSilentMs: number;
}

/** Everything that a decision looks at, but for what this process remembers. */
export interface Observation extends ShadowView {
  /** Epoch milliseconds; may jump. */
  readonly wallMs: number;
  /** Monotonic milliseconds. */
  readonly nowMs: number;
  readonly bootID: string;
  /** Milliseconds for which the machine has been up. */
  readonly uptimeMs: number;
  readonly host: HostView;
}

export interface ObserveOptions {
  readonly host: Host;
  readonly clock: Clock;
  /** Read again after the host has answered, so that the newest spec counts. */
  readonly shadow: () => ShadowView;
  readonly signal: AbortSignal;
}

/** Looks at the host and the shadow. Throws only when aborted, or when the boot ID cannot be read. */
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
    return { kind: 'silent', refused, message: messageOf(error) };
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
    const view = error instanceof HostError ? viewError(error) : undefined;
    if (view === undefined) throw error;
    return view;
  }
}

function viewError(error: HostError): UpdateView | undefined {
  switch (error.kind) {
    case 'locked':
      return { kind: 'locked' };
    case 'uninitialized':
      return { kind: 'uninitialized' };
    case 'unsupported':
      return { kind: 'failed', code: 'HostUnsupported', message: messageOf(error) };
    case 'unreadable':
      return { kind: 'failed', code: 'HostStatusUnreadable', message: messageOf(error) };
    default:
      return undefined;
  }
}
