import type { PublishedVersion } from './versions.ts';

/** How long things take, in milliseconds; nothing takes time by default. */
export interface HostDurations {
  refreshMs: number;
  prepareMs: number;
  activateMs: number;
  deactivateMs: number;
  /** From the answer of a commit with apply until the update programs use the settings. */
  applyMs: number;
  /** The reboot call, during which every other request waits. */
  rebootCallMs: number;
  /** From the answer of the reboot call until the host is down; the API answers meanwhile. */
  shutdownMs: number;
  /** One boot attempt; a rollback takes two. */
  bootMs: number;
}

/** The host goes down (its processes end now) or has come up. */
export interface RebootEvent {
  phase: 'down' | 'up';
  /** Whether it was requested, or the power was cut. */
  cause: 'reboot' | 'power cut';
  bootID: string;
  version: string;
}

export interface HostOptions {
  socketPath: string;
  /** The running version. */
  version: string;
  /** Default `aws-k8s-1.31`. */
  variant?: string;
  /** Default `x86_64`. */
  arch?: string;
  /** What the update repository publishes for this variant and architecture. */
  repository: readonly (string | PublishedVersion)[];
  /** Milliseconds since the epoch, for timestamps and waves; timers are real. */
  clock?: { now(): number };
  durations?: Partial<HostDurations>;
  /**
   * How long the server waits for a request's head and keeps an idle connection, in milliseconds;
   * default 5000.
   */
  patienceMs?: number;
  onReboot?: (event: RebootEvent) => Promise<void>;
}

/** Nothing takes time. */
export const NO_DURATIONS: HostDurations = {
  refreshMs: 0,
  prepareMs: 0,
  activateMs: 0,
  deactivateMs: 0,
  applyMs: 0,
  rebootCallMs: 0,
  shutdownMs: 0,
  bootMs: 0,
};

/** Versions without waves may be text. */
export function published(versions: readonly (string | PublishedVersion)[]): PublishedVersion[] {
  return versions.map((version) => (typeof version === 'string' ? { version } : version));
}
