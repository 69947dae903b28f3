/** What the condition RecoveryReady of the BrupopConfig says. */
import { MAX_RECOVERIES, type RecoveryService } from '@brupop/shared/api/config-recovery';
import { WATCH_STALE_MS } from '@brupop/shared/api/deadlines';
import type { ConditionReport } from '@brupop/shared/api/meta';
import { namesOf } from '@brupop/shared/runtime/errors';
import { MAX_SLICES } from './service-watches.ts';

/** Reasons of the condition. `docs/runbook.md` explains each. */
export const RECOVERY_REASONS = [
  'AsConfigured',
  'NamespaceNotAllowed',
  'ServiceNotWatched',
  'PodsNotListed',
  'EvictionsBlocked',
] as const;

export type RecoveryReport = ConditionReport<(typeof RECOVERY_REASONS)[number]>;

interface Seen {
  readonly services: readonly RecoveryService[];
  readonly restartsNodes: boolean;
  /** Of the chart. */
  readonly namespaces: readonly string[];
  /** By the name of an entry: for how long its watch has not been confirmed, milliseconds. */
  readonly staleForMs: ReadonlyMap<string, number>;
  /** Why the pods of something that has recovered cannot be listed. */
  readonly problem: string | undefined;
  /** What has a window now. */
  readonly recovered: readonly string[];
  /** Why no pod may be disrupted. */
  readonly obstacle: string | undefined;
  /** What has recovered and gets no window, since there are too many. */
  readonly left: readonly string[];
  /** By UID of the pod whose eviction is forbidden: what the API server says. */
  readonly forbidden: ReadonlyMap<string, { readonly namespace: string; readonly message: string }>;
  /** Nodes that have lost the control plane, of pods that would be evicted. */
  readonly lostNodes: readonly string[];
}

const IN_CHART = "the chart's value recovery.namespaces";

const MAX_NAMED = 5;

/** Undefined if recovery is not asked for. Its message stays the same while nothing changes. */
export function reportOf(seen: Seen): RecoveryReport | undefined {
  const { services, restartsNodes, namespaces, staleForMs, problem } = seen;
  if (services.length === 0 && !restartsNodes) return undefined;
  const blocked = whyBlocked(seen);
  if (blocked !== undefined) return { status: 'False', reason: 'EvictionsBlocked', message: blocked };
  const refused = services.filter(({ namespace }) => !namespaces.includes(namespace));
  const [first] = refused;
  if (first !== undefined) {
    const entries = refused.map(({ name, namespace }) => `${name} (namespace ${namespace})`).join(', ');
    const message = `These entries of spec.recovery.services have no effect, since ${IN_CHART} does not have their namespace: ${entries}. Add it there, or remove the entry`;
    return { status: 'False', reason: 'NamespaceNotAllowed', message };
  }
  if (restartsNodes && namespaces.length === 0) {
    const message = `spec.recovery.updatedNodes: Restart has no effect, since ${IN_CHART} is empty. Add the namespaces whose pods may be evicted`;
    return { status: 'False', reason: 'NamespaceNotAllowed', message };
  }
  const stale = [...staleForMs].filter(([, ms]) => ms >= WATCH_STALE_MS).map(([name]) => name);
  if (stale.length > 0) {
    const message = `The EndpointSlices of these entries of spec.recovery.services cannot be watched, or are more than ${MAX_SLICES}: ${stale.join(', ')}; the log of the controller says why`;
    return { status: 'False', reason: 'ServiceNotWatched', message };
  }
  if (problem !== undefined) return { status: 'False', reason: 'PodsNotListed', message: problem };
  const watched =
    services.length === 0 ? '' : `; watched are the Services of ${services.map(({ name }) => name).join(', ')}`;
  return { status: 'True', reason: 'AsConfigured', message: `Pods are evicted after a recovery${watched}` };
}

/** Why pods are not evicted although something has recovered. */
function whyBlocked({ recovered, obstacle, left, forbidden, lostNodes }: Seen): string | undefined {
  if (recovered.length === 0) return undefined;
  const names = namesOf(recovered, MAX_NAMED);
  if (obstacle !== undefined) return `No pod is evicted after the recovery of ${names}: ${obstacle}`;
  if (left.length > 0)
    return `No pod is evicted after the recovery of ${namesOf(left, MAX_NAMED)}: too many recoveries at once, more than ${MAX_RECOVERIES}`;
  const [first] = forbidden.values();
  const namespaces = [...new Set([...forbidden.values()].map(({ namespace }) => namespace))];
  if (first !== undefined)
    return (
      `Evictions in ${namesOf(namespaces, MAX_NAMED)} are forbidden after the recovery of ${names}: ${first.message}. If the ` +
      'Role brupop-controller-recovery is missing there, run helm upgrade; if admission denies them, change its rule'
    );
  if (lostNodes.length === 0) return undefined;
  return `The pods on ${namesOf(lostNodes, MAX_NAMED)} are not evicted after the recovery of ${names}: connectivity is lost there`;
}
