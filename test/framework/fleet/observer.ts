import type {
  V1Deployment,
  V1Lease,
  V1Node,
  V1Pod,
  V1PodDisruptionBudget,
  V1StatefulSet,
} from '@kubernetes/client-node';
import {
  APISERVER,
  COMPONENT_LABEL,
  CONTROLLER,
  CORDONED_ANNOTATION,
  EXCLUSION_LABEL,
  AUTOSCALER_HOLDS,
  MANAGED_LABEL,
  OUT_OF_SERVICE_ANNOTATION,
  OUT_OF_SERVICE_TAINT,
  RETRY_ANNOTATION,
  STARTUP_TAINT,
  WAITING_TAINT,
} from '../../../packages/shared/src/api/names.ts';
import { UPDATER_SETTINGS } from '../../../packages/shared/src/api/settings.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import type { KubeClient } from '../../../packages/shared/src/kube/client.ts';
import { selects } from '../../../packages/shared/src/api/label-selector.ts';
import type { KubernetesObject } from '../../../packages/shared/src/api/meta.ts';
import { Reflector } from '../../../packages/shared/src/kube/reflector.ts';
import type { ReflectorEvent } from '../../../packages/shared/src/kube/store.ts';
import { OWNERSHIP_ANNOTATIONS } from '../../../packages/shared/src/node/ownership.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { shadowPath } from '../apiserver/shadow.ts';
import { eventually } from '../eventually.ts';
import { recordingLogger } from '../recording-logger.ts';

const PODS_LATE_MS = 2_000;

type Observed<T> = T & KubernetesObject;

/** State of a host at the start of a boot. */
interface Boot {
  /** Boot ID of the boot that ends. */
  readonly bootID: string;
  /** The version that its boot loader tries first. */
  readonly next: string | undefined;
}

export interface ObserverOptions {
  readonly client: KubeClient;
  /** Namespace of the operator. */
  readonly operatorNamespace: string;
  /**
   * How many managed nodes may be cordoned or not ready at the same time. May be changed while it
   * watches.
   */
  readonly maxUnavailable: () => number;
}

/**
 * Watches a fleet and records violations of its invariants: more nodes unavailable than allowed, a
 * violated disruption budget, a reboot of a node with workload pods or without a cordon, two
 * reboots for one update.
 */
export class Observer {
  readonly violations: string[] = [];
  /**
   * True while a test makes hosts fail: unready nodes and violated budgets are then tolerated. The
   * operator's cordons still count.
   */
  hostsFail = false;
  /** Number of checks of the invariants. */
  checks = 0;
  /** Most managed nodes seen cordoned or not ready at once. */
  mostUnavailable = 0;
  /**
   * Smallest number of ready replicas seen since all were ready, by `namespace/name` of Deployments
   * and StatefulSets.
   */
  readonly leastReady = new Map<string, number>();
  readonly nodes: Reflector<Observed<V1Node>>;
  readonly shadows: Reflector<BottlerocketShadow>;
  readonly pods: Reflector<Observed<V1Pod>>;
  readonly #leases: Reflector<Observed<V1Lease>>;
  readonly #options: ObserverOptions;
  /** How many reboots each update of a node has had since a user last asked for it. */
  readonly #reboots = new Map<string, number>();
  /** How many shadows of a node, by the node's name and UID, were deleted or lost their status. */
  readonly #lostRecords = new Map<string, number>();
  readonly #stop = new AbortController();
  readonly #running: Promise<void>[];
  /**
   * UIDs of nodes and budgets that were healthy once. Before that they are only starting, which
   * violates nothing.
   */
  readonly #seenHealthy = new Set<string>();
  /** UIDs of budgets that are violated now. */
  /** By UID of a budget: its latest change, and how many pods were missing right after it. */
  readonly #changes = new Map<string, { readonly generation: number | undefined; readonly missing: number }>();
  readonly #short = new Set<string>();

  constructor(options: ObserverOptions) {
    this.#options = options;
    this.nodes = this.#reflect('/api/v1/nodes');
    this.pods = this.#reflect('/api/v1/pods');
    this.shadows = this.#reflect(shadowPath(options.operatorNamespace));
    const { operatorNamespace } = options;
    this.#leases = this.#reflect(`/apis/coordination.k8s.io/v1/namespaces/${operatorNamespace}/leases`);
    const budgets = this.#reflect<Observed<V1PodDisruptionBudget>>('/apis/policy/v1/poddisruptionbudgets');
    const deployments = this.#reflect<Observed<V1Deployment>>('/apis/apps/v1/deployments');
    const statefulSets = this.#reflect<Observed<V1StatefulSet>>('/apis/apps/v1/statefulsets');
    this.nodes.subscribe(({ object }) => this.#checkUnavailable(object));
    this.shadows.subscribe(({ object, old }) => this.#noteRetry(object, old));
    this.shadows.subscribe((event) => this.#noteLostRecord(event));
    budgets.subscribe(({ object }) => this.#checkBudget(object));
    for (const workloads of [deployments, statefulSets]) workloads.subscribe(({ object }) => this.#countReady(object));
    const all = [this.nodes, this.pods, this.shadows, this.#leases, budgets, deployments, statefulSets];
    this.#running = all.map(async (reflector) => await reflector.run(this.#stop.signal));
  }

  /** Checks a reboot; await it when a host goes down, before its pods change. */
  async hostGoesDown(name: string, boot: Boot): Promise<void> {
    try {
      await this.#checkReboot(name);
    } catch (error) {
      this.#violated(`${name} went down and it could not be seen in which state: ${String(error)}`);
    }
    this.#checkSecondReboot(name, boot);
  }

  async #checkReboot(name: string): Promise<void> {
    this.checks += 2;
    const node = await this.#get<V1Node>(`/api/v1/nodes/${name}`, {});
    const { items } = await this.#get<{ items: V1Pod[] }>('/api/v1/pods', { fieldSelector: `spec.nodeName=${name}` });
    if (node.spec?.unschedulable !== true) this.#violated(`${name} went down without a cordon`);
    const isOnlyReplica = !this.pods
      .list()
      .some((pod) => isReplica(pod) && pod.spec?.nodeName !== name && isReady(pod));
    const left = items
      .filter((pod) => mustBeDrained(pod) && !(isOnlyReplica && isReplica(pod)))
      .map(({ metadata }) => `${metadata?.namespace}/${metadata?.name}`);
    if (left.length > 0) this.#violated(`${name} went down undrained, with ${left.join(', ')}`);
  }

  /**
   * What updates left behind on the nodes: cordons, labels and annotations of the operator, and
   * unfinished shadows.
   */
  leftovers(): string[] {
    const ofNodes = this.nodes.list().flatMap(({ metadata, spec }) => {
      const { labels = {}, annotations = {} } = metadata;
      const recorded = [...OWNERSHIP_ANNOTATIONS, ...AUTOSCALER_HOLDS, OUT_OF_SERVICE_ANNOTATION];
      const found: string[] = recorded.filter((key) => annotations[key] !== undefined);
      if (labels[EXCLUSION_LABEL] !== undefined) found.push(EXCLUSION_LABEL);
      if (spec?.unschedulable === true) found.push('cordon');
      const taints = spec?.taints?.map(({ key }) => key) ?? [];
      found.push(...[WAITING_TAINT, STARTUP_TAINT, OUT_OF_SERVICE_TAINT].filter((key) => taints.includes(key)));
      return found.map((what) => `node ${metadata.name} still has ${what}`);
    });
    const ofShadows = this.shadows
      .list()
      .filter(({ spec, status }) => spec.state !== 'Idle' || status?.current_state !== 'Idle')
      .map(({ metadata, spec, status }) => `${metadata.name} is ${spec.state}/${status?.current_state}`);
    return [...ofNodes, ...ofShadows];
  }

  /** The pod of the controller that holds the Lease; undefined while no pod does. */
  leader(): Observed<V1Pod> | undefined {
    const holder = this.#leases.get(CONTROLLER, this.#options.operatorNamespace)?.spec?.holderIdentity ?? '';
    return this.pods.list().find(({ metadata }) => holder.startsWith(`${metadata.name}_`));
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running);
  }

  #reflect<T extends KubernetesObject>(path: string): Reflector<T> {
    const { client } = this.#options;
    return new Reflector<T>({
      client,
      path,
      clock: systemClock,
      log: recordingLogger().log,
      name: path,
      slim: (raw) => raw as T,
    });
  }

  /** Retries for a while, because a test may have killed the API server. */
  async #get<T>(path: string, query: Readonly<Record<string, string>>): Promise<T> {
    return await eventually(async () => await this.#options.client.request<T>({ method: 'GET', path, query }));
  }

  #checkUnavailable(changed: Observed<V1Node>): void {
    this.checks += 1;
    if (!isUnavailable(changed)) this.#seenHealthy.add(changed.metadata.uid);
    const unavailable = this.nodes
      .list()
      .filter((node) => this.#seenHealthy.has(node.metadata.uid) && isManaged(node) && isUnavailable(node));
    this.mostUnavailable = Math.max(this.mostUnavailable, unavailable.length);
    const blamed = this.hostsFail ? unavailable.filter(isCordonedByUs) : unavailable;
    if (blamed.length > this.#options.maxUnavailable()) {
      this.#violated(
        `${blamed.length} nodes unavailable at once: ${blamed.map(({ metadata }) => metadata.name).join(', ')}`,
      );
    }
  }

  #checkBudget(budget: Observed<V1PodDisruptionBudget>): void {
    this.checks += 1;
    // Tests kill pods of the operator, which budgets do not prevent.
    if (budget.metadata.namespace === this.#options.operatorNamespace) return;
    const { name, uid } = budget.metadata;
    if (isWell(budget)) this.#seenHealthy.add(uid);
    const missing = shortfall(budget) - this.#shortBefore(budget);
    const isShort = this.#seenHealthy.has(uid) && !this.hostsFail && missing > this.#markedNotReady(budget);
    if (isShort && !this.#short.has(uid)) {
      // The watch of pods may be behind that of budgets.
      const seen = this.#pods(budget);
      setTimeout(() => {
        const evicted = missing - this.#markedNotReady(budget);
        if (evicted > 0) this.#violated(`disruption budget ${name} is short of ${evicted} pods: ${seen}`);
      }, PODS_LATE_MS).unref();
    }
    if (isShort) this.#short.add(uid);
    else this.#short.delete(uid);
  }

  /** How many pods were missing when the budget was changed: a user may make it stricter during a drain. */
  #shortBefore(budget: Observed<V1PodDisruptionBudget>): number {
    const { uid } = budget.metadata;
    const generation = budget.status?.observedGeneration;
    const known = this.#changes.get(uid);
    if (known !== undefined && known.generation === generation) return known.missing;
    const missing = known === undefined ? 0 : Math.max(0, shortfall(budget));
    this.#changes.set(uid, { generation, missing });
    return missing;
  }

  /**
   * Pods that are no longer ready, but still exist: the controller manager may notice late that a
   * host was down for a second, and then marks the pods of a node that is up again. They were not
   * evicted.
   */
  #markedNotReady({ metadata: { namespace }, spec }: Observed<V1PodDisruptionBudget>): number {
    const ofBudget = this.pods
      .list()
      .filter(({ metadata }) => metadata.namespace === namespace && selects(spec?.selector, metadata.labels ?? {}));
    return ofBudget.filter((pod) => conditionOf(pod).startsWith('is not ready')).length;
  }

  /** The pods of a budget's namespace, with where they are and how. */
  #pods({ metadata: { namespace } }: KubernetesObject): string {
    const inNamespace = this.pods.list().filter(({ metadata }) => metadata.namespace === namespace);
    return inNamespace.map((pod) => `${pod.metadata.name}@${pod.spec?.nodeName} ${conditionOf(pod)}`).join(', ');
  }

  /** Counts from when all replicas were ready for the first time. */
  #countReady({ metadata, spec, status }: Observed<V1Deployment | V1StatefulSet>): void {
    const key = `${metadata.namespace}/${metadata.name}`;
    const ready = status?.readyReplicas ?? 0;
    const least = this.leastReady.get(key) ?? (ready === spec?.replicas ? ready : undefined);
    if (least !== undefined) this.leastReady.set(key, Math.min(least, ready));
  }

  /**
   * Expects one reboot for each update, and for the settings of a group. A manual retry, or deleting the shadow, allows
   * one more.
   */
  #checkSecondReboot(name: string, { bootID, next }: Boot): void {
    const node = this.#boot(name);
    const update = `${node} into ${next}${this.#settingsOf(name)}`;
    const reboots = (this.#reboots.get(update) ?? 0) + 1;
    if (reboots > 1 + (this.#lostRecords.get(node) ?? 0))
      this.#violated(`reboot number ${reboots}: ${update} (boot ${bootID})`);
    this.#reboots.set(update, reboots);
  }

  /** What its spec requests beside the settings that belong to a version. */
  #settingsOf(name: string): string {
    const { settings } = this.shadows.list().find(({ metadata }) => metadata.name === `brs-${name}`)?.spec ?? {};
    const own = (settings?.leaves ?? []).filter(({ key }) => !UPDATER_SETTINGS.includes(key));
    return own.map(({ key, value }) => ` with ${key}=${value}`).join('');
  }

  #noteLostRecord({ type, object, old }: ReflectorEvent<BottlerocketShadow>): void {
    const isWiped = old?.status?.current_state !== undefined && object.status?.current_state === undefined;
    if (type !== 'Deleted' && !isWiped) return;
    const node = this.#boot(object.metadata.name.replace(/^brs-/u, ''));
    this.#lostRecords.set(node, (this.#lostRecords.get(node) ?? 0) + 1);
  }

  #boot(name: string): string {
    return `${name} (${this.nodes.get(name)?.metadata.uid})`;
  }

  #noteRetry({ metadata, status }: BottlerocketShadow, old: BottlerocketShadow | undefined): void {
    const asked = metadata.annotations?.[RETRY_ANNOTATION];
    if (asked === undefined || old?.metadata.annotations?.[RETRY_ANNOTATION] === asked) return;
    // A version that is retried automatically must not have been booted.
    if (!isNotRetried(status)) return;
    const name = metadata.name.replace(/^brs-/u, '');
    const update = `${this.#boot(name)} into ${asked}`;
    for (const known of this.#reboots.keys()) if (known.startsWith(update)) this.#reboots.delete(known);
  }

  #violated(what: string): void {
    if (this.violations.some((known) => known.startsWith(what))) return;
    this.violations.push(`${what}, at ${new Date().toISOString().slice(11, 23)}`);
  }
}

function isManaged({ metadata }: V1Node): boolean {
  return metadata?.labels?.[MANAGED_LABEL] !== undefined;
}

function isUnavailable({ spec, status }: V1Node): boolean {
  return spec?.unschedulable === true || status?.conditions?.find(({ type }) => type === 'Ready')?.status !== 'True';
}

function isCordonedByUs({ metadata }: V1Node): boolean {
  return metadata?.annotations?.[CORDONED_ANNOTATION] !== undefined;
}

function isReplica({ metadata }: V1Pod): boolean {
  return metadata?.labels?.[COMPONENT_LABEL] === APISERVER;
}

function isReady({ status }: V1Pod): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') === true;
}

/** Pods that a drain removes: all but DaemonSet pods, mirror pods and those that have ended. */
function mustBeDrained({ metadata = {}, status }: V1Pod): boolean {
  const owners = metadata.ownerReferences ?? [];
  const ofDaemonSet = owners.some(({ kind, controller }) => controller === true && kind === 'DaemonSet');
  const mirror = metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined;
  return !ofDaemonSet && !mirror && !['Succeeded', 'Failed'].includes(status?.phase ?? '');
}

function conditionOf({ metadata, status }: V1Pod): string {
  if (metadata?.deletionTimestamp !== undefined) return 'is leaving';
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready === undefined) return 'was never ready';
  return ready.status === 'True' ? 'is ready' : `is not ready since ${String(ready.lastTransitionTime)}`;
}

function isWell(budget: V1PodDisruptionBudget): boolean {
  return shortfall(budget) <= 0 && (budget.status?.currentHealthy ?? 0) > 0;
}

function isNotRetried(status: BottlerocketShadow['status']): boolean {
  return status?.conditions?.find(({ type }) => type === 'Progressing')?.reason === 'ManualRetryRequired';
}

function shortfall({ status }: V1PodDisruptionBudget): number {
  return (status?.desiredHealthy ?? 0) - (status?.currentHealthy ?? 0);
}
