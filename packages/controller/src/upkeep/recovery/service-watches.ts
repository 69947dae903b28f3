import { isDeepStrictEqual } from 'node:util';
import type { RecoveryService } from '@brupop/shared/api/config-recovery';
import { ServiceWatch, type WatchOptions } from './service-watch.ts';

/** One watch for each named Service; an entry that changes gets a new one. */
export class ServiceWatches {
  readonly #options: WatchOptions;
  readonly #onRecovery: (name: string) => void;
  readonly #watches = new Map<string, { readonly target: object; readonly watch: ServiceWatch }>();

  /** `onRecovery` is called with the name of the entry. */
  constructor(options: WatchOptions, onRecovery: (name: string) => void) {
    this.#options = options;
    this.#onRecovery = onRecovery;
  }

  follow(services: readonly RecoveryService[]): void {
    const wanted = new Map(services.map((one) => [one.name, one]));
    for (const [name, { target, watch }] of this.#watches) {
      const one = wanted.get(name);
      if (one !== undefined && isDeepStrictEqual(target, targetOf(one))) continue;
      watch.stop();
      this.#watches.delete(name);
    }
    for (const [name, one] of wanted) {
      if (this.#watches.has(name)) continue;
      const watch = new ServiceWatch(this.#options, one, () => this.#onRecovery(name));
      this.#watches.set(name, { target: targetOf(one), watch });
    }
  }

  /** By the name of an entry: for how long its watch has not been confirmed, milliseconds. */
  staleForMs(): ReadonlyMap<string, number> {
    return new Map([...this.#watches].map(([name, { watch }]) => [name, watch.staleForMs]));
  }
}

function targetOf({ namespace, service }: RecoveryService): object {
  return { namespace, service };
}
