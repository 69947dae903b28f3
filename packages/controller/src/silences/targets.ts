/**
 * The members of an Alertmanager cluster: where they are, and one after the other until one works. They replicate silences
 * among themselves, so each whole exchange, such as a look-up and what follows from it, is with one member.
 */
import type { SilenceSettings } from '@brupop/shared/api/config-silences';
import { type DeliveryOptions, readSecret } from '../notify/deliver.ts';
import { DeliveryError, type SecretData, type Target, targetOf } from '../notify/target.ts';

/** The Secret is read once for what is due at the same time. */
const KEEP_MS = 60_000;

interface Known {
  readonly settings: SilenceSettings;
  readonly targets: readonly Target[];
  /** Monotonic milliseconds. */
  readonly readAt: number;
}

export class Targets {
  readonly #options: DeliveryOptions;
  #known: Known | undefined;
  /** The one that worked last. */
  #preferred = 0;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  /** Throws DeliveryError if no member works, or the reason of `signal`. */
  async withAny<T>(settings: SilenceSettings, signal: AbortSignal, work: (target: Target) => Promise<T>): Promise<T> {
    const targets = await this.#find(settings, signal);
    const first = this.#preferred % targets.length;
    const failures: DeliveryError[] = [];
    for (const [index, target] of [...targets.entries()].toSorted(([a], [b]) => rank(a, first) - rank(b, first))) {
      try {
        const result = await work(target);
        this.#preferred = index;
        return result;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof DeliveryError)) throw error;
        failures.push(new DeliveryError(error.reason, whichOf(error.message, index, targets.length), error));
      }
    }
    this.#known = undefined;
    throw combined(failures);
  }

  async #find(settings: SilenceSettings, signal: AbortSignal): Promise<readonly Target[]> {
    const { clock } = this.#options;
    const known = this.#known;
    const isFresh = known?.settings === settings && clock.monotonic() - known.readAt < KEEP_MS;
    if (isFresh) return known.targets;
    const data = await readSecret(settings, this.#options, signal);
    const targets = targetsOf(settings, data, this.#options.namespace);
    this.#known = { settings, targets, readAt: clock.monotonic() };
    return targets;
  }
}

function rank(index: number, first: number): number {
  return index === first ? -1 : index;
}

function whichOf(message: string, index: number, count: number): string {
  return count === 1 ? message : `address ${index + 1} of ${count}: ${message}`;
}

function combined([first, ...others]: readonly DeliveryError[]): DeliveryError {
  if (first === undefined) return new DeliveryError('Address', 'expected an address of Alertmanager, found none');
  const message = [first, ...others].map((one) => one.message).join('; ');
  return new DeliveryError(first.reason, message, first);
}

/** The addresses are in the configuration or, one a line, in the Secret. Throws DeliveryError as {@link targetOf}. */
export function targetsOf(
  { addresses, secretName, allowHTTP }: Pick<SilenceSettings, 'addresses' | 'secretName' | 'allowHTTP'>,
  data: SecretData | undefined,
  namespace: string,
): Target[] {
  const lines = (data?.['address'] ?? '').split('\n').map((line) => line.trim());
  const hidden = lines.filter((line) => line !== '').map((address) => ({ ...data, address }));
  const open = addresses.length > 0 ? addresses : [undefined];
  return open.flatMap((address) =>
    (hidden.length > 0 ? hidden : [data]).map((one) =>
      targetOf({ address, secretName, allowHTTP }, one, { namespace }),
    ),
  );
}
