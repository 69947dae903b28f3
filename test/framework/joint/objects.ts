/** What a planner sees of the one Node: the same object as long as nothing of it changes, as in a watch cache. */
import { isDeepStrictEqual } from 'node:util';
import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  MANAGED_LABEL,
} from '../../../packages/shared/src/api/names.ts';
import { type Clock, rfc3339 } from '../../../packages/shared/src/runtime/clock.ts';
import type { SimHost } from '../../../packages/agent/src/testing/model/sim-host.ts';
import { NOTHING_ELSE, type Objects } from '../oracle/fleet.ts';
import { newNode, newShadow, type RawNode, type RawShadow } from '../oracle/objects.ts';
import { GROUP, type JointCluster } from './cluster.ts';

export const NODE = 'node-0';

export class JointObjects {
  readonly #cluster: JointCluster;
  readonly #host: SimHost;
  readonly #clock: Clock;
  #isReady = true;
  #readySince: number;
  #node: RawNode;
  #shadow: RawShadow | undefined;

  constructor(cluster: JointCluster, host: SimHost, clock: Clock) {
    this.#cluster = cluster;
    this.#host = host;
    this.#clock = clock;
    this.#readySince = clock.now();
    this.#node = this.#newNode();
  }

  read(): Objects {
    const now = this.#clock.now();
    const { config, group } = this.#cluster.kept;
    this.#node = ifChanged(this.#node, this.#newNode());
    this.#shadow = ifChanged(this.#shadow, this.#newShadow());
    return {
      ...NOTHING_ELSE,
      now,
      nodes: new Map([[NODE, this.#node]]),
      shadows: new Map(this.#shadow && [[NODE, this.#shadow]]),
      config,
      groups: new Map(group && [[GROUP, group]]),
    };
  }

  #newNode(): RawNode {
    const { kept, cordoned } = this.#cluster;
    const { metadata, spec } = newNode(0, kept.nodeUID);
    return {
      metadata: { ...metadata, labels: this.#labels(metadata.labels), annotations: this.#annotations() },
      spec: { ...spec, ...(cordoned && { unschedulable: true }), taints: kept.taints },
      status: { conditions: [this.#ready()], nodeInfo: { bootID: this.#host.bootID } },
    };
  }

  #labels(own: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    const { managed, excludedAt } = this.#cluster;
    const { [MANAGED_LABEL]: version = '', ...others } = own;
    return {
      ...others,
      ...(managed && { [MANAGED_LABEL]: version }),
      ...(excludedAt !== undefined && { [EXCLUSION_LABEL]: 'true' }),
    };
  }

  #annotations(): Readonly<Record<string, string>> {
    const { cordoned, kept, excludedAt } = this.#cluster;
    const now = this.#clock.now();
    const excluded = excludedAt === undefined ? undefined : now - this.#clock.monotonic() + excludedAt;
    return {
      ...(cordoned && { [CORDONED_ANNOTATION]: rfc3339(kept.cordonedAt ?? now) }),
      ...(excluded !== undefined && { [EXCLUDED_ANNOTATION]: rfc3339(excluded) }),
    };
  }

  #ready(): RawNode['status']['conditions'][number] {
    const { up } = this.#host;
    if (up !== this.#isReady) this.#readySince = this.#clock.now();
    this.#isReady = up;
    return { type: 'Ready', status: up ? 'True' : 'Unknown', lastTransitionTime: rfc3339(this.#readySince) };
  }

  #newShadow(): RawShadow | undefined {
    const { shadow, kept, resourceVersion } = this.#cluster;
    if (shadow === undefined) return undefined;
    const { metadata } = newShadow(newNode(0, kept.ownerUID), shadow.uid, kept.createdAt);
    const { generation, spec } = shadow;
    const { annotations, drain, conditions } = kept;
    return {
      metadata: { ...metadata, generation, resourceVersion: String(resourceVersion), annotations },
      spec,
      status: { ...shadow.status, ...(drain && { drain }), ...conditions },
    };
  }
}

function ifChanged<T>(before: T, now: T): T {
  return isDeepStrictEqual(before, now) ? before : now;
}
