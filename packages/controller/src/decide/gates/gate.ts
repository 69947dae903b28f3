import type { ShadowView } from '../../cluster/shadow-view.ts';
import type { ShadowStatus } from '@brupop/shared/shadow';
import type { Drainable } from '../drainable.ts';
import type { FleetSettings } from '../fleet-settings.ts';
import type { NodeView } from '../../cluster/node-view.ts';
import type { Wait } from '../reasons.ts';

/** A managed node at rest whose host offers another version than the one it runs. */
export interface Candidate {
  readonly node: NodeView;
  readonly shadow: ShadowView;
  readonly status: ShadowStatus;
  /** Why the API server has just refused a spec for the shadow. */
  readonly refusal?: string | undefined;
}

export interface GateInput {
  readonly candidate: Candidate;
  readonly fleet: FleetSettings;
  /** Resources of which nothing was heard for too long. */
  readonly stale: readonly string[];
  /** How many nodes may still begin an update now. */
  readonly free: number;
  readonly drain: Drainable;
  readonly now: number;
}

/** One condition for a node to begin its update: undefined lets it pass. */
export type Gate = (input: GateInput) => Wait | undefined;
