import { isIPv4 } from 'node:net';
import { LruMap } from './limits.ts';

/** Returns an IPv4 address in its short form: a dual-stack socket shows it as `::ffff:10.0.0.1`. */
export function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** Returns the /24 of an IPv4 address or the /64 of an IPv6 address, which a machine may own as a whole. */
export function networkOf(address: string): string {
  if (isIPv4(address)) return `${address.split('.').slice(0, 3).join('.')}.0/24`;
  const [left = [], right = []] = address.split('::').map((half) => half.split(':').filter((group) => group !== ''));
  const zeros = Array.from({ length: Math.max(0, 8 - left.length - right.length) }, () => '0');
  return `${[...left, ...zeros, ...right].slice(0, 4).join(':')}::/64`;
}

/** A node has one agent, which has one address of each family. */
const ADDRESSES_OF_NODE = 2;

/** The addresses from which agents have called: the latest two of each node. */
export class CallerAddresses {
  readonly #byNode: LruMap<readonly string[]>;
  /** The latest node that called from an address. */
  readonly #nodes: LruMap<string>;

  /** @param size - how many nodes and addresses are stored */
  constructor(size: number) {
    this.#byNode = new LruMap(size);
    this.#nodes = new LruMap(size);
  }

  add(address: string, node: string): void {
    const others = (this.#byNode.get(node) ?? []).filter((other) => other !== address);
    this.#byNode.set(node, [address, ...others].slice(0, ADDRESSES_OF_NODE));
    this.#nodes.set(address, node);
    for (const replaced of others.slice(ADDRESSES_OF_NODE - 1))
      if (this.#nodes.get(replaced) === node) this.#nodes.delete(replaced);
  }

  has(address: string): boolean {
    return this.#nodes.get(address) !== undefined;
  }
}
