/** Whether a node is back after its update, so that the pods on it may be restarted. */
import type { ReflectorEvent } from '@brupop/shared/kube/reflector';
import { parseTime } from '@brupop/shared/runtime/clock';
import { nodeOf, type ShadowView } from '../../cluster/shadow.ts';
import type { UpdatedNode } from '../../cluster/upkeep-view.ts';
import type { Recovery } from './decide.ts';
import type { ListedPod } from './pods.ts';

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

/** Since when the node is monitored: it names the attempt. */
export function attemptOf({ shadow }: Pick<UpdatedNode, 'shadow'>): string {
  return shadow.spec.state_transition_timestamp ?? '';
}

/** Whether a former leader has opened the window for this attempt. */
export function isOpenedFor(one: Pick<UpdatedNode, 'shadow'>, known: Pick<Recovery, 'since'> | undefined): boolean {
  return known !== undefined && known.since >= (parseTime(attemptOf(one)) ?? Infinity);
}
