/** Requests to the Kubernetes API that one process sends at the same time for one purpose. */
const PARALLEL = 10;

/** Does `work` for some items at a time. Rejects with the first error, once all work under way has ended. */
export async function forEachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values();
  const worker = async (): Promise<void> => {
    for (const item of queue) await work(item);
  };
  const results = await Promise.allSettled(Array.from({ length: PARALLEL }, worker));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}
