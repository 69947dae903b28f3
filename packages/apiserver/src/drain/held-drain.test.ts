/** Whole drains of a node. Where budgets hold pods, their owner opens a budget when it sees what it waits for. */
import { DRAIN_DEFAULTS, type DrainSettings } from '@brupop/shared/api/config-spec';
import type { DrainStatus } from '@brupop/shared/api/shadow';
import { indexedBudgets } from '@brupop/shared/drain/budget-index';
import type { Budget } from '@brupop/shared/drain/budgets';
import type { EvictionOutcome } from '@brupop/shared/drain/evictions';
import { type DrainPod, podKey } from '@brupop/shared/drain/pods';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { createLogger } from '@brupop/shared/runtime/log';
import { Changes } from '@brupop/shared/runtime/changes';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { aBudget, aPod } from '@brupop/shared/testing/pods';
import type { DrainView } from './cluster-view.ts';
import type { PassContext } from './context.ts';
import { DrainPass } from './drain-pass.ts';
import { DrainRecord } from './drain-record.ts';
import type { Evictor } from './evictor.ts';

const MINUTE = 60_000;
const PASS_MS = 8_000;

const budgetOf = (pod: string): Budget =>
  aBudget(pod, { selector: { matchLabels: { app: pod } }, currentHealthy: 1, desiredHealthy: 1, expectedPods: 1 });

/** What the owner of a budget sees when it decides whether to delete it. */
type Opens = (pods: readonly string[]) => boolean;

/** A node whose drain begins now. */
class HeldNode {
  readonly clock = new FakeClock();
  readonly evicted: string[] = [];
  readonly ended: string[] = [];
  drain: DrainStatus | undefined;
  /** How often the status was written. */
  writes = 0;
  /** After each pass: the pods that block the drain, why, and since when. */
  readonly blocks: (readonly string[])[] = [];
  settings: Partial<DrainSettings> = {};
  /** Bound to the node right before it is cordoned. */
  late: DrainPod | undefined;
  /** How long pods terminate. */
  endsAfterMs = 0;
  readonly #changes = new Changes(this.clock);
  /** Whether the volumes are on this node only. */
  areLocal = false;
  readonly #opens: Readonly<Record<string, Opens>>;
  readonly #startedAt = this.clock.now();
  #pods: readonly DrainPod[];
  #isCordoned = false;

  /** @param opens - by pod, when the owner of its budget deletes it on the cordoned node */
  constructor(pods: readonly DrainPod[], opens: Readonly<Record<string, Opens>>) {
    this.#pods = pods;
    this.#opens = opens;
  }

  get minutes(): number {
    return Math.round((this.clock.now() - this.#startedAt) / MINUTE);
  }

  /** Runs passes as an agent requests them, until the drain has a result; at most for two hours. */
  async run(): Promise<DrainStatus | undefined> {
    while (this.drain?.result === undefined && this.minutes < 120) {
      const context = this.#context();
      const record = new DrainRecord(context);
      const parts = { view: this.#view(), record, evictor: this.#evictor() };
      const pass = new DrainPass(context, parts, this.clock.monotonic() + PASS_MS).run();
      await this.clock.advance(PASS_MS + 1_000);
      await record.finish(await pass);
      this.blocks.push(this.drain?.blockedBy?.map(({ pod, reason, since }) => `${pod} ${reason} ${since}`) ?? []);
    }
    return this.drain;
  }

  #budgets(): readonly Budget[] {
    const names = this.#pods.map(({ metadata }) => metadata.name);
    const isOpen = (name: string): boolean => this.#isCordoned && this.#opens[name]?.(names) === true;
    return Object.keys(this.#opens).flatMap((name) => (isOpen(name) ? [] : [budgetOf(name)]));
  }

  #evict(pod: DrainPod): EvictionOutcome {
    const { name } = pod.metadata;
    if (this.#budgets().some(({ metadata }) => metadata.name === name))
      return { kind: 'blocked', block: { reason: 'DisruptionBudget', message: 'held' }, retryAfterMs: 0 };
    this.evicted.push(name);
    if (this.endsAfterMs === 0) this.#end(pod);
    else this.#terminate(pod);
    return { kind: 'accepted' };
  }

  #terminate(pod: DrainPod): void {
    const deletionTimestamp = rfc3339(this.clock.now() + this.endsAfterMs);
    const terminating = { ...pod, metadata: { ...pod.metadata, deletionTimestamp } };
    this.#pods = this.#pods.map((one) => (podKey(one) === podKey(pod) ? terminating : one));
    this.clock.after(this.endsAfterMs, () => this.#end(pod));
    this.#changes.notify();
  }

  #end(pod: DrainPod): void {
    this.#pods = this.#pods.filter((one) => podKey(one) !== podKey(pod));
    this.ended.push(`${this.evicted.length} evicted at the end of ${pod.metadata.name}`);
    this.#changes.notify();
  }

  #evictor(): Evictor {
    return {
      mayDelete: true,
      budgetsFor: () => Promise.resolve(indexedBudgets(this.#budgets())),
      evict: (pod: DrainPod) => Promise.resolve(this.#evict(pod)),
    } as unknown as Evictor;
  }

  #node() {
    const metadata = { name: 'node-a', uid: 'n', resourceVersion: '1' };
    return { metadata, unschedulable: this.#isCordoned, annotations: {}, volumesAttached: [] };
  }

  #view(): DrainView {
    const nothing = (): Promise<void> => Promise.resolve();
    return {
      changes: this.#changes,
      volumes: { of: () => Promise.resolve([]) },
      areLocal: () => Promise.resolve(this.areLocal),
      load: nothing,
      learnReplicas: nothing,
      learnDaemonSets: nothing,
      needVolumes: nothing,
      needPod: nothing,
      watch: () => undefined,
      node: () => this.#node(),
      pods: () => this.#pods,
      filter: () => ({ orphaned: new Set() }),
      held: () => () => false,
      pod: () => undefined,
      read: () => Promise.resolve({ pods: this.#pods, node: this.#node() }),
    } as unknown as DrainView;
  }

  #context(): PassContext {
    const shadow = {
      metadata: { name: 'brs-node-a', uid: 's', resourceVersion: '1', generation: 1 },
      drain: this.drain,
    };
    const metric = { inc: () => undefined, observe: () => undefined };
    return {
      shadow,
      clock: this.clock,
      log: createLogger({ level: 'error', write: () => undefined }),
      namespace: 'brupop',
      podName: 'apiserver-1',
      signal: new AbortController().signal,
      identity: { node: 'node-a', nodeUID: 'n' },
      settings: { ...DRAIN_DEFAULTS, blockedBudgets: 'TryLast', ...this.settings },
      nodes: { cordon: () => Promise.resolve(this.#cordon()) },
      shadows: {
        cached: () => undefined,
        writeDrain: (_node: unknown, next: DrainStatus) => Promise.resolve(this.#write(next)),
      },
      events: { record: () => undefined },
      metrics: { drainBlocks: metric, drainDuration: metric },
    } as unknown as PassContext;
  }

  #write(next: DrainStatus): void {
    this.drain = next;
    this.writes += 1;
  }

  #cordon(): string {
    if (this.late !== undefined) this.#pods = [...this.#pods, this.late];
    this.late = undefined;
    this.#isCordoned = true;
    return 'Cordoned';
  }
}

describe('a drain of a node with many pods of StatefulSets whose replacements are never Ready', () => {
  const stateful = (ready: boolean): DrainPod[] =>
    Array.from({ length: 40 }, (_, i) => aPod(`db-${i}`, { claims: [`data-${i}`], stateful: true, ready }));

  it('ends in time, since it waits for one of a namespace only', async () => {
    const node = new HeldNode([...stateful(true), aPod('web')], {});
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 41, unreplaced: ['apps'] });
    expect(node.minutes).toBeLessThan(5);
  });

  it('waits for none of them if their volumes are on the node only, in however many namespaces', async () => {
    const inNamespaces = stateful(true).map((pod, i) => ({
      ...pod,
      metadata: { ...pod.metadata, namespace: `team-${i}` },
    }));
    const node = new HeldNode(inNamespaces, {});
    node.areLocal = true;
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 40 });
    expect(node.minutes).toBeLessThan(5);
  });

  it('waits for none of them if the evicted pods were not Ready either', async () => {
    const node = new HeldNode([...stateful(false), aPod('web')], {});
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 41 });
    expect(node.minutes).toBeLessThan(5);
  });
});

const never: Opens = () => false;
/** As Longhorn does: when the pods whose volumes were attached to the node are gone. */
const without =
  (...others: readonly string[]): Opens =>
  (pods) =>
    !others.some((name) => pods.includes(name));

const database = aPod('database', { claims: ['data'] });
const server = aPod('server', { servesVolumes: true });
const primary = aPod('primary', { priority: 1_000 });

describe('a drain of a node on which a budget holds', () => {
  it('a pod that serves volumes evicts the pods that use them, and then that one', async () => {
    const node = new HeldNode([aPod('web'), server, database], { server: without('database') });
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 3 });
    expect(node.evicted).toEqual(['web', 'database', 'server']);
  });

  it('a pod with the drain policy last evicts the others, and then that one', async () => {
    const last = aPod('storage', { drainPolicy: 'last' });
    const node = new HeldNode([last, aPod('web')], { storage: without('web') });
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 2 });
    expect(node.evicted).toEqual(['web', 'storage']);
  });

  it('a pod that serves volumes ends at the time limit if that budget stays closed', async () => {
    const node = new HeldNode([server, database], { server: never });
    const { result, evicted, remaining, blockedBy } = (await node.run()) ?? {};
    expect({ result, evicted, remaining }).toEqual({ result: 'TimedOut', evicted: 1, remaining: 1 });
    expect(blockedBy).toMatchObject([{ pod: 'apps/server', reason: 'DisruptionBudget' }]);
    expect(node.minutes).toBe(30);
  });

  it('another pod, too, evicts nothing until this one is let go', async () => {
    const opens = { server: without('database'), primary: never };
    const node = new HeldNode([server, database, primary], opens);
    expect(await node.run()).toMatchObject({ result: 'Blocked', evicted: 0, remaining: 3 });
    expect(node.minutes).toBe(5);
  });

  it('another pod, too, goes on to the others in their order once this one is let go', async () => {
    const opens = { server: without('database', 'primary'), primary: () => true };
    const node = new HeldNode([server, database, primary], opens);
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 3 });
    expect(node.evicted).toEqual(['primary', 'database', 'server']);
  });

  it('pods with volumes that budgets hold are evicted one by one once these are open', async () => {
    const [a, b] = ['db-a', 'db-b'].map((name) => aPod(name, { claims: [name] })) as [DrainPod, DrainPod];
    const node = new HeldNode([a, b], { 'db-a': () => true, 'db-b': () => true });
    node.endsAfterMs = 20_000;
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 2 });
    expect(node.ended).toEqual(['1 evicted at the end of db-a', '2 evicted at the end of db-b']);
  });

  it('a pod with volumes waits with others of lower priority until that one has ended', async () => {
    const node = new HeldNode([database, { ...primary, claims: ['pg'] }], { primary: () => true });
    node.endsAfterMs = 20_000;
    expect(await node.run()).toMatchObject({ result: 'Drained', evicted: 2 });
    expect(node.ended).toEqual(['1 evicted at the end of primary', '2 evicted at the end of database']);
  });

  it.each(['TryLast', 'Wait'] as const)(
    'several pods with volumes names the budgets since the first pass (%s)',
    async (blockedBudgets) => {
      const pods = ['db-a', 'db-b', 'db-c'].map((name) => aPod(name, { claims: [name] }));
      const node = new HeldNode(pods, { 'db-a': never, 'db-b': never, 'db-c': never });
      node.settings = { blockedBudgets, timeoutMs: 5 * MINUTE };
      await node.run();
      const isFirst = (block: string): boolean => /^apps\/db-[abc] DisruptionBudget /u.test(block);
      expect(node.blocks.flat().filter((block) => !isFirst(block))).toEqual([]);
      expect(new Set(node.blocks.flat().map((block) => block.split(' ')[2])).size).toBe(1);
    },
  );

  it.each(['TryLast', 'Wait'] as const)(
    'one pod with a volume is not recorded again by each pass (%s)',
    async (blockedBudgets) => {
      const node = new HeldNode([aPod('db', { claims: ['db'] })], { db: never });
      node.settings = { blockedBudgets, timeoutMs: 5 * MINUTE };
      await node.run();
      expect(node.blocks.length).toBeGreaterThan(20);
      expect(node.writes).toBeLessThan(6);
    },
  );
});

describe('a pod that the configuration keeps, and that is bound to the node right before the cordon,', () => {
  it.each([
    ['emptyDirPods', { emptyDir: true }],
    ['unmanagedPods', { unmanaged: true }],
    ['unmanagedPods', { unmanaged: true, claims: ['data'] }],
  ])('is not evicted, and blocks the drain (%s)', async (setting, changes) => {
    const node = new HeldNode([aPod('web')], {});
    node.settings = { [setting]: 'Block', timeoutMs: 5 * MINUTE };
    node.late = aPod('late', changes);
    expect(await node.run()).toMatchObject({ result: 'TimedOut', evicted: 1, remaining: 1 });
    expect(node.evicted).toEqual(['web']);
    expect(node.blocks.flat().every((block) => block.startsWith('apps/late BlockedByPolicy '))).toBe(true);
  });

  it('ends a drain as Blocked in which budgets hold pods, too', async () => {
    const node = new HeldNode([primary], { primary: never });
    node.settings = { emptyDirPods: 'Block' };
    node.late = aPod('late', { emptyDir: true });
    expect(await node.run()).toMatchObject({ result: 'Blocked', evicted: 0, remaining: 2 });
    expect(node.minutes).toBe(5);
  });
});
