/** What a pod requests of a node and what a node has, as numbers. */

/** By resource, such as cpu (cores) and memory (bytes); `pods` is a resource as well. */
export type Amounts = Readonly<Record<string, number>>;

type Quantities = Readonly<Record<string, string | number>>;

interface RawContainer {
  readonly restartPolicy?: string;
  readonly resources?: { readonly requests?: Quantities };
}

export interface RawPodSpec {
  readonly containers?: readonly RawContainer[];
  readonly initContainers?: readonly RawContainer[];
  readonly overhead?: Quantities;
  readonly resources?: { readonly requests?: Quantities };
}

const SUFFIXES: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** Reads a quantity (Kubernetes "resource.Quantity"), such as 250m, 1.5Gi or 1e3; 0 for another text. */
export function amountOf(quantity: string | number): number {
  const [, number = '', suffix = ''] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/u.exec(String(quantity)) ?? [];
  const amount = Number(number) * (SUFFIXES[suffix] ?? Number.NaN);
  return Number.isFinite(amount) ? amount : 0;
}

export function amountsOf(quantities: Quantities = {}): Amounts {
  return Object.fromEntries(Object.entries(quantities).map(([resource, quantity]) => [resource, amountOf(quantity)]));
}

/**
 * Returns what the scheduler reserves for a pod (Kubernetes "Resource sharing within containers"): the
 * containers and the sidecars together, or an init container with the sidecars before it if that is
 * more; plus the overhead. What is requested for the whole pod replaces that of its containers.
 */
export function requestsOf({ containers = [], initContainers = [], overhead, resources }: RawPodSpec): Amounts {
  // Each container is read once: there may be thousands, each with resources of its own.
  const sidecars = new Map<string, number>();
  const most = new Map<string, number>();
  for (const container of initContainers) {
    for (const [resource, amount] of requestsIn(container)) {
      const together = amountIn(sidecars, resource) + amount;
      if (container.restartPolicy === 'Always') sidecars.set(resource, together);
      most.set(resource, Math.max(amountIn(most, resource), together));
    }
  }
  const running = new Map(sidecars);
  for (const [resource, amount] of containers.flatMap(requestsIn))
    running.set(resource, amountIn(running, resource) + amount);
  const ofPod = { ...larger(Object.fromEntries(most), Object.fromEntries(running)), ...amountsOf(resources?.requests) };
  return { ...plus(ofPod, amountsOf(overhead)), pods: 1 };
}

function requestsIn({ resources }: RawContainer): [string, number][] {
  return Object.entries(amountsOf(resources?.requests));
}

function amountIn(amounts: ReadonlyMap<string, number>, resource: string): number {
  return amounts.get(resource) ?? 0;
}

export function plus(a: Amounts, b: Amounts): Amounts {
  return combined(a, b, (x, y) => x + y);
}

function larger(a: Amounts, b: Amounts): Amounts {
  return combined(a, b, Math.max);
}

function combined(a: Amounts, b: Amounts, combine: (x: number, y: number) => number): Amounts {
  const resources = new Set([...Object.keys(a), ...Object.keys(b)]);
  return Object.fromEntries([...resources].map((resource) => [resource, combine(a[resource] ?? 0, b[resource] ?? 0)]));
}
