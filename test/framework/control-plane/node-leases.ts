import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Node, V1NodeList } from '@kubernetes/client-node';
import type { Api } from './api.ts';
import { kwokNodeAnnotation } from './stages.ts';

export const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
/** As a kubelet has it: valid for 40 s, renewed every quarter of that time. */
const VALID_SECONDS = 40;
const RENEWAL_MS = 10_000;
/** Delay after a failed round: a test may have stopped kube-apiserver. */
const RETRY_MS = 1_000;
const AT_ONCE = 8;
/** On a Node whose lease is not renewed, as if it were cut off. */
export const CUT_OFF_ANNOTATION = 'brupop.test/cut-off';

/**
 * Creates or renews the lease of every node that KWOK manages. The lease of an earlier node of the
 * same name is reused.
 */
export async function renewNodeLeases(api: Api): Promise<void> {
  const { items } = await api.get<V1NodeList>('/api/v1/nodes');
  const left = items.filter(({ metadata: { annotations = {} } = {} }) => {
    return annotations[kwokNodeAnnotation] !== undefined && annotations[CUT_OFF_ANNOTATION] === undefined;
  });
  const renewing = Array.from({ length: AT_ONCE }, async () => {
    for (let node = left.pop(); node !== undefined; node = left.pop()) await renew(api, node);
  });
  await Promise.all(renewing);
}

async function renew(api: Api, { metadata: { name = '', uid } = {} }: V1Node): Promise<void> {
  const lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }] },
    spec: { holderIdentity: name, leaseDurationSeconds: VALID_SECONDS, renewTime: microTime() },
  };
  const path = `${LEASES}/${name}?fieldManager=node-leases&force=true`;
  await api.request('PATCH', path, lease, 'application/apply-patch+yaml');
}

/** Six digits after the point. */
function microTime(): string {
  return new Date().toISOString().replace('Z', '000Z');
}

/**
 * Renews the leases of the nodes while the control plane runs. KWOK 0.8.0 does not do it reliably:
 * its queue blocks all renewals forever when a node is in it twice, which happens when a node is
 * deleted and recreated while KWOK renews its lease.
 */
export class NodeLeases {
  readonly #api: Api;
  readonly #end = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(api: Api) {
    this.#api = api;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#end;
    while (!signal.aborted) {
      const pauseMs = await renewNodeLeases(this.#api).then(
        () => RENEWAL_MS,
        () => RETRY_MS,
      );
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
}
