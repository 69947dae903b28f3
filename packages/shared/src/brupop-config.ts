import type { Condition, KubernetesObject } from './kubernetes-types.ts';

/** Written by people only. */
export interface BrupopConfigSpec {
  /** True: no node begins an update. Updates under way finish. */
  readonly paused?: boolean;
  /** Shown wherever the pause is the reason for waiting. */
  readonly pauseReason?: string;
  readonly concurrency?: {
    /** Nodes that may be updating at once: a number, or a percentage of the managed nodes, rounded down but at least 1. */
    readonly maxUpdating?: number | string;
  };
}

/** Written by the controller only. */
export interface BrupopConfigStatus {
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
  readonly nodes?: {
    readonly managed: number;
    readonly upToDate: number;
    readonly updating: number;
    readonly waiting: number;
    readonly failed: number;
  };
}

export interface BrupopConfig extends KubernetesObject {
  readonly spec: BrupopConfigSpec;
  readonly status?: BrupopConfigStatus;
}
