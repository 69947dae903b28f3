/**
 * Which workloads are kept where there is room for some only, as in the record of a node. By rank first; among those of
 * one rank each namespace has one in turn, so that users who may create pods in a few namespaces do not crowd out the
 * workloads of others.
 */

/**
 * Returns the items in the order in which they are kept.
 * @param workloadOf - `Kind namespace/name`
 * @param rankOf - of a workload; lower ones come first
 */
export function byPrecedence<T>(
  items: readonly T[],
  workloadOf: (item: T) => string,
  rankOf: (workload: string) => number,
): T[] {
  const turns = new Map<string, number>();
  const placed = items
    .map((item) => ({ item, workload: workloadOf(item) }))
    .toSorted((a, b) => (a.workload < b.workload ? -1 : 1))
    .map(({ item, workload }) => {
      const rank = rankOf(workload);
      const key = `${rank} ${namespaceOf(workload)}`;
      const turn = turns.get(key) ?? 0;
      turns.set(key, turn + 1);
      return { item, rank, turn };
    });
  return placed.toSorted((a, b) => a.rank - b.rank || a.turn - b.turn).map(({ item }) => item);
}

export function namespaceOf(workload: string): string {
  const [namespace = ''] = workload.slice(workload.indexOf(' ') + 1).split('/');
  return namespace;
}
