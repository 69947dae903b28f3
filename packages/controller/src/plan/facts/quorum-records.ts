/**
 * What the annotation `quorum-members` of a shadow says: the members that were on its node when its update started. Their
 * hooks run before the drain, and they have to be Ready again after it.
 */
import type { Quorum } from '@brupop/shared/api/config-quorums';
import { QUORUM_MEMBERS_ANNOTATION } from '@brupop/shared/api/names';
import type { ShadowView } from '../../cluster/shadow.ts';
import type { Member } from './quorum-members.ts';

interface RecordedMember {
  /** Name of the set. */
  readonly quorum: string;
  /** Without its namespace, which is that of the set. */
  readonly pod: string;
}

const MAX_RECORDED = 50;

export function recordedMembers({ metadata: { annotations = {} } }: ShadowView): RecordedMember[] {
  return (annotations[QUORUM_MEMBERS_ANNOTATION] ?? '').split(',').flatMap((entry) => {
    const [quorum = '', pod = ''] = entry.split('=');
    return pod === '' ? [] : [{ quorum, pod }];
  });
}

/** null: the node has no member. */
export function recordOfMembers(
  quorums: readonly Quorum[],
  membersOf: (quorum: Quorum) => readonly Member[],
): string | null {
  const found = quorums.flatMap((quorum) =>
    membersOf(quorum).map(({ pod }) => `${quorum.name}=${pod.slice(quorum.namespace.length + 1)}`),
  );
  return found.length === 0 ? null : found.slice(0, MAX_RECORDED).join(',');
}
