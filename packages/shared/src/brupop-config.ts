import type { PodPolicy, TimeoutAction } from './drain/settings.ts';
import type { Condition, KubernetesObject } from './kubernetes-types.ts';
import type { LabelSelector } from './label-selector.ts';

/** What a pause does to the nodes that are updating. */
export const PAUSE_MODES = ['Finish', 'Interrupt'] as const;
export type PauseMode = (typeof PAUSE_MODES)[number];

/** Weekdays, as windows name them. */
export const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'] as const;
export type Day = (typeof DAYS)[number];

/** Which node goes first. */
export const ORDERS = ['Name', 'Random', 'OldestBoot'] as const;
export type Order = (typeof ORDERS)[number];

/** Written by people only. */
export interface BrupopConfigSpec {
  /** True: no node begins an update. */
  readonly paused?: boolean;
  /** Finish (default): updates under way go on. Interrupt: those whose host was not yet asked to reboot are undone. */
  readonly pauseMode?: PauseMode;
  /** Shown wherever the pause is the reason for waiting. */
  readonly pauseReason?: string;
  /** When nodes may begin updates. */
  readonly maintenance?: {
    /** IANA time zone of the schedules. */
    readonly timeZone?: string;
    readonly windows?: readonly {
      /** Five cron fields. */
      readonly schedule: string;
      /** Hours and minutes, such as `4h` or `1h30m`, as every duration here. */
      readonly duration: string;
      readonly days?: readonly Day[];
    }[];
    readonly blackouts?: readonly {
      /** RFC 3339, as the next. */
      readonly from: string;
      readonly to: string;
      readonly reason?: string;
    }[];
    /** How long an update is taken to last while none was measured. */
    readonly updateEstimate?: string;
    /** How much longer than expected an update may take before its window closes. */
    readonly margin?: string;
  };
  /** How many nodes may be away at once. */
  readonly concurrency?: {
    /** Nodes that may be updating at once: a number, or a percentage of the managed nodes, rounded down but at least 1. */
    readonly maxUpdating?: number | string;
    /** The same, with the nodes that are unavailable for other reasons. */
    readonly maxUnavailable?: number | string;
    /** The same within one zone. */
    readonly maxPerZone?: number;
    /** Zones in which nodes may be updating at once. */
    readonly maxZones?: number;
  };
  /** Which versions nodes go to. */
  readonly versions?: {
    /** The one version that all nodes are to run. */
    readonly pin?: string;
    /** How long a version must have been on offer in this cluster. */
    readonly minimumAge?: string;
    readonly ignoreWaves?: boolean;
    /** Versions that no node is updated to. */
    readonly deny?: readonly string[];
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
  /** How long the steps of an update may take. */
  readonly timeouts?: {
    readonly stageSeconds?: number;
    readonly rebootSeconds?: number;
    readonly monitorSeconds?: number;
  };
  /** When a node that failed is tried again. */
  readonly retry?: {
    readonly backoffSeconds?: number;
    readonly maxBackoffSeconds?: number;
    /** How often a node is tried with one version. */
    readonly attempts?: number;
  };
  /** Restricts the managed nodes, beyond their label. */
  readonly nodeSelector?: LabelSelector;
  readonly order?: Order;
}

/** The configuration that nodes are updated by. */
export interface InForce {
  /** Of the spec that it comes from. */
  readonly generation: number;
  /** With every default filled in. Of another release it may have fields that this one does not know. */
  readonly spec: Readonly<Record<string, unknown>>;
}

/** A version that managed nodes run or are offered. */
export interface VersionStatus {
  readonly version: string;
  readonly running: number;
  readonly offered: number;
  /** RFC 3339 */
  readonly firstOfferedTime: string;
}

/** A node that waits for its turn. Times are RFC 3339. */
export interface PlannedNode {
  readonly node: string;
  readonly version?: string;
  readonly reason: string;
  readonly expectedTime?: string;
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
  readonly versions?: readonly VersionStatus[];
  /** Times are RFC 3339. */
  readonly window?: {
    readonly nextOpenTime?: string;
    readonly nextCloseTime?: string;
  };
  readonly updateEstimateSeconds?: number;
  /** RFC 3339 */
  readonly expectedCompletionTime?: string;
  /** The nodes that update next, in their order. */
  readonly plan?: readonly PlannedNode[];
  readonly inForce?: InForce;
}

export interface BrupopConfig extends KubernetesObject {
  readonly spec: BrupopConfigSpec;
  readonly status?: BrupopConfigStatus;
}

/** Cuts a BrupopConfig of the API. What is in its spec is judged by those who use it; no spec is an empty one. */
export function readBrupopConfig(raw: unknown): BrupopConfig {
  const { metadata, spec, status } = raw as Omit<BrupopConfig, 'spec'> & { readonly spec?: BrupopConfigSpec | null };
  const { name, uid, resourceVersion, generation = 0 } = metadata;
  return {
    metadata: { name, uid, resourceVersion, generation },
    spec: spec ?? {},
    ...(status !== undefined && { status }),
  };
}
