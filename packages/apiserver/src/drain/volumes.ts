/** What a drain must know of volumes: which PersistentVolumes pods use, and which are attached where. */
import type { KubernetesObject } from '@brupop/shared/api/meta';
import { type DrainPod, referenceIn } from '@brupop/shared/drain/pods';
import type { KubeClient } from '@brupop/shared/kube/client';
import { canBeName, corePath, groupPath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import type { DrainContext } from './context.ts';

interface Claim {
  readonly spec?: { readonly volumeName?: string };
}

/** Of a node selector. */
interface Requirement {
  readonly operator: string;
  readonly values?: readonly string[];
}

/** Its requirements are all to be met. */
interface Term {
  readonly matchExpressions?: readonly Requirement[];
  readonly matchFields?: readonly Requirement[];
}

interface Volume {
  readonly spec?: {
    readonly csi?: { readonly driver: string; readonly volumeHandle: string };
    readonly nodeAffinity?: { readonly required?: { readonly nodeSelectorTerms?: readonly Term[] } };
  };
}

/** What is kept of a PersistentVolume. */
interface Found {
  readonly nameOnNode: string | undefined;
  /** The only values that labels may have, by the terms of its node affinity, one of which is to be met. */
  readonly requiredValues: readonly (readonly string[])[];
}

/** Of a PersistentVolume. */
const MAX_NAME = 253;
/** Anyone may bind pods to a node that name claims which do not exist; real nodes attach far fewer. */
const MAX_CLAIMS = 1_000;

/** Looks up PersistentVolumes and remembers the answers. All methods throw KubeError. */
export class Volumes {
  readonly #client: KubeClient;
  /** By claim, as `namespace/name`; empty: none. */
  readonly #volumes = new Map<string, string>();
  /** The requests under way, by claim. */
  readonly #asked = new Map<string, Promise<void>>();
  readonly #found = new Map<string, Found>();

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** The PersistentVolumes of a pod's claims; a claim that is gone or not bound has none. */
  async of(pod: DrainPod, signal: AbortSignal): Promise<readonly string[]> {
    await this.learnClaims([pod], signal);
    return this.known(pod);
  }

  /** Looks up what `known` returns for these pods: of more than MAX_CLAIMS claims, for the first ones. */
  async learnClaims(pods: readonly DrainPod[], signal: AbortSignal): Promise<void> {
    const keys = new Set<string>();
    for (const pod of pods) for (const claim of pod.claims) keys.add(claimKey(pod, claim));
    const unknown = [...keys].slice(0, MAX_CLAIMS).filter((key) => !this.#volumes.has(key));
    await forEachOf(unknown, (key) => this.#learnOnce(key, signal));
  }

  async #learnOnce(key: string, signal: AbortSignal): Promise<void> {
    const asked = this.#asked.get(key) ?? this.#learnClaim(key, signal).finally(() => this.#asked.delete(key));
    this.#asked.set(key, asked);
    await asked;
  }

  /** The same, of what `of` has looked up before. */
  known(pod: DrainPod): readonly string[] {
    return pod.claims.map((claim) => this.#volumes.get(claimKey(pod, claim)) ?? '').filter((name) => name !== '');
  }

  async #learnClaim(key: string, signal: AbortSignal): Promise<void> {
    const { namespace, name } = referenceIn(key);
    const path = corePath('persistentvolumeclaims', { namespace, name });
    const claim = canBeName(name) ? await this.#client.find<Claim>(path, signal) : undefined;
    const { volumeName = '' } = claim?.spec ?? {};
    // Anyone may write a claim that names a volume that does not exist; names of existing volumes are short.
    this.#volumes.set(key, volumeName.length <= MAX_NAME && canBeName(volumeName) ? volumeName : '');
  }

  /** Looks up what `nameOnNode` and `isOnlyOn` return for these volumes. */
  async learn(volumes: readonly string[], signal: AbortSignal): Promise<void> {
    const unknown = volumes.filter((name) => !this.#found.has(name));
    const learnOne = async (name: string): Promise<void> => {
      const volume = await this.#client.find<Volume>(corePath('persistentvolumes', { name }), signal);
      this.#found.set(name, foundIn(volume));
    };
    await forEachOf(unknown, learnOne);
  }

  /** The name in `node.status.volumesAttached` (pkg/volume/util/util.go of Kubernetes); undefined: none or not learnt. */
  nameOnNode(volume: string): string | undefined {
    return this.#found.get(volume)?.nameOnNode;
  }

  /**
   * True if the node affinity of the volume allows this node only, as that of a local volume does; false also
   * if that is not learnt.
   * @param names - of that node: its name, and its label `kubernetes.io/hostname`
   */
  isOnlyOn(volume: string, names: readonly string[]): boolean {
    const { requiredValues = [] } = this.#found.get(volume) ?? {};
    return requiredValues.length > 0 && requiredValues.every((values) => values.some((value) => names.includes(value)));
  }
}

function foundIn({ spec: { csi, nodeAffinity } = {} }: Volume = {}): Found {
  const terms = nodeAffinity?.required?.nodeSelectorTerms ?? [];
  return {
    nameOnNode: csi && `kubernetes.io/csi/${csi.driver}^${csi.volumeHandle}`,
    requiredValues: terms.map(({ matchExpressions = [], matchFields = [] }) =>
      [...matchExpressions, ...matchFields].flatMap(({ operator, values = [] }) =>
        operator === 'In' && values.length === 1 ? values : [],
      ),
    ),
  };
}

function claimKey({ metadata: { namespace = '' } }: DrainPod, claim: string): string {
  return `${namespace}/${claim}`;
}

export interface Attachment extends KubernetesObject {
  readonly node: string;
  /** Name of the PersistentVolume; undefined for an inline volume. */
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

/** How long the watch continues after its last use. */
const IDLE_MS = 120_000;

/**
 * The VolumeAttachments of the cluster, which no selector limits to a node: one watch for all drains
 * of this replica, only while one of them needs it.
 */
export class Attachments {
  readonly #context: DrainContext;
  #watch: { readonly reflector: Reflector<Attachment>; readonly end: AbortController } | undefined;
  #cancelIdle: () => void = () => undefined;

  constructor(context: DrainContext) {
    this.#context = context;
  }

  /** Returns the watch, which may not be synced yet, and keeps it for another IDLE_MS. */
  watch(): Reflector<Attachment> {
    this.#cancelIdle();
    this.#cancelIdle = this.#context.clock.after(IDLE_MS, () => {
      this.#watch?.end.abort();
      this.#watch = undefined;
    });
    this.#watch ??= this.#start();
    return this.#watch.reflector;
  }

  #start(): { readonly reflector: Reflector<Attachment>; readonly end: AbortController } {
    const { client, clock, log, signal } = this.#context;
    const path = groupPath('storage.k8s.io/v1', 'volumeattachments');
    const reflector = new Reflector({ client, path, slim: slimAttachment, clock, log, name: 'volume attachments' });
    const end = new AbortController();
    void reflector.run(AbortSignal.any([signal, end.signal]));
    return { reflector, end };
  }
}
