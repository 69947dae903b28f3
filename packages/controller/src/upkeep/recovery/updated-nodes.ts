/**
 * Which of the nodes that run their new version are looked at next, until the window of each is open, and whether one is back
 * after its update, so that the pods on it may be restarted.
 */
import type { ReflectorEvent } from '@brupop/shared/kube/reflector';
import { parseTime } from '@brupop/shared/runtime/clock';
import { nodeOf, type ShadowView } from '../../cluster/shadow.ts';
import type { UpdatedNode } from '../../cluster/upkeep-view.ts';
import { isSame, type Recovery } from './decide.ts';
import type { ListedPod } from './pods.ts';

/** Nodes that are looked at in one run. */
const MAX_NODES = 10;

export class UpdatedNodes {
  /** By node: the attempt for which its window was opened. */
  readonly #opened = new Map<string, string>();
  /** Those that were looked at, the last one at the end. */
  readonly #seen = new Set<string>();

  /** The nodes that are Ready and have no window yet, at most {@link MAX_NODES}, each in its turn. */
  next(monitored: readonly UpdatedNode[], recoveries: readonly Recovery[]): readonly UpdatedNode[] {
    const names = new Set(monitored.map(({ name }) => name));
    for (const name of this.#opened.keys()) if (!names.has(name)) this.#opened.delete(name);
    for (const name of this.#seen) if (!names.has(name)) this.#seen.delete(name);
    const turns = new Map([...this.#seen].map((name, index) => [name, index]));
    const turnOf = ({ name }: UpdatedNode): number => turns.get(name) ?? -1;
    const isOpened = (one: UpdatedNode): boolean => {
      // By this leader, or by a former one.
      const known = recoveries.find((other) => isSame(other, { kind: 'Node', name: one.name }));
      const isRecorded = known !== undefined && known.since >= (parseTime(attemptOf(one)) ?? Infinity);
      return isRecorded || this.#opened.get(one.name) === attemptOf(one);
    };
    const due = monitored
      .filter((one) => one.node.ready && !isOpened(one))
      .toSorted((a, b) => turnOf(a) - turnOf(b))
      .slice(0, MAX_NODES);
    for (const { name } of due) {
      this.#seen.delete(name);
      this.#seen.add(name);
    }
    return due;
  }

  opened(one: UpdatedNode): void {
    this.#opened.set(one.name, attemptOf(one));
  }

  clear(): void {
    this.#opened.clear();
    this.#seen.clear();
  }
}

/** Since when the node is monitored: it names the attempt. */
function attemptOf({ shadow }: UpdatedNode): string {
  return shadow.spec.state_transition_timestamp ?? '';
}

/** The node is Ready, and so are the DaemonSets that `spec.health` counts, but for those that were not Ready before. */
export function isBack(
  { node, shadow, policy: { health } }: Omit<UpdatedNode, 'name'>,
  pods: readonly Pick<ListedPod, 'unreadyDaemonSet'>[],
  ownNamespace: string,
): boolean {
  if (!node.ready) return false;
  if (health.daemonSets === 'Ignored') return true;
  const { unreadyBefore: before = [] } = shadow.record;
  const trusted = [ownNamespace, ...health.trustedNamespaces].filter(
    (name) => !health.ignoredNamespaces.includes(name),
  );
  const counts = (daemonSet: string): boolean => trusted.includes(daemonSet.split('/')[0] ?? '');
  return pods.every(({ unreadyDaemonSet: one }) => one === undefined || !counts(one) || before.includes(one));
}

/** The node whose update has just succeeded. */
export function succeededIn({ type, object, old }: ReflectorEvent<ShadowView>): string | undefined {
  const [now, before] = [object, old].map((one) => one?.record.succeeded);
  const isNew = type === 'Modified' && now !== undefined && (now.at !== before?.at || now.version !== before.version);
  return isNew && old?.spec.state === 'MonitoringUpdate' ? nodeOf(object) : undefined;
}
