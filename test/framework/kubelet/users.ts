import { chmodSync } from 'node:fs';
import type { V1Container } from '@kubernetes/client-node';
import type { Pod } from './pod.ts';

/** The user and group of a container's process. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

/** Only root may start a process as another user, or give a file to one. */
export const canSwitchUser = process.getuid?.() === 0;

/**
 * The user that a container runs as: what its own security context says, else what that of the pod
 * says, else root. Undefined when this process is not root, so that everything runs as its user.
 */
export function userOf({ spec }: Pod, container: V1Container): User | undefined {
  if (!canSwitchUser) return undefined;
  const { securityContext: own } = container;
  return {
    uid: own?.runAsUser ?? spec.securityContext?.runAsUser ?? 0,
    gid: own?.runAsGroup ?? spec.securityContext?.runAsGroup ?? 0,
  };
}

/**
 * The user that owns the token files of a pod, which nobody else may read: the one that all its
 * containers run as. Source: kubelet pkg/volume/util, FsUserFrom.
 */
export function tokenOwner(pod: Pod): number | undefined {
  const users = pod.spec.containers.map(({ securityContext }) => securityContext?.runAsUser);
  const ids = new Set(users.map((uid) => uid ?? pod.spec.securityContext?.runAsUser));
  return canSwitchUser && ids.size === 1 ? [...ids][0] : undefined;
}

/** Lets other users reach what they may read in a temporary folder, without listing it. */
export function letThrough(folder: string): void {
  if (canSwitchUser) chmodSync(folder, 0o711);
}
