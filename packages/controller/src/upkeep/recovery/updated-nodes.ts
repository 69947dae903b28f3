/** Which of the nodes that run their new version are looked at next, until the window of each is open. */
import type { UpdatedNode } from '../../cluster/upkeep-view.ts';
import { isSame, type Recovery } from './decide.ts';
import { attemptOf, isOpenedFor } from './nodes.ts';

/** Nodes that are looked at in one run. */
const MAX_NODES = 10;

export class UpdatedNodes {
  /** By node: the attempt for which its window was opened. */
  readonly #opened = new Map<string, string>();
  /** Those that were looked at, the last one at the end. */
  readonly #seen = new Set<string>();

  /** The nodes that are Ready and have no window yet, at most {@link MAX_NODES}, each in its turn. */
  next(monitored: readonly UpdatedNode[], recoveries: readonly Recovery[]): readonly UpdatedNode[] {
    const names = new Set(monitored.map(({ name }) => name));
    for (const name of this.#opened.keys()) if (!names.has(name)) this.#opened.delete(name);
    for (const name of this.#seen) if (!names.has(name)) this.#seen.delete(name);
    const turns = new Map([...this.#seen].map((name, index) => [name, index]));
    const turnOf = ({ name }: UpdatedNode): number => turns.get(name) ?? -1;
    const isOpened = (one: UpdatedNode): boolean =>
      this.#opened.get(one.name) === attemptOf(one) ||
      isOpenedFor(
        one,
        recoveries.find((other) => isSame(other, { kind: 'Node', name: one.name })),
      );
    const due = monitored
      .filter((one) => one.node.ready && !isOpened(one))
      .toSorted((a, b) => turnOf(a) - turnOf(b))
      .slice(0, MAX_NODES);
    for (const { name } of due) {
      this.#seen.delete(name);
      this.#seen.add(name);
    }
    return due;
  }

  opened(one: UpdatedNode): void {
    this.#opened.set(one.name, attemptOf(one));
  }

  clear(): void {
    this.#opened.clear();
    this.#seen.clear();
  }
}
