/**
 * What the pods of one list of the cluster request, select and tolerate. Anyone who may create pods decides on the size of
 * that. Equal needs are kept once; different ones up to a total, beyond which a namespace gets no more than its equal share,
 * so that one whose pods need little loses none to others.
 */
import { type Amounts, type RawPodSpec, requestsOf } from './requests.ts';

export interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly value?: string;
  readonly effect?: string;
}

export interface PodNeeds {
  readonly requests: Amounts;
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly tolerations: readonly Toleration[];
  /** That is more than is kept: it counts as a pod that fits on no node. */
  readonly isLarge: boolean;
}

export interface RawNeeds extends RawPodSpec {
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly Toleration[];
}

/** Of one pod; it is far less in practice. */
const MAX_CHARS = 4_096;
/** Of all that differ. */
const MAX_TOTAL_CHARS = 8 * 1024 * 1024;

export class NeedsOfPods {
  readonly #maxTotal: number;
  readonly #known = new Map<string, PodNeeds>();
  /** Characters by namespace. */
  readonly #sizes = new Map<string, number>();
  #total = 0;
  /** How many pods of each namespace have needs that were too many together. */
  readonly omitted = new Map<string, number>();

  constructor(maxTotal = MAX_TOTAL_CHARS) {
    this.#maxTotal = maxTotal;
  }

  of(namespace: string, spec: RawNeeds): PodNeeds {
    const { nodeSelector = {}, tolerations = [] } = spec;
    const requests = requestsOf(spec);
    const text = JSON.stringify([requests, nodeSelector, tolerations]);
    if (text.length > MAX_CHARS) return asLarge(requests);
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    if (!this.#makeSpace(namespace, text.length)) {
      this.omitted.set(namespace, (this.omitted.get(namespace) ?? 0) + 1);
      return asLarge(requests);
    }
    const needs = { requests, nodeSelector, tolerations, isLarge: false };
    this.#known.set(text, needs);
    return needs;
  }

  #makeSpace(namespace: string, chars: number): boolean {
    const size = (this.#sizes.get(namespace) ?? 0) + chars;
    const share = this.#maxTotal / Math.max(1, this.#sizes.size);
    if (this.#total + chars > this.#maxTotal && size > share) return false;
    this.#sizes.set(namespace, size);
    this.#total += chars;
    return true;
  }
}

function asLarge({ cpu = 0, memory = 0, pods = 1 }: Amounts): PodNeeds {
  return { requests: { cpu, memory, pods }, nodeSelector: {}, tolerations: [], isLarge: true };
}
