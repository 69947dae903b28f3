/**
 * Watches the EndpointSlices of one Service, and reports when it goes from no ready endpoint to at least one:
 *
 *     unknown -- first list --> down or up;   down -- an endpoint is ready --> up, reported;   up -- none is --> down
 *
 * What the first list shows is no recovery. Later lists, after a watch that cannot go on, count as a whole. While there are too many
 * slices it is unknown again.
 */
import type { RecoveryService } from '@brupop/shared/api/config-recovery';
import type { KubernetesObject } from '@brupop/shared/api/meta';
import type { KubeClient } from '@brupop/shared/kube/client';
import { groupPath } from '@brupop/shared/kube/paths';
import { Reflector } from '@brupop/shared/kube/reflector';
import type { Clock } from '@brupop/shared/runtime/clock';
import type { Logger } from '@brupop/shared/runtime/log';

interface WatchOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onRestart: (resource: string) => void;
}

interface Slice extends KubernetesObject {
  /** Its endpoints that are ready. */
  readonly ready: number;
}

interface RawSlice extends KubernetesObject {
  readonly endpoints?:
    | readonly { readonly conditions?: { readonly ready?: boolean; readonly serving?: boolean } }[]
    | null;
}

const ENDPOINT_SLICES = 'endpointslices';
/** A slice has at most 1,000 endpoints, and a Service far fewer slices. */
export const MAX_SLICES = 1_000;

class ServiceWatch {
  readonly #reflector: Reflector<Slice>;
  readonly #end = new AbortController();
  readonly #startedAt: number;
  readonly #clock: Clock;
  readonly #onRecovery: () => void;
  /** Ready endpoints; undefined before the first list. */
  #ready: number | undefined;

  constructor(options: WatchOptions, { namespace, service }: RecoveryService, onRecovery: () => void) {
    this.#clock = options.clock;
    this.#startedAt = options.clock.monotonic();
    this.#onRecovery = onRecovery;
    this.#reflector = new Reflector<Slice>({
      ...options,
      name: ENDPOINT_SLICES,
      path: groupPath('discovery.k8s.io/v1', ENDPOINT_SLICES, { namespace }),
      query: { labelSelector: `kubernetes.io/service-name=${service}` },
      slim: readSlice,
      maxItems: MAX_SLICES,
      limits: { maxPerNamespace: MAX_SLICES, maxTotal: MAX_SLICES },
    });
    const { signal } = this.#end;
    // After all changes of a list, which replaces one slice after the other.
    this.#reflector.subscribe(() => queueMicrotask(() => this.#count()));
    void this.#reflector.waitSynced(signal).then(
      () => this.#count(),
      () => undefined,
    );
    void this.#reflector.run(signal);
  }

  /** For how long the watch has not been confirmed, milliseconds. */
  get staleForMs(): number {
    if (this.#isOverfull) return Infinity;
    return this.#reflector.synced ? this.#reflector.idleForMs() : this.#clock.monotonic() - this.#startedAt;
  }

  get #isOverfull(): boolean {
    return this.#reflector.overfull.size > 0;
  }

  stop(): void {
    this.#end.abort();
  }

  #count(): void {
    if (!this.#reflector.synced || this.#end.signal.aborted) return;
    if (this.#isOverfull) {
      this.#ready = undefined;
      return;
    }
    const ready = this.#reflector.list().reduce((sum, slice) => sum + slice.ready, 0);
    const hasRecovered = this.#ready === 0 && ready > 0;
    this.#ready = ready;
    if (hasRecovered) this.#onRecovery();
  }
}

/**
 * Without a condition an endpoint counts as ready and serving (discovery/v1). With `publishNotReadyAddresses` each endpoint is ready,
 * and only `serving` says whether its pod is.
 */
function readSlice(raw: unknown): Slice {
  const { metadata, endpoints } = raw as RawSlice;
  const { name, namespace = '', uid, resourceVersion } = metadata;
  const ready = (endpoints ?? []).filter(
    ({ conditions }) => conditions?.ready !== false && conditions?.serving !== false,
  ).length;
  return { metadata: { name, namespace, uid, resourceVersion }, ready };
}

/** One watch for each named Service; an entry that changes gets a new one. */
export class ServiceWatches {
  readonly #options: WatchOptions;
  readonly #onRecovery: (name: string) => void;
  readonly #watches = new Map<string, { readonly of: RecoveryService; readonly watch: ServiceWatch }>();

  /** `onRecovery` is called with the name of the entry. */
  constructor(options: WatchOptions, onRecovery: (name: string) => void) {
    this.#options = options;
    this.#onRecovery = onRecovery;
  }

  follow(services: readonly RecoveryService[]): void {
    const wanted = new Map(services.map((one) => [one.name, one]));
    for (const [name, { of, watch }] of this.#watches) {
      const one = wanted.get(name);
      if (one?.namespace === of.namespace && one.service === of.service) continue;
      watch.stop();
      this.#watches.delete(name);
    }
    for (const [name, one] of wanted) {
      if (this.#watches.has(name)) continue;
      const watch = new ServiceWatch(this.#options, one, () => this.#onRecovery(name));
      this.#watches.set(name, { of: one, watch });
    }
  }

  /** By the name of an entry: for how long its watch has not been confirmed, milliseconds. */
  staleForMs(): ReadonlyMap<string, number> {
    return new Map([...this.#watches].map(([name, { watch }]) => [name, watch.staleForMs]));
  }
}
