import type { Address } from './service-environment.ts';
import { type Cut, TcpForwarder } from './tcp-forwarder.ts';

/**
 * The ways from each node to one Service: per node and port a listener on loopback, which can be
 * cut per node.
 */
export class NodeLinks {
  readonly #target: (port: string, node: string) => Address | undefined;
  /** By node, then by port name. */
  readonly #forwarders = new Map<string, Map<string, Promise<TcpForwarder>>>();
  readonly #cuts = new Map<string, Cut>();

  /** @param target - where a new connection goes; undefined resets it */
  constructor(target: (port: string, node: string) => Address | undefined) {
    this.#target = target;
  }

  /**
   * Where pods of the node reach a port of the Service (empty name: its only, unnamed one). The
   * same answer each time.
   */
  async address(node: string, port = ''): Promise<Address> {
    const ofNode = this.#forwarders.get(node) ?? new Map<string, Promise<TcpForwarder>>();
    this.#forwarders.set(node, ofNode);
    const found = ofNode.get(port) ?? this.#listen(node, port);
    ofNode.set(port, found);
    return (await found).address;
  }

  /** Cuts a node off from the Service until `heal`. */
  async cut(node: string, how: Cut = 'reset'): Promise<void> {
    this.#cuts.set(node, how);
    for (const forwarder of await this.#of(node)) forwarder.cut(how);
  }

  /** Makes open connections of a node hang without an end; new connections pass. */
  async strand(node: string): Promise<void> {
    for (const forwarder of await this.#of(node)) forwarder.strand();
  }

  async heal(node: string): Promise<void> {
    this.#cuts.delete(node);
    for (const forwarder of await this.#of(node)) forwarder.heal();
  }

  async stop(): Promise<void> {
    const all = await Promise.all([...this.#forwarders.keys()].map(async (node) => await this.#of(node)));
    await Promise.all(all.flat().map(async (forwarder) => await forwarder.stop()));
  }

  async #listen(node: string, port: string): Promise<TcpForwarder> {
    const forwarder = await TcpForwarder.start(() => this.#target(port, node));
    const how = this.#cuts.get(node);
    if (how !== undefined) forwarder.cut(how);
    return forwarder;
  }

  async #of(node: string): Promise<TcpForwarder[]> {
    const ofNode = this.#forwarders.get(node);
    return ofNode === undefined ? [] : await Promise.all(ofNode.values());
  }
}
