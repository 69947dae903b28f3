/** Queries that several panels have. */

/**
 * What was counted within the interval of the panel, by labels. `increase()` does not see the first count of a series, and a fleet
 * has few updates. The counters of each replica are compared with themselves, since a new leader starts at 0.
 */
export function newly(series: string, labels: readonly string[]): string {
  return `sum by (${labels.join(', ')}) (clamp_min(${series} - (${series} offset $__interval or 0 * ${series}), 0))`;
}

export function quantiles(buckets: string, label: string, range: string): Record<string, string> {
  return {
    [`{{${label}}}`]: `histogram_quantile(0.9, sum by (le, ${label}) (rate(${buckets}[${range}])))`,
  };
}

/** Counts of the leader. While another replica takes over, Prometheus may have those of both: the larger one counts. */
export function counted(label: string, series: string): string {
  return `sum by (${label}) (max by (cluster, ${label}) (sum by (cluster, instance, ${label}) (${series})))`;
}
