/**
 * The loop of recovery, on the leader only. A Service that has recovered, or a node that is back after its update, opens a window
 * (`decide.ts`). While one is open, the pods of its scope are listed, and those that wait in CrashLoopBackOff are evicted: the record
 * is written first, then each eviction is requested. At rest there is one watch for each named Service, and nothing else. While
 * something keeps pods from being disrupted (`UpkeepView.obstacle`), no request is sent, and the report says why; windows pass
 * meanwhile.
 */
import { isDeepStrictEqual } from 'node:util';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { RECOVERY_KINDS, type RecoveryService } from '@brupop/shared/api/config-recovery';
import type { KubeClient } from '@brupop/shared/kube/client';
import { instantOf, wallTimeOf } from '@brupop/shared/runtime/clock';
import { Loop } from '@brupop/shared/runtime/loop';
import type { UpdatedNode, UpkeepView } from '../../cluster/upkeep-view.ts';
import type { Metrics } from '../../metrics.ts';
import {
  choose,
  CLOSED,
  current,
  FLAP_MS,
  hasSpace,
  isFirst,
  isNews,
  keyOf,
  nextRequestAt,
  openIn,
  recovered,
  type RecoveryState,
  requested,
  resumed,
  type Scope,
} from './decide.ts';
import { type EvictorOptions, RecoveryEvictor } from './evictor.ts';
import { type PodList, PodLookups } from './lookups.ts';
import type { CrashingPod } from './pods.ts';
import { recoveriesIn, RecoveryRecord } from './record.ts';
import { type RecoveryReport, reportOf } from './report.ts';
import { ServiceWatches } from './service-watches.ts';
import { isBack, succeededIn, UpdatedNodes } from './updated-nodes.ts';

interface RecoveryOptions extends EvictorOptions {
  /** Fenced. */
  readonly client: KubeClient;
  readonly upkeep: UpkeepView;
  readonly metrics: Pick<Metrics, 'recoveries' | 'recoveryEvictions' | 'watchRestarts' | 'writes'>;
  /** Of the operator. */
  readonly agentNamespace: string;
  /** In which this process has the rights. */
  readonly recoveryNamespaces: readonly string[];
  readonly onReport: () => void;
}

/** What has recovered, until its window opens. */
interface PendingRecovery {
  readonly scope: Scope;
  /** When it has recovered, on the monotonic clock: the other one may be set back before the window opens. */
  readonly at: number;
}

/** What one run works on. */
interface Work {
  readonly config: BrupopConfig;
  readonly services: readonly RecoveryService[];
  readonly monitored: readonly UpdatedNode[];
  readonly signal: AbortSignal;
}

/** The pods of an open window are listed this often, and every {@link FLAP_MS} when it is extended and none of them waits; */
const LIST_MS = 5_000;
/** less often when that takes long. */
const LIST_FACTOR = 10;
const MIN_GAP_MS = 500;
/** The watches are checked this often. */
const CHECK_MS = 60_000;

export class Recovery {
  readonly #options: RecoveryOptions;
  readonly #watches: ServiceWatches;
  readonly #evictor: RecoveryEvictor;
  readonly #record: RecoveryRecord;
  readonly #lookups: PodLookups;
  readonly #nodes = new UpdatedNodes();
  #loop: Loop | undefined;
  #state: RecoveryState = CLOSED;
  /** The state has what former leaders recorded. */
  #isRead = false;
  /** On the monotonic clock, of the lists of open windows. */
  #nextListAt = -Infinity;
  #report: RecoveryReport | 'unknown' | undefined = 'unknown';
  /** By {@link keyOf}. */
  readonly #pending = new Map<string, PendingRecovery>();
  /** Those that have lost the control plane, of pods that would be evicted. */
  #lostNodes: readonly string[] = [];

  constructor(options: RecoveryOptions) {
    this.#options = options;
    const { metrics } = options;
    const onRestart = (resource: string): void => metrics.watchRestarts.inc({ resource });
    this.#watches = new ServiceWatches({ ...options, onRestart }, (name) => this.#recovers({ kind: 'Service', name }));
    this.#evictor = new RecoveryEvictor(options);
    this.#lookups = new PodLookups(options);
    const count = (result: string): void => metrics.writes.inc({ kind: 'recovery_status', result });
    this.#record = new RecoveryRecord({ ...options, count });
  }

  /** Undefined if recovery is not asked for. */
  get report(): RecoveryReport | 'unknown' | undefined {
    return this.#report;
  }

  /** Runs until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log, upkeep, metrics } = this.#options;
    this.#state = CLOSED;
    this.#isRead = false;
    this.#nextListAt = -Infinity;
    const loop = new Loop({ clock, log, reconcile: () => this.#reconcile(signal), minGapMs: MIN_GAP_MS });
    this.#loop = loop;
    const ends = [
      upkeep.onConfig(() => loop.wake()),
      upkeep.onShadow((event) => {
        if (!this.#restartsNodes) return;
        const name = succeededIn(event);
        if (name !== undefined) this.#recovers({ kind: 'Node', name });
        if (event.object.spec.state === 'MonitoringUpdate') loop.wake();
      }),
    ];
    await loop.run(signal);
    for (const end of ends) end();
    this.#loop = undefined;
    this.#watches.follow([]);
    this.#pending.clear();
    this.#nodes.clear();
    this.#lostNodes = [];
    this.#report = 'unknown';
    metrics.recoveries.reset();
  }

  /** Resolves when no eviction is in flight, which may be after `run` has ended. */
  async settled(): Promise<void> {
    await this.#evictor.settled();
  }

  get #restartsNodes(): boolean {
    const { upkeep, recoveryNamespaces } = this.#options;
    return upkeep.policy.recovery.updatedNodes === 'Restart' && recoveryNamespaces.length > 0;
  }

  #recovers(scope: Scope): void {
    this.#pending.set(keyOf(scope), { scope, at: this.#options.clock.monotonic() });
    this.#loop?.wake();
  }

  /** An obstacle may outlast a window. */
  #forgetOldPending(): void {
    const { clock, upkeep } = this.#options;
    const endedAt = clock.monotonic() - upkeep.policy.recovery.watchForMs;
    for (const [key, { at }] of this.#pending) if (at <= endedAt) this.#pending.delete(key);
  }

  /** Returns after how many milliseconds it is due again, or undefined. Throws KubeError. */
  async #reconcile(signal: AbortSignal): Promise<number | undefined> {
    const { upkeep, clock } = this.#options;
    const { config, obstacle } = upkeep;
    const services = this.#services;
    this.#watches.follow(services);
    this.#forgetOldPending();
    this.#publish();
    if (config === undefined || this.#isOff(config, services)) return undefined;
    const monitored = this.#restartsNodes ? upkeep.monitored() : [];
    const restMs = services.length === 0 ? undefined : CHECK_MS;
    const isAtRest = this.#pending.size + monitored.length + this.#state.recoveries.length === 0;
    if (obstacle !== undefined) return isAtRest ? restMs : LIST_MS;
    const earlyMs = this.#nextListAt - clock.monotonic();
    if (earlyMs > 0 && ![...this.#pending.values()].some((one) => this.#isNews(one))) return earlyMs;
    const delayMs = await this.#work({ config, services, monitored, signal }).finally(() => this.#publish());
    if (this.#state.recoveries.length + monitored.length === 0) return restMs;
    this.#nextListAt = clock.monotonic() + delayMs;
    return delayMs;
  }

  #isNews({ scope, at }: PendingRecovery): boolean {
    const { clock, upkeep } = this.#options;
    return isNews(this.#state, scope, upkeep.policy.recovery.watchForMs, wallTimeOf(at, instantOf(clock)));
  }

  /** Those that this process may watch. */
  get #services(): readonly RecoveryService[] {
    const { upkeep, recoveryNamespaces } = this.#options;
    if (upkeep.config === undefined) return [];
    return upkeep.policy.recovery.services.filter(({ namespace }) => recoveryNamespaces.includes(namespace));
  }

  /** Also if nothing of former times is left on record. */
  #isOff(config: BrupopConfig, services: readonly RecoveryService[]): boolean {
    if (services.length > 0 || this.#restartsNodes) return false;
    this.#pending.clear();
    return recoveriesIn(config).length === 0 && this.#state.recoveries.length === 0;
  }

  /** Returns after how many milliseconds pods are listed again while a window is open. */
  async #work(work: Work): Promise<number> {
    const { clock, metrics, upkeep, recoveryNamespaces: namespaces } = this.#options;
    const { config, services, monitored, signal } = work;
    const { maxPerMinute, watchForMs } = upkeep.policy.recovery;
    const startedAt = clock.monotonic();
    this.#lookups.reset();
    await this.#read(signal);
    const lists = await this.#openForNodes(work);
    const names = new Set(services.map(({ name }) => name));
    const isWanted = ({ kind, name }: Scope): boolean => (kind === 'Service' ? names.has(name) : this.#restartsNodes);
    this.#state = current(this.#state, isWanted, instantOf(clock));
    this.#openPending(isWanted);
    const scanned = { services, lists, namespaces, upkeep, signal };
    const { state: found, crashing, lostNodes } = await this.#lookups.scan(this.#state, scanned);
    this.#lostNodes = lostNodes;
    const listMs = clock.monotonic() - startedAt;
    const chosenAt = instantOf(clock);
    const { state, evictions } = choose(found, crashing, maxPerMinute, chosenAt);
    await this.#record.write(config.metadata.uid, state.recoveries, signal);
    const mayEvict = ({ node }: CrashingPod): boolean => upkeep.obstacle === undefined && !upkeep.isLost(node);
    const evicted = await this.#evictor.evict(state, evictions, mayEvict, signal);
    this.#state = requested(evicted, chosenAt.monotonic, clock.monotonic());
    for (const kind of RECOVERY_KINDS)
      metrics.recoveries.set({ kind }, this.#state.recoveries.filter((one) => one.kind === kind).length);
    const waitsForRate = crashing.length > 0 && monitored.length === 0;
    const rateMs = waitsForRate ? nextRequestAt(this.#state, maxPerMinute, clock.monotonic()) - clock.monotonic() : 0;
    const isQuiet = evictions.length + monitored.length === 0 && !isFirst(this.#state, watchForMs, clock.now());
    return Math.max(isQuiet ? FLAP_MS : LIST_MS, listMs * LIST_FACTOR, rateMs);
  }

  async #read(signal: AbortSignal): Promise<void> {
    if (this.#isRead) return;
    this.#state = resumed(await this.#record.read(signal), instantOf(this.#options.clock));
    this.#isRead = true;
  }

  /** Returns the pods on the nodes that are back. */
  async #openForNodes({ monitored, signal }: Work): Promise<ReadonlyMap<string, PodList>> {
    const { agentNamespace, clock } = this.#options;
    const lists = new Map<string, PodList>();
    for (const one of this.#nodes.next(monitored, this.#state.recoveries)) {
      const scope = { kind: 'Node', name: one.name } as const;
      const list = await this.#lookups.onNode(scope, signal);
      if (list === undefined || !isBack(one, list.pods, agentNamespace)) continue;
      this.#nodes.opened(one);
      this.#pending.set(keyOf(scope), { scope, at: clock.monotonic() });
      lists.set(one.name, list);
    }
    return lists;
  }

  /** Those for which there is no space wait until they are too old. */
  #openPending(isWanted: (scope: Scope) => boolean): void {
    const { log, upkeep, clock } = this.#options;
    const now = instantOf(clock);
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { scope, at } of pending) {
      if (!isWanted(scope)) continue;
      const next = recovered(this.#state, scope, upkeep.policy.recovery.watchForMs, wallTimeOf(at, now));
      if (next === this.#state) this.#pending.set(keyOf(scope), { scope, at });
      else if (this.#isNews({ scope, at }))
        log.info('recovered: pods in CrashLoopBackOff are evicted for a while', { ...scope });
      this.#state = next;
    }
  }

  #publish(): void {
    const { upkeep, recoveryNamespaces: namespaces, onReport, log, clock } = this.#options;
    const { config, policy } = upkeep;
    const { services, updatedNodes } = policy.recovery;
    const restartsNodes = updatedNodes === 'Restart';
    const { problem } = this.#lookups;
    const staleForMs = this.#watches.staleForMs();
    const obstacle = upkeep.obstacle ?? this.#record.problem;
    const pending = [...this.#pending.values()].map(({ scope }) => scope);
    const recoveredNow = new Set([...pending, ...openIn(this.#state, clock.now())].map(keyOf));
    const left = pending.filter((scope) => !hasSpace(this.#state, scope)).map(keyOf);
    const { forbidden } = this.#state;
    const now = { recovered: [...recoveredNow], obstacle, left, forbidden, lostNodes: this.#lostNodes };
    const report = config && reportOf({ services, restartsNodes, namespaces, staleForMs, problem, ...now });
    if (isDeepStrictEqual(report, this.#report)) return;
    this.#report = report;
    if (report?.status === 'False') log.warn('recovery needs attention', { ...report });
    onReport();
  }
}
