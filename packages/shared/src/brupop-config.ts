import type { PodPolicy, TimeoutAction } from './drain/settings.ts';
import type { Condition, KubernetesObject } from './kubernetes-types.ts';

/** What a pause does to the nodes that are updating. */
export const PAUSE_MODES = ['Finish', 'Interrupt'] as const;
export type PauseMode = (typeof PAUSE_MODES)[number];

/** Written by people only. */
export interface BrupopConfigSpec {
  /** True: no node begins an update. */
  readonly paused?: boolean;
  /** Finish (default): updates under way go on. Interrupt: those whose host was not yet asked to reboot are undone. */
  readonly pauseMode?: PauseMode;
  /** Shown wherever the pause is the reason for waiting. */
  readonly pauseReason?: string;
  readonly concurrency?: {
    /** Nodes that may be updating at once: a number, or a percentage of the managed nodes, rounded down but at least 1. */
    readonly maxUpdating?: number | string;
  };
  /** How nodes are emptied. */
  readonly drain?: {
    readonly timeoutSeconds?: number;
    readonly onTimeout?: TimeoutAction;
    readonly emptyDirPods?: PodPolicy;
    readonly unmanagedPods?: PodPolicy;
    readonly maxGracePeriodSeconds?: number;
    readonly volumeDetachTimeoutSeconds?: number;
    readonly replacementTimeoutSeconds?: number;
    readonly taintWaitingNodes?: boolean;
  };
  /** How nodes leave external load balancers. */
  readonly loadBalancer?: {
    /** Between the label and the first eviction; 0: no label. */
    readonly exclusionSeconds?: number;
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

/** Cuts a BrupopConfig of the API. What is in its spec is judged by those who use it. */
export function readBrupopConfig(raw: unknown): BrupopConfig {
  const { metadata, spec, status } = raw as BrupopConfig;
  const { name, uid, resourceVersion, generation = 0 } = metadata;
  return { metadata: { name, uid, resourceVersion, generation }, spec, ...(status !== undefined && { status }) };
}
