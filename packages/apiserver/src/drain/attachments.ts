import type { KubeClient } from '@brupop/shared/kube/client';
import { groupPath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';

/** A VolumeAttachment, cut to what it attaches where. */
export interface Attachment extends KubernetesObject {
  readonly node: string;
  /** Name of the PersistentVolume; undefined for a volume that a pod spells out. */
  readonly volume: string | undefined;
}

interface RawAttachment extends KubernetesObject {
  readonly spec: { readonly nodeName: string; readonly source: { readonly persistentVolumeName?: string } };
}

function slimAttachment(raw: unknown): Attachment {
  const { metadata, spec } = raw as RawAttachment;
  const { name, uid, resourceVersion } = metadata;
  return { metadata: { name, uid, resourceVersion }, node: spec.nodeName, volume: spec.source.persistentVolumeName };
}

export interface AttachmentsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface Watch {
  readonly reflector: Reflector<Attachment>;
  readonly end: AbortController;
}

/** After so long without a drain that waits for a volume nobody watches any more. */
const IDLE_MS = 120_000;

/** The VolumeAttachments of the cluster, which cannot be selected by node: one watch for all drains of a replica, while they need it. */
export class Attachments {
  readonly #options: AttachmentsOptions;
  #watch: Watch | undefined;
  #cancelIdle: () => void = () => undefined;

  constructor(options: AttachmentsOptions) {
    this.#options = options;
  }

  /** The watch, perhaps not filled yet. Asked for again and again it stays. */
  need(): Reflector<Attachment> {
    this.#cancelIdle();
    this.#cancelIdle = this.#options.clock.after(IDLE_MS, () => this.#stop());
    this.#watch ??= this.#start();
    return this.#watch.reflector;
  }

  #start(): Watch {
    const { client, clock, log, signal } = this.#options;
    const path = groupPath('storage.k8s.io/v1', 'volumeattachments');
    const reflector = new Reflector({ client, path, slim: slimAttachment, clock, log, name: 'volume attachments' });
    const end = new AbortController();
    // It resolves whatever happens: a reflector tells its errors to the log.
    void reflector.run(AbortSignal.any([signal, end.signal]));
    return { reflector, end };
  }

  #stop(): void {
    this.#watch?.end.abort();
    this.#watch = undefined;
  }
}
