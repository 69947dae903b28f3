/** The pods of all open windows that wait in CrashLoopBackOff. */
import type { RecoveryService } from '@brupop/shared/api/config-recovery';
import type { Clock } from '@brupop/shared/runtime/clock';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import type { UpkeepView } from '../../cluster/upkeep-view.ts';
import { type Eviction, listed, openIn, type RecoveryState, type Scope } from './decide.ts';
import type { PodList, PodLookups } from './lookups.ts';

interface ScanOptions {
  readonly lookups: PodLookups;
  readonly clock: Clock;
  readonly services: readonly RecoveryService[];
  /** By node: those that have just been listed. */
  readonly lists: ReadonlyMap<string, PodList>;
  /** Whose pods may be evicted. */
  readonly namespaces: readonly string[];
  readonly upkeep: Pick<UpkeepView, 'isLost' | 'keepsEmptyDirs'>;
  readonly signal: AbortSignal;
}

interface Scan {
  /** Without the pods that are gone. */
  readonly state: RecoveryState;
  readonly crashing: readonly Eviction[];
  /** Whose pods are left, since connectivity is lost there. */
  readonly lostNodes: readonly string[];
}

export async function scan(before: RecoveryState, options: ScanOptions): Promise<Scan> {
  const { clock, namespaces, upkeep } = options;
  const crashing: Eviction[] = [];
  const lostNodes = new Set<string>();
  const open = openIn(before, clock.now());
  const found = new Map<Scope, PodList>();
  // One that takes long must not make the lists of the others old.
  await forEachOf(open, async (scope) => {
    const list = await podsOf(scope, options);
    if (list !== undefined) found.set(scope, list);
  });
  let state = before;
  for (const [scope, { pods, listedAt }] of found) {
    state = listed(state, scope, new Set(pods.map(({ uid }) => uid)), clock.now());
    for (const pod of pods.flatMap((one) => one.crashing ?? [])) {
      if (!namespaces.includes(pod.namespace) || (pod.emptyDir === true && upkeep.keepsEmptyDirs(pod.node))) continue;
      if (upkeep.isLost(pod.node)) lostNodes.add(pod.node);
      else crashing.push({ scope, pod, listedAt });
    }
  }
  return { state, crashing, lostNodes: [...lostNodes] };
}

/** Undefined if they cannot be listed, or are no longer asked for. */
async function podsOf(scope: Scope, { lookups, services, lists, signal }: ScanOptions): Promise<PodList | undefined> {
  if (scope.kind === 'Node') return lists.get(scope.name) ?? (await lookups.onNode(scope, signal));
  const service = services.find(({ name }) => name === scope.name);
  return service && (await lookups.ofService(scope, service, signal));
}
