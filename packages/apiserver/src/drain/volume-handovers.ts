import type { DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainBlock, Handover } from '@brupop/shared/api/shadow';
import { type DrainPod, hasVolumes, isTerminating } from '@brupop/shared/drain/pods';
import { type Clock, parseTime } from '@brupop/shared/runtime/clock';
import type { DrainView } from './cluster-view.ts';
import type { HandoverKeeper } from './drain-pass.ts';
import { EVICTION_LIMIT_MS } from './eviction.ts';
import { beginHandover, handoverBlock, type HandoverView, nextHandover } from './volume-handover.ts';

export interface VolumeHandoversOptions {
  readonly view: DrainView;
  readonly settings: DrainSettings;
  readonly clock: Clock;
  /** What an earlier pass has left. */
  readonly known: Handover | undefined;
  /** Writes it down for whoever runs the next pass. */
  readonly save: (handover: Handover | undefined) => Promise<void>;
  readonly signal: AbortSignal;
}

/** Pods with volumes go one at a time: each is gone, detached and, where it comes back, ready elsewhere before the next. */
export class VolumeHandovers implements HandoverKeeper {
  readonly #options: VolumeHandoversOptions;
  #current: Handover | undefined;
  /** It was begun by this pass. */
  #ours = false;

  constructor(options: VolumeHandoversOptions) {
    this.#options = options;
    this.#current = options.known;
  }

  get current(): Handover | undefined {
    return this.#current;
  }

  async pending(
    pods: readonly DrainPod[],
    isLeaving: (pod: DrainPod) => boolean,
  ): Promise<{ readonly pod: DrainPod | undefined } | undefined> {
    while (await this.#proceed());
    await this.#dropWhatStays(pods);
    const onTheWay = pods.filter((pod) => hasVolumes(pod) && isLeaving(pod));
    const [adopted] = onTheWay;
    const waits = this.#current !== undefined && this.#current.phase !== 'Evicting';
    if (waits) return { pod: undefined };
    const own = onTheWay.find(({ metadata }) => metadata.uid === this.#current?.podUID);
    // Whoever ended it: the next one waits for it all the same.
    if (own === undefined && adopted !== undefined) await this.#start(adopted);
    const pod = own ?? adopted;
    return pod === undefined ? undefined : { pod };
  }

  async begin(pod: DrainPod): Promise<boolean> {
    if (this.#current?.podUID === pod.metadata.uid) return true;
    if (this.#mayBeOnItsWay()) return false;
    await this.#start(pod);
    return true;
  }

  async #start(pod: DrainPod): Promise<void> {
    const { view, clock, signal } = this.#options;
    const volumes = await view.volumes.of(pod, signal);
    await this.#change(beginHandover(pod, volumes, clock.now()));
    this.#ours = true;
  }

  /** A pass of another replica that has lost its agent may still be asking for the pod that it has written down. */
  #mayBeOnItsWay(): boolean {
    const { since } = this.#current ?? {};
    const age = Math.abs(this.#options.clock.now() - (parseTime(since) ?? -Infinity));
    return !this.#ours && this.#current?.phase === 'Evicting' && age < EVICTION_LIMIT_MS;
  }

  /** The pod whose turn it was was refused, and is not to go any more. */
  async #dropWhatStays(pods: readonly DrainPod[]): Promise<void> {
    const { podUID, phase } = this.#current ?? {};
    const isIt = ({ metadata }: DrainPod): boolean => metadata.uid === podUID;
    const stays = this.#options.view.pods().some((pod) => isIt(pod) && !isTerminating(pod));
    if (phase === 'Evicting' && stays && !pods.some(isIt)) await this.#change(undefined);
  }

  blocks(): readonly DrainBlock[] {
    return this.#current === undefined ? [] : handoverBlock(this.#current, this.#view(this.#current));
  }

  /** True when it went a phase further, at most three times. */
  async #proceed(): Promise<boolean> {
    const before = this.#current;
    if (before === undefined) return false;
    const { view, settings, signal } = this.#options;
    const gone = !view.pods().some(({ metadata }) => metadata.uid === before.podUID);
    if (gone && before.phase !== 'Replacing') await view.needVolumes(before.volumes ?? [], signal);
    if (before.replaced === true && before.phase !== 'Evicting') await view.needSuccessor(before.pod, signal);
    const after = nextHandover(before, this.#view(before), settings);
    if (after !== before) await this.#change(after);
    return after !== before;
  }

  #view({ pod }: Handover): HandoverView {
    const { view, clock } = this.#options;
    return {
      pods: view.pods(),
      isHeld: (volume) => view.isHeld(volume),
      successor: view.successor(pod),
      now: clock.now(),
    };
  }

  async #change(handover: Handover | undefined): Promise<void> {
    await this.#options.save(handover);
    this.#current = handover;
  }
}

/** For pods that are deleted whatever follows. */
export const NO_HANDOVERS: HandoverKeeper = {
  pending: () => Promise.resolve(undefined),
  begin: () => Promise.resolve(true),
  blocks: () => [],
};
