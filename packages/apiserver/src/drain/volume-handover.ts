import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainBlock, Handover } from '@brupop/shared/api/shadow';
import { type DrainPod, podKey } from '@brupop/shared/drain/pods';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';

/** What a handover is judged by. */
export interface HandoverView {
  /** All pods on the node. */
  readonly pods: readonly DrainPod[];
  /** True while a PersistentVolume is attached to the node although no pod there has it in use. */
  readonly isHeld: (volume: string) => boolean;
  /** The pod that has the name of the one that was evicted, wherever it is; undefined: none, or not known. */
  readonly successor: DrainPod | undefined;
  /** Epoch milliseconds. */
  readonly now: number;
}

type Limits = Pick<DrainSettings, 'volumeDetachTimeoutMs' | 'replacementTimeoutMs'>;

/** The handover of a pod that is evicted next. */
export function beginHandover(pod: DrainPod, volumes: readonly string[], now: number): Handover {
  const { uid } = pod.metadata;
  const since = rfc3339(now);
  return { pod: podKey(pod), podUID: uid, phase: 'Evicting', since, volumes, replaced: pod.stateful };
}

/** Where a handover stands now; undefined: it is over, and the next pod with volumes may go. */
export function nextHandover(handover: Handover, view: HandoverView, limits: Limits): Handover | undefined {
  switch (handover.phase) {
    case 'Evicting':
      return isOnNode(handover, view) ? handover : detaching(enter(handover, 'Detaching', view), view, limits);
    case 'Detaching':
      return detaching(handover, view, limits);
    default:
      return replacing(handover, view, limits);
  }
}

function detaching(handover: Handover, view: HandoverView, limits: Limits): Handover | undefined {
  const held = heldVolumes(handover, view).length > 0;
  if (held && !isOver(handover, view, limits.volumeDetachTimeoutMs)) return handover;
  return replacing(enter(handover, 'Replacing', view), view, limits);
}

function replacing(handover: Handover, view: HandoverView, limits: Limits): Handover | undefined {
  const waits = handover.replaced === true && !isReadyElsewhere(handover, view);
  return waits && !isOver(handover, view, limits.replacementTimeoutMs) ? handover : undefined;
}

function enter(handover: Handover, phase: Handover['phase'], { now }: HandoverView): Handover {
  return { ...handover, phase, since: rfc3339(now) };
}

/** The clocks of two replicas differ: a time that lies far ahead is as old as one far behind. */
function isOver({ since }: Handover, { now }: HandoverView, limitMs: number): boolean {
  return Math.abs(now - (parseTime(since) ?? 0)) >= limitMs;
}

function isOnNode({ podUID }: Handover, { pods }: HandoverView): boolean {
  return pods.some(({ metadata }) => metadata.uid === podUID);
}

function isReadyElsewhere({ podUID }: Handover, { successor, pods }: HandoverView): boolean {
  if (successor === undefined || successor.metadata.uid === podUID || !successor.ready) return false;
  return !pods.some(({ metadata }) => metadata.uid === successor.metadata.uid);
}

function heldVolumes({ volumes = [] }: Handover, { isHeld }: HandoverView): readonly string[] {
  return volumes.filter(isHeld);
}

/** What the handover makes the drain wait for beyond pods that are still there. */
export function handoverBlock(handover: Handover, view: HandoverView): readonly DrainBlock[] {
  const { pod, phase } = handover;
  if (phase === 'Detaching') {
    const names = heldVolumes(handover, view).join(', ');
    return [{ pod, reason: 'VolumeDetach', message: `its volumes are still attached to the node: ${names}` }];
  }
  if (phase === 'Replacing') {
    return [{ pod, reason: 'Replacement', message: 'the pod that takes its place is not ready on another node yet' }];
  }
  return [];
}
