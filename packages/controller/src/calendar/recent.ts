/** Values that are dear to make and follow from their key alone. Keeps those of the `size` keys asked for last. */
export class Recent<K, V> {
  readonly #values = new Map<K, V>();
  readonly #size: number;

  constructor(size: number) {
    this.#size = size;
  }

  /** The value of `key`, made when it is not kept. */
  get(key: K, make: () => V): V {
    const value = this.#values.get(key) ?? make();
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size > this.#size) this.#forgetOldest();
    return value;
  }

  #forgetOldest(): void {
    for (const key of this.#values.keys()) {
      this.#values.delete(key);
      return;
    }
  }
}
