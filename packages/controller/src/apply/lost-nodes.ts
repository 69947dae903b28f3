/**
 * Reports lost nodes, and writes the taint `node.kubernetes.io/out-of-service`. The taint has Kubernetes delete pods and
 * detach volumes, so it is decided once more on a live read, and written with the resourceVersion of that read.
 */
import { OUT_OF_SERVICE_ANNOTATION, OUT_OF_SERVICE_TAINT, OUT_OF_SERVICE_VALUE } from '@brupop/shared/api/names';
import type { Events } from '@brupop/shared/kube/events';
import { corePath } from '@brupop/shared/kube/paths';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { NodeLog } from '@brupop/shared/runtime/log';
import { hasTaint, isSameTaint, type NodeTaint } from '../cluster/group-metadata.ts';
import { type NodeView, outOfServiceByUs, readNode } from '../cluster/node.ts';
import { type LostNode, mayTaint, type OutOfServiceChange } from '../upkeep/lost-nodes.ts';
import { checkKept, type TaintedNode, taintsOf } from './nodes.ts';
import { type NodeWrite, PRIORITY } from './queue.ts';
import type { ApplyContext } from './writer.ts';

interface ReportContext {
  readonly logOf: NodeLog;
  readonly events: Pick<Events, 'record'>;
}

/** Remembers which losses it has reported, as long as they last. An Event that another process wrote is not repeated. */
export class LossReporter {
  #reported: ReadonlySet<string> = new Set();

  report({ logOf, events }: ReportContext, lost: readonly LostNode[]): void {
    for (const { name, event } of lost.filter(({ event: { key } }) => !this.#reported.has(key))) {
      logOf(name).error('node lost: it did not return from the reboot of its update');
      events.record(event);
    }
    this.#reported = new Set(lost.map(({ event: { key } }) => key));
  }
}

export function outOfServiceWrite(context: ApplyContext, change: OutOfServiceChange): NodeWrite {
  const { writer, logOf } = context;
  const { name: object, uid } = change.node.metadata;
  const key = `out-of-service/${uid}`;
  const attempt = () => writer.attempt('node_out_of_service', key, () => write(context, change), logOf(object));
  return { key, object, priority: PRIORITY.outOfService, write: () => writer.once(key, attempt) };
}

const TAINT: NodeTaint = { key: OUT_OF_SERVICE_TAINT, value: OUT_OF_SERVICE_VALUE, effect: 'NoExecute' };

async function write(context: ApplyContext, { node, wanted, event }: OutOfServiceChange): Promise<void> {
  const { client, logOf, clock, events, signal } = context;
  const { name, uid } = node.metadata;
  const path = corePath('nodes', { name });
  const raw = await client.request<TaintedNode>({ method: 'GET', path, signal });
  if (!isStillDue(readNode(raw), node, wanted)) return;
  const others = taintsOf(raw).filter((taint) => !isSameTaint(taint, TAINT));
  const annotations = { [OUT_OF_SERVICE_ANNOTATION]: wanted ? rfc3339(clock.now()) : null };
  const metadata = { uid, resourceVersion: raw.metadata.resourceVersion, annotations };
  const body = { metadata, spec: { taints: wanted ? [...others, TAINT] : others } };
  const answer = await client.mergePatch<TaintedNode>(path, body, { signal });
  checkKept(hasTaint(taintsOf(answer), TAINT) === wanted);
  if (event === undefined) return;
  logOf(name)[wanted ? 'warn' : 'info'](wanted ? 'out-of-service taint set' : 'out-of-service taint removed');
  events.record(event);
}

function isStillDue(live: NodeView, planned: NodeView, wanted: boolean): boolean {
  if (live.metadata.uid !== planned.metadata.uid) return false;
  return wanted ? mayTaint(live) && live.bootID === planned.bootID : outOfServiceByUs(live);
}
