/**
 * One Node, its shadow, the configuration and a group, as the API server holds them. The cluster of the agent's model has
 * what an agent sees of them; the rest is in {@link Kept}. The controller creates and deletes the shadow.
 */
import { isDeepStrictEqual } from 'node:util';
import type {
  AgentShadow,
  DrainFailure,
  DrainResult,
  SpecReference,
} from '../../../packages/shared/src/api/agent-protocol.ts';
import { ABORT_ANNOTATION, RECORD_ANNOTATION, RETRY_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import type { DrainStatus, SettingsSpec, ShadowSpec } from '../../../packages/shared/src/api/shadow.ts';
import { type Clock, rfc3339 } from '../../../packages/shared/src/runtime/clock.ts';
import { ApiError } from '../../../packages/agent/src/apiserver/messages.ts';
import type { Act } from '../../../packages/agent/src/testing/model/faults.ts';
import { SimCluster } from '../../../packages/agent/src/testing/model/sim-cluster.ts';
import { newObject, type RawObject, type Taint } from '../oracle/objects.ts';
import type { Write } from '../oracle/told.ts';

const DRAIN_LIMIT_MS = 10 * 60_000;
const LATE: DrainFailure = { code: 'DrainTimedOut', message: 'pods are left at the time limit' };
export const GROUP = 'even';

/** What etcd holds besides what agents see. */
export interface Kept {
  readonly config: RawObject;
  readonly group: RawObject | undefined;
  readonly nodeUID: string;
  readonly taints: readonly Taint[];
  /** Epoch milliseconds; undefined: the Node is not cordoned. */
  readonly cordonedAt: number | undefined;
  /** Of the Node for which the shadow was created. */
  readonly ownerUID: string;
  readonly createdAt: number;
  readonly annotations: Readonly<Record<string, string>>;
  readonly drain: DrainStatus | undefined;
  /** What the controller writes to the status of the shadow. */
  readonly conditions: object;
}

/** What a planner had seen when it decided. */
export interface Seen {
  readonly resourceVersion: number;
  readonly uid: string | undefined;
}

type ActOf<K extends Act['kind']> = Extract<Act, { kind: K }>;
export type Edit = Exclude<Act, ActOf<'lead' | 'no leader' | 'lag' | 'etcd restored'>>;

export class JointCluster extends SimCluster {
  kept: Kept;
  resourceVersion = 0;
  readonly #now: () => number;
  #uids = 0;

  constructor(clock: Clock, boots: () => number, config: RawObject['spec']) {
    super(clock, boots);
    this.#now = () => clock.now();
    const uid = { nodeUID: 'node-uid-0', ownerUID: '' };
    const none = { group: undefined, taints: [], cordonedAt: undefined, annotations: {}, drain: undefined };
    this.kept = { config: newObject('cluster', 'config', config, 1), ...uid, ...none, createdAt: 0, conditions: {} };
  }

  /** A spec that is edited keeps its settings. */
  override get settings(): SettingsSpec | null {
    return this.shadow?.spec.settings ?? null;
  }

  override read(): AgentShadow {
    if (this.managed && this.shadow === undefined) throw new ApiError('NotFound', 'there is no shadow yet');
    if (!this.managed) throw new ApiError('Forbidden', 'the Node is not managed');
    return super.read();
  }

  override drain(reference: SpecReference): DrainResult {
    const before = this.#drainOf(reference);
    if (before?.result === 'TimedOut')
      return { done: false, evicted: 0, remaining: this.pods, blockedBy: [], failure: LATE, limitRemainingMs: 0 };
    const pass = super.drain(reference);
    const startTime = before?.startTime ?? rfc3339(this.#now());
    const limitRemainingMs = Math.max(0, Date.parse(startTime) + DRAIN_LIMIT_MS - this.#now());
    const isLate = !pass.done && limitRemainingMs === 0;
    const result = isLate ? 'TimedOut' : 'Drained';
    const drain = { observedGeneration: reference.generation, startTime, evicted: 0, remaining: pass.remaining };
    const isOver = pass.done || isLate;
    this.#recordPass({ ...drain, ...(isOver && { endTime: rfc3339(this.#now()), result }) });
    return { ...pass, ...(isLate && { failure: LATE }), limitRemainingMs };
  }

  #recordPass(drain: DrainStatus): void {
    this.#keep({ cordonedAt: this.kept.cordonedAt ?? this.#now(), drain });
    this.onChange();
  }

  #drainOf({ generation }: SpecReference): DrainStatus | undefined {
    const { drain } = this.kept;
    return drain?.observedGeneration === generation && drain.result !== 'Cancelled' ? drain : undefined;
  }

  override restore(): void {
    super.restore();
    const { drain } = this.kept;
    const cancelled = { endTime: rfc3339(this.#now()), result: 'Cancelled' } as const;
    const isOpen = drain !== undefined && drain.result === undefined;
    this.#keep({ cordonedAt: undefined, drain: isOpen ? { ...drain, ...cancelled } : drain });
    this.onChange();
  }

  /** Takes what a planner wants to be written, unless the object has changed since it decided. */
  write(write: Write, seen: Seen): void {
    switch (write.kind) {
      case 'create':
        return this.#create();
      case 'restore':
        return this.marked ? this.restore() : undefined;
      case 'taint':
        return this.#taint(write);
      case 'status':
        return this.#setStatus(write.name, write.status);
      case 'job':
      case 'node annotations':
        return undefined;
      default:
        return this.shadow?.uid === seen.uid ? this.#writeShadow(write, seen) : undefined;
    }
  }

  #writeShadow(write: Extract<Write, { name: string }>, seen: Seen): void {
    if (write.kind === 'delete') return this.deleteShadow();
    if (write.kind === 'condition') return this.#keep({ conditions: write.status });
    if (write.kind !== 'spec' && write.kind !== 'annotations') return undefined;
    if (this.resourceVersion !== seen.resourceVersion) return this.onChange();
    const merged = Object.entries({ ...this.kept.annotations, ...write.annotations });
    const annotations = Object.fromEntries(merged.filter((entry): entry is [string, string] => entry[1] !== null));
    this.#keep({ annotations });
    return write.kind === 'spec' ? this.#setWholeSpec(write.spec as ShadowSpec) : this.onChange();
  }

  #setWholeSpec(spec: ShadowSpec): void {
    if (this.shadow === undefined) return;
    const { generation, spec: before } = this.shadow;
    const isSame = isDeepStrictEqual(before, spec);
    this.#put({ ...this.shadow, generation: generation + (isSame ? 0 : 1), spec });
  }

  #create(): void {
    if (this.shadow !== undefined) return;
    this.#uids += 1;
    const { nodeUID: ownerUID } = this.kept;
    this.#keep({ annotations: {}, drain: undefined, conditions: {}, createdAt: this.#now(), ownerUID });
    this.#put({ uid: `uid-${this.#uids}`, generation: 1, spec: { state: 'Idle' } });
  }

  #put(shadow: AgentShadow | undefined): void {
    this.shadow = shadow;
    this.onSpec();
    this.send(shadow === undefined ? { type: 'deleted' } : { type: 'shadow', shadow });
    this.onChange();
  }

  #keep(changes: Partial<Kept>): void {
    this.kept = { ...this.kept, ...changes };
  }

  #taint({ key, effect, on }: Extract<Write, { kind: 'taint' }>): void {
    const others = this.kept.taints.filter((taint) => taint.key !== key);
    this.#keep({ taints: on ? [...others, { key, effect }] : others });
  }

  /** @param name - of a group; empty: the configuration */
  #setStatus(name: string, written: object): void {
    const { config, group } = this.kept;
    const status = { ...written };
    if (name === '') this.#keep({ config: { ...config, status } });
    else if (group !== undefined) this.#keep({ group: { ...group, status } });
  }

  /** Saves all objects. Returns what restores them. */
  saved(): () => void {
    const { kept, shadow, cordoned, excludedAt } = this;
    return () => {
      Object.assign(this, { kept, cordoned, excludedAt });
      this.#put(shadow);
    };
  }

  /** What users, or the registration of a Node, do to the objects. */
  edit(act: Edit): void {
    const { annotations, config } = this.kept;
    switch (act.kind) {
      case 'abort':
        return this.#keep({ annotations: { ...annotations, [ABORT_ANNOTATION]: 'true' } });
      case 'retry':
        return this.#keep({ annotations: { ...annotations, [RETRY_ANNOTATION]: act.version } });
      case 'edit record':
        return this.#keep({ annotations: { ...annotations, [RECORD_ANNOTATION]: act.record } });
      case 'configure':
        return this.#keep({ config: replaced(config, act.spec) });
      case 'motd':
        return this.#keep({ group: this.#groupWith(act.motd) });
      case 'new node':
        return this.#register();
      default:
        return this.#editShadow(act);
    }
  }

  #editShadow(act: ActOf<'edit spec' | 'edit status'>): void {
    const { shadow } = this;
    if (shadow === undefined) return;
    if (act.kind === 'edit spec') return this.#setWholeSpec({ ...shadow.spec, ...act.spec });
    if (shadow.status === undefined) return;
    const { lastOperation: last, ...status } = { ...shadow.status, ...act.status };
    this.#put({ ...shadow, status: { ...status, ...(last && { lastOperation: { ...last, ...act.last } }) } });
  }

  #groupWith(motd: string | null): RawObject | undefined {
    const { group = newObject(GROUP, 'group', {}, 0) } = this.kept;
    const nodeSelector = { matchLabels: { pool: GROUP } };
    return motd === null ? undefined : replaced(group, { nodeSelector, settings: { motd } });
  }

  /** A Node whose host is about to reboot must not lose its cordon: no operator could keep pods from it then. */
  #register(): void {
    if (this.shadow?.spec.state === 'RebootedIntoUpdate') return;
    super.restore();
    this.#keep({ nodeUID: `node-uid-${this.resourceVersion}`, cordonedAt: undefined, taints: [] });
  }
}

function replaced(object: RawObject, spec: RawObject['spec']): RawObject {
  const { metadata, status } = object;
  const next = newObject(metadata.name, metadata.uid, spec, (metadata.generation ?? 0) + 1);
  return { ...next, ...(status && { status }) };
}
