import type { TargetName } from '@brupop/shared/api/config-dependents';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { CheckLookups } from './checks.ts';

/** What a Cluster is made of. */
export interface ClusterOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly namespace: string;
  /** Of the agents. */
  readonly agentNamespace: string;
  readonly nodeName: string;
  readonly checks: CheckLookups;
  /** Whether the API server of the operator has the right to delete pods. */
  readonly mayForce: boolean;
  /** What may be scaled to 0 while the cluster is lost. With none, nobody asks whether it is. */
  readonly dependents: readonly TargetName[];
  /** Called with the resource of a watch that has failed and is opened again. */
  readonly onWatchRestart?: (resource: string) => void;
  /** What `Cluster.pause` of the leader before was. */
  readonly pausedBefore?: () => string | undefined;
  /** Until when there was a leader before, epoch milliseconds; undefined: not known. */
  readonly ledBefore?: () => number | undefined;
}
