import { type Leaves, VERSION_LOCK } from '@brupop/shared/api/settings';
import type { AgentShadow } from '@brupop/shared/api/agent-protocol';
import type { ErrorCode } from '@brupop/shared/api/error-codes';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { ShadowView } from '../apiserver/shadow-source.ts';
import { type Host, HostError, type UpdateStatus } from '../host/host.ts';

export type UpdateView =
  | { readonly kind: 'status'; readonly status: UpdateStatus }
  | { readonly kind: 'uninitialized' }
  | { readonly kind: 'locked' }
  | { readonly kind: 'failed'; readonly code: ErrorCode; readonly message: string };

export type SettingsReading =
  | { readonly kind: 'read'; readonly keys: readonly string[]; readonly settings: Leaves }
  | /** The spec became about them after the host was asked. */ { readonly kind: 'unread' }
  | { readonly kind: 'failed'; readonly message: string };

interface AnsweringHost {
  readonly kind: 'answered';
  readonly version: string;
  readonly update: UpdateView;
  /** Absent unless the spec or the status is about them. */
  readonly settings?: SettingsReading | undefined;
  /** The version lock of a host at rest, `latest` without one. Absent: it was not read, or it is among the settings. */
  readonly lock?: string | undefined;
}

export type HostView =
  | AnsweringHost
  | { readonly kind: 'unreachable'; readonly refused: boolean; readonly message: string };

export interface Observation extends ShadowView {
  /** Epoch milliseconds; may jump. */
  readonly wallMs: number;
  /** When the host was asked, monotonic milliseconds. */
  readonly startedMs: number;
  /** When it had answered, monotonic milliseconds. */
  readonly nowMs: number;
  readonly bootID: string;
  readonly uptimeMs: number;
  readonly host: HostView;
}

/**
 * Observes host and shadow. Calls `shadow` again after the host has answered, so that the newest
 * spec counts. Throws only when aborted, or when the boot ID cannot be read.
 */
export async function observe(
  host: Host,
  clock: Clock,
  shadow: () => ShadowView,
  signal: AbortSignal,
): Promise<Observation> {
  const startedMs = clock.monotonic();
  const bootID = await host.bootID();
  const view = await viewHost(host, shadow().shadow, signal);
  signal.throwIfAborted();
  const newest = shadow();
  const seen = { ...newest, host: forShadow(view, newest.shadow), bootID, uptimeMs: host.uptimeMs() };
  return { ...seen, wallMs: clock.now(), startedMs, nowMs: clock.monotonic() };
}

async function viewHost(host: Host, shadow: AgentShadow | undefined, signal: AbortSignal): Promise<HostView> {
  const keys = concernedSettings(shadow);
  try {
    const version = await host.version(signal);
    const update = await viewUpdate(host, signal);
    const settings = keys.length === 0 ? undefined : await readSettings(host, keys, signal);
    const isOwn = shadow?.spec.state === 'Idle' && !keys.includes(VERSION_LOCK);
    const lock = isOwn ? await readLock(host, signal) : undefined;
    return { kind: 'answered', version, update, settings, lock };
  } catch (error) {
    const refused = error instanceof HostError && error.kind === 'refused';
    return { kind: 'unreachable', refused, message: messageOf(error) };
  }
}

/** Leaves out settings that the shadow is not about, and notes those that were not read. */
export function forShadow(view: HostView, shadow: AgentShadow | undefined): HostView {
  if (view.kind === 'unreachable') return view;
  const keys = concernedSettings(shadow);
  const { settings: reading } = view;
  if (keys.length === 0) return { ...view, settings: undefined };
  const isUnread =
    reading === undefined || (reading.kind === 'read' && keys.some((key) => !reading.keys.includes(key)));
  return { ...view, settings: isUnread ? { kind: 'unread' } : reading };
}

async function readSettings(host: Host, keys: readonly string[], signal: AbortSignal): Promise<SettingsReading> {
  try {
    return { kind: 'read', keys, settings: await host.settings(keys, signal) };
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    return { kind: 'failed', message: messageOf(error) };
  }
}

/** No update needs it, so a host without an API of settings is as good. */
async function readLock(host: Host, signal: AbortSignal): Promise<string | undefined> {
  try {
    return lockOf(await host.settings([VERSION_LOCK], signal));
  } catch (error) {
    if (!(error instanceof HostError)) throw error;
    return undefined;
  }
}

/** The version lock among these settings. */
export function lockOf(leaves: Leaves | undefined): string | undefined {
  const value = leaves?.get(VERSION_LOCK);
  return value === undefined ? undefined : String(JSON.parse(value));
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

function mayBeSet({ state, settings }: AgentShadow['spec']): boolean {
  return state === 'RebootedIntoUpdate' ? settings?.allow === 'NeedsReboot' : state !== 'MonitoringUpdate';
}

/** The settings that the spec requests or the status records, in a state that may change them. */
export function concernedSettings(shadow: AgentShadow | undefined): readonly string[] {
  if (shadow === undefined) return [];
  const { spec, status } = shadow;
  if (!mayBeSet(spec)) return [];
  const both = [...(spec.settings?.leaves ?? []), ...(status?.settings?.records ?? [])];
  return [...new Set(both.map(({ key }) => key))];
}
