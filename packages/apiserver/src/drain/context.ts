import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { KubeClient } from '@brupop/shared/kube/client';
import type { Events } from '@brupop/shared/kube/events';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';
import type { Identity } from '../auth/authenticator.ts';
import type { Metrics } from '../metrics.ts';
import type { Nodes } from '../nodes/nodes.ts';
import type { SlimShadow } from '../shadows/policy.ts';
import type { Shadows } from '../shadows/shadows.ts';

/** What a replica drains nodes with. */
export interface DrainContext {
  readonly client: KubeClient;
  readonly nodes: Nodes;
  readonly shadows: Shadows;
  readonly events: Events;
  /** Namespace of the operator. */
  readonly namespace: string;
  readonly podName: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly signal: AbortSignal;
}

/** An agent's request, with the live shadow. */
export interface DrainCall {
  readonly identity: Identity;
  readonly shadow: SlimShadow;
  readonly signal: AbortSignal;
}

/** Its logger has the node. */
export interface PassContext extends DrainContext, DrainCall {
  readonly settings: DrainSettings;
}
