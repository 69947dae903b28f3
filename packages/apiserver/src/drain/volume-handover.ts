/**
 * Pods with volumes leave a node one at a time. Each passes through the phases of a handover, which
 * the shadow's `status.drain.handover` records, so that any replica can continue it:
 *
 *     Evicting ── the pod is gone ─▶ Detaching ── detached, or timeout ─▶ Replacing ── ready elsewhere, or timeout ─▶ over
 *
 * A handover is recorded before the eviction is requested. Only a pod of a StatefulSet has a replacement to wait for, and only
 * if it was Ready: one that was not may never be. One with a local volume is only ready again on this node. When one
 * replacement was not ready in time, no other one of its namespace is waited for in this drain (`status.drain.unreplaced`).
 * Otherwise a user of one namespace could let each drain end at its time limit, with the pods of all others evicted.
 */
import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainBlock, DrainStatus, Handover } from '@brupop/shared/api/shadow';
import { EVICTION_LIMIT_MS, type EvictionOutcome } from '@brupop/shared/drain/evictions';
import { type DrainPod, hasEnded, hasVolumes, isTerminating, podKey } from '@brupop/shared/drain/pods';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { PassContext } from './context.ts';
import type { DrainView } from './cluster-view.ts';
import type { DrainRecord } from './drain-record.ts';
import type { EvictionOrder } from './eviction-order.ts';

export interface HandoverView {
  readonly pods: readonly DrainPod[];
  /** True while a PersistentVolume is attached to the node and no pod there uses it. */
  readonly isHeld: (volume: string) => boolean;
  /** The pod that has the name of the evicted one, on any node. */
  readonly replacement: DrainPod | undefined;
  /** Epoch milliseconds. */
  readonly now: number;
}

type Limits = Pick<DrainSettings, 'volumeDetachTimeoutMs' | 'replacementTimeoutMs'>;

interface HandoverFacts {
  /** The namespaces in which no replacement is waited for. */
  readonly unreplaced?: DrainStatus['unreplaced'];
  /** A volume of the pod is on its node only. */
  readonly isLocal: boolean;
  /** Epoch milliseconds. */
  readonly now: number;
}

/** True for a pod that gets a replacement of its name. */
function mayBeReplaced(pod: DrainPod): boolean {
  // A pod that another actor has deleted may have been Ready.
  return pod.stateful && (pod.ready || isTerminating(pod));
}

/** The handover of a pod before its eviction. */
export function newHandover(
  pod: DrainPod,
  volumes: readonly string[],
  { unreplaced = [], isLocal, now }: HandoverFacts,
): Handover {
  const { uid } = pod.metadata;
  const replaced = mayBeReplaced(pod) && !isLocal && !unreplaced.includes(namespaceOf(podKey(pod)));
  return { pod: podKey(pod), podUID: uid, phase: 'Evicting', since: rfc3339(now), volumes, replaced };
}

/** The handover in its present phase; undefined when it is over. */
export function nextHandover(handover: Handover, view: HandoverView, limits: Limits): Handover | undefined {
  const { phase, replaced } = handover;
  const enter = (next: Handover['phase']): Handover | undefined =>
    nextHandover({ ...handover, phase: next, since: rfc3339(view.now) }, view, limits);
  if (phase === 'Evicting') return leftOf(view.pods, handover.podUID) !== undefined ? handover : enter('Detaching');
  if (phase === 'Detaching') {
    const waits = heldVolumes(handover, view).length > 0 && !isOver(handover, view, limits.volumeDetachTimeoutMs);
    return waits ? handover : enter('Replacing');
  }
  const waits =
    replaced === true && !isReplaced(handover, view) && !isOver(handover, view, limits.replacementTimeoutMs);
  return waits ? handover : undefined;
}

function namespaceOf(pod: string): string {
  return pod.slice(0, pod.indexOf('/'));
}

/** Returns the namespace whose replacement was not ready in time, if the handover has ended for that. */
export function unreplacedIn(before: Handover, after: Handover | undefined, view: HandoverView): string | undefined {
  const isLate = before.phase === 'Replacing' && after === undefined && before.replaced === true;
  return isLate && !isReplaced(before, view) ? namespaceOf(before.pod) : undefined;
}

/** The difference is absolute, since the clocks of two replicas differ. */
function isOver({ since }: Handover, { now }: HandoverView, limitMs: number): boolean {
  return Math.abs(now - (parseTime(since) ?? 0)) >= limitMs;
}

function has(pods: readonly DrainPod[], uid: string): boolean {
  return pods.some(({ metadata }) => metadata.uid === uid);
}

/** The pod, unless it {@link hasEnded}. */
function leftOf(pods: readonly DrainPod[], uid: string | undefined): DrainPod | undefined {
  return pods.find((pod) => pod.metadata.uid === uid && !hasEnded(pod));
}

/** True when a ready pod on another node has taken the name. */
function isReplaced({ podUID }: Handover, { replacement, pods }: HandoverView): boolean {
  if (replacement === undefined || replacement.metadata.uid === podUID || !replacement.ready) return false;
  return !has(pods, replacement.metadata.uid);
}

function heldVolumes({ volumes = [] }: Handover, { isHeld }: HandoverView): readonly string[] {
  return volumes.filter(isHeld);
}

/** What a handover waits for once its pod is gone. */
export function handoverBlock(handover: Handover, view: HandoverView): readonly DrainBlock[] {
  const { pod, phase } = handover;
  if (phase === 'Detaching') {
    const names = heldVolumes(handover, view).join(', ');
    return [{ pod, reason: 'VolumeDetach', message: `its volumes are still attached to the node: ${names}` }];
  }
  if (phase === 'Replacing') {
    return [{ pod, reason: 'Replacement', message: 'its replacement is not ready on another node yet' }];
  }
  return [];
}

/** The handovers of one pass. Each method throws KubeError and ApiError. */
export class VolumeHandovers {
  readonly #context: PassContext;
  readonly #view: DrainView;
  readonly #record: DrainRecord;
  /** Whether this pass has started the current handover. */
  #startedHere = false;
  /** UIDs of the pods whose latest eviction was refused. */
  readonly #refused = new Set<string>();

  constructor(context: PassContext, view: DrainView, record: DrainRecord) {
    this.#context = context;
    this.#view = view;
    this.#record = record;
  }

  get current(): Handover | undefined {
    return this.#record.current.handover;
  }

  /**
   * What the next pass continues. An eviction that was refused is not under way, so that one may begin with any pod. If there
   * is no other one, the record does not change: each change is a write.
   */
  get open(): Handover | undefined {
    const { current } = this;
    const pod = leftOf(this.#view.pods(), current?.podUID);
    const isRefused = current?.phase === 'Evicting' && this.#refused.has(current.podUID) && this.#refused.size > 1;
    return isRefused && pod !== undefined && !isTerminating(pod) ? undefined : current;
  }

  /**
   * Advances the current handover as far as possible. Returns undefined when there is nothing to
   * wait for, else the pod that is waited for unless it is gone.
   * @param pods - the pods to evict
   */
  async pending(
    pods: readonly DrainPod[],
    order: EvictionOrder,
  ): Promise<{ readonly pod: DrainPod | undefined } | undefined> {
    while (await this.#advance());
    await this.#dropExempt(pods);
    if (this.current !== undefined && this.current.phase !== 'Evicting') return { pod: undefined };
    const leaving = pods.filter((pod) => hasVolumes(pod) && order.isLeaving(pod));
    const own = leaving.find(({ metadata }) => metadata.uid === this.current?.podUID) ?? this.#terminating();
    const [adopted] = leaving;
    // Pods that another actor has deleted are waited for, too.
    if (own === undefined && adopted !== undefined) await this.#start(adopted);
    const pod = own ?? adopted;
    return pod === undefined ? undefined : { pod };
  }

  /** The recorded pod, also if it is not to be evicted any more, since it is terminating. */
  #terminating(): DrainPod | undefined {
    const pod = leftOf(this.#view.pods(), this.current?.podUID);
    return pod !== undefined && isTerminating(pod) ? pod : undefined;
  }

  /** Records that this pod is evicted next; false while the eviction of another one may be under way. */
  async start(pod: DrainPod): Promise<boolean> {
    if (this.current?.podUID === pod.metadata.uid) return true;
    if (this.#mayBeUnderWay()) return false;
    await this.#start(pod);
    return true;
  }

  /** Notes how kube-apiserver has responded. Without a response the eviction may be under way. */
  requested({ metadata }: DrainPod, outcome: EvictionOutcome): void {
    const isRefused = outcome.kind === 'blocked' && outcome.isUnknown !== true;
    if (isRefused) this.#refused.add(metadata.uid);
    else this.#refused.delete(metadata.uid);
  }

  blocks(): readonly DrainBlock[] {
    return this.current === undefined ? [] : handoverBlock(this.current, this.#handoverView(this.current));
  }

  async #start(pod: DrainPod): Promise<void> {
    const { clock, signal } = this.#context;
    const volumes = await this.#view.volumes.of(pod, signal);
    const isLocal = mayBeReplaced(pod) && (await this.#view.areLocal(volumes));
    const { unreplaced } = this.#record.current;
    await this.#record.saveHandover(newHandover(pod, volumes, { unreplaced, isLocal, now: clock.now() }));
    this.#startedHere = true;
  }

  /** Another replica that has lost the agent's connection may still be evicting the recorded pod. */
  #mayBeUnderWay(): boolean {
    const { since, phase } = this.current ?? {};
    const age = Math.abs(this.#context.clock.now() - (parseTime(since) ?? -Infinity));
    return !this.#startedHere && phase === 'Evicting' && age < EVICTION_LIMIT_MS;
  }

  /** Drops the handover of a pod that is not to be evicted any more. */
  async #dropExempt(pods: readonly DrainPod[]): Promise<void> {
    const { podUID = '', phase } = this.current ?? {};
    const isLeft = this.#view.pods().some((pod) => pod.metadata.uid === podUID && !isTerminating(pod));
    if (phase === 'Evicting' && isLeft && !has(pods, podUID)) await this.#record.saveHandover(undefined);
  }

  /** True when the phase has changed. */
  async #advance(): Promise<boolean> {
    const before = this.current;
    if (before === undefined) return false;
    const view = this.#view;
    const gone = leftOf(view.pods(), before.podUID) === undefined;
    if (gone && before.phase !== 'Replacing') await view.needVolumes(before.pod, before.volumes ?? []);
    if (before.replaced === true && before.phase !== 'Evicting') await view.needPod(before.pod);
    const handoverView = this.#handoverView(before);
    const after = nextHandover(before, handoverView, this.#context.settings);
    if (after === before) return false;
    await this.#record.saveHandover(after, unreplacedIn(before, after, handoverView));
    return true;
  }

  #handoverView({ pod }: Handover): HandoverView {
    const view = this.#view;
    return { pods: view.pods(), isHeld: view.held(pod), replacement: view.pod(pod), now: this.#context.clock.now() };
  }
}
