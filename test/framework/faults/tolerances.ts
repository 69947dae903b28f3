import { setTimeout as sleep } from 'node:timers/promises';
import type { Observer } from '../fleet/observer.ts';
import { type Fault, TAKES_PODS_DOWN } from './fault.ts';

/** Until Kubernetes has noticed that a host is up again. */
const AFTERMATH_MS = 8_000;

/** Makes an observer tolerate the consequences of failing hosts. */
export class Tolerances {
  readonly #observer: Observer;
  #failing = 0;

  constructor(observer: Observer) {
    this.#observer = observer;
  }

  /**
   * Runs `body`, which injects the fault, and tolerates its consequences for a while after its end;
   * does not wait for that.
   */
  async during<T>(fault: Fault, body: () => Promise<T>): Promise<T> {
    if (!TAKES_PODS_DOWN.has(fault.kind)) return await body();
    this.#count(1);
    try {
      return await body();
    } finally {
      void sleep(AFTERMATH_MS, undefined, { ref: false }).then(() => this.#count(-1));
    }
  }

  #count(change: 1 | -1): void {
    this.#failing += change;
    this.#observer.hostsFail = this.#failing > 0;
  }
}
