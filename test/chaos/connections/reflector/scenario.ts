import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createKubeClient, type KubeClient } from '../../../../packages/shared/src/kube/client.ts';
import { Reflector, type ReflectorEvent } from '../../../../packages/shared/src/kube/reflector.ts';
import type { KubernetesObject } from '../../../../packages/shared/src/api/meta.ts';
import { systemClock } from '../../../../packages/shared/src/runtime/clock.ts';
import type { Connection } from '../../../framework/control-plane/connection.ts';
import { eventually } from '../../../framework/eventually.ts';
import { accessThrough, presentCredentials } from '../../../framework/faulty-api/access.ts';
import { FaultyApi } from '../../../framework/faulty-api/faulty-api.ts';
import { MachineLag } from '../../../framework/machine-lag.ts';
import { recordingLogger } from '../../../framework/recording-logger.ts';
import { type Write, Writer } from './writer.ts';

/** Idle limit of the reflectors under test; the default is 100 times as long. */
export const SILENCE_LIMIT_MS = 1_000;

export interface Scenario {
  /** Injects the fault and ends it. */
  readonly harm: (subject: Subject) => Promise<void>;
  /** Maximum number of lists after the first; default 0. */
  readonly lists?: number;
  /** Maximum number of watches after the first. */
  readonly watches: number;
  /** Minimum time for which the reflector must have reported a stale store, in milliseconds. */
  readonly silentMs?: number;
}

/** A reflector with a service account's credentials, behind a proxy of its own. */
export interface Subject {
  readonly api: FaultyApi;
  readonly reflector: Reflector<KubernetesObject>;
  readonly lines: readonly string[];
  /** Replaces the files that a kubelet keeps up to date. */
  readonly present: (credentials: { token?: string; ca?: string }) => Promise<void>;
}

/** The outcome of a scenario. */
export interface Outcome {
  readonly lists: number;
  readonly watches: number;
  /**
   * resourceVersion by name: in the store, by replaying all events from the start, and in a list at
   * the end.
   */
  readonly stored: ReadonlyMap<string, string>;
  readonly replayed: ReadonlyMap<string, string>;
  readonly listed: ReadonlyMap<string, string>;
  /** Confirmed writes without an event; a list may skip some. */
  readonly missed: readonly Write[];
  /**
   * The longest time in milliseconds for which the store was stale by more than two idle limits
   * without the reflector reporting it.
   */
  readonly deceivedMs: number;
  readonly silentMs: number;
  /** Expected events that did not happen in time. */
  readonly trouble: readonly string[];
  /** The longest time for which the machine was frozen. */
  readonly stillMs: number;
}

interface Arrangement {
  readonly cluster: Connection;
  readonly namespace: string;
}

/**
 * Runs all scenarios in parallel, while writers write. Returns the outcome of each by name; rejects
 * for an impossible sequence of events.
 */
export async function endure(
  arrangement: Arrangement,
  scenarios: Readonly<Record<string, Scenario>>,
): Promise<Map<string, Promise<Outcome>>> {
  const { cluster, namespace } = arrangement;
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const suite = randomBytes(4).toString('hex');
  const machineLag = new MachineLag(cluster.api);
  const since = performance.now();
  const writer = new Writer(cluster.api, path, { suite }).start();
  const observations = await startAll(arrangement, scenarios, writer, suite).catch(async (error: unknown) => {
    await machineLag.stop();
    throw error;
  });
  const observed = observations.map(async ([name, scenario, observation]) => {
    const harmed = scenario.harm(observation).then(() => sleep(300));
    await harmed.catch(() => undefined);
    return [name, observation, harmed] as const;
  });
  const ended = await Promise.all(observed);
  await Promise.all([writer.stop(), machineLag.stop()]);
  const stillMs = machineLag.worstSince(since);
  const { items } = await cluster.api.get<{ items: KubernetesObject[] }>(`${path}?labelSelector=suite%3D${suite}`);
  const outcomes = ended.map(([name, observation, harmed]) => {
    const outcome = concluded(observation, harmed, items).then((value) => ({ ...value, stillMs }));
    outcome.catch(() => undefined);
    return [name, outcome] as const;
  });
  return new Map(outcomes);
}

async function startAll(
  arrangement: Arrangement,
  scenarios: Readonly<Record<string, Scenario>>,
  writer: Writer,
  suite: string,
): Promise<[string, Scenario, Observation][]> {
  const observations: [string, Scenario, Observation][] = [];
  try {
    for (const [name, scenario] of Object.entries(scenarios))
      observations.push([name, scenario, await Observation.start(arrangement, writer, suite)]);
  } catch (error) {
    await Promise.all([writer.stop(), ...observations.map(([, , observation]) => observation.end())]);
    throw error;
  }
  return observations;
}

async function concluded(
  observation: Observation,
  harmed: Promise<void>,
  items: readonly KubernetesObject[],
): Promise<Omit<Outcome, 'stillMs'>> {
  try {
    const trouble = await harmed.then(
      () => [],
      (error: unknown) => [String(error)],
    );
    return await observation.conclude(items, trouble);
  } finally {
    await observation.end();
  }
}

class Observation implements Subject {
  readonly api: FaultyApi;
  readonly reflector: Reflector<KubernetesObject>;
  readonly lines: readonly string[];
  readonly #client: KubeClient;
  readonly #credentials: { token: string; ca: string; dir: string };
  readonly #writer: Writer;
  readonly #events: ReflectorEvent<KubernetesObject>[] = [];
  readonly #stop = new AbortController();
  #before = { lists: 0, watches: 0 };
  #newest = 0;
  #deceivedMs = 0;
  #silentMs = 0;

  private constructor(options: {
    api: FaultyApi;
    client: KubeClient;
    reflector: Reflector<KubernetesObject>;
    lines: string[];
    writer: Writer;
    credentials: { token: string; ca: string; dir: string };
  }) {
    this.api = options.api;
    this.reflector = options.reflector;
    this.lines = options.lines;
    this.#client = options.client;
    this.#writer = options.writer;
    this.#credentials = options.credentials;
    this.reflector.subscribe((event) => this.#note(event));
  }

  static async start({ cluster, namespace }: Arrangement, writer: Writer, suite: string): Promise<Observation> {
    const api = await FaultyApi.start(cluster);
    const credentials = {
      token: cluster.adminToken,
      ca: api.ca,
      dir: mkdtempSync(join(tmpdir(), 'brupop-reflector-')),
    };
    await presentCredentials(credentials.dir, credentials);
    const access = accessThrough(api, credentials.dir);
    const { log, lines } = recordingLogger();
    const client = await createKubeClient({ userAgent: 'reflector-faults', clock: systemClock, log, access });
    const reflector = new Reflector<KubernetesObject>({
      client,
      clock: systemClock,
      log,
      name: 'configmaps',
      path: `/api/v1/namespaces/${namespace}/configmaps`,
      query: { labelSelector: `suite=${suite}` },
      slim: (raw) => raw as KubernetesObject,
      idleLimitMs: SILENCE_LIMIT_MS,
      listLimitMs: 2 * SILENCE_LIMIT_MS,
    });
    const observation = new Observation({ api, client, reflector, lines, writer, credentials });
    try {
      await observation.#begin();
    } catch (error) {
      await observation.end();
      throw error;
    }
    return observation;
  }

  async present(changed: { token?: string; ca?: string }): Promise<void> {
    Object.assign(this.#credentials, changed);
    await presentCredentials(this.#credentials.dir, this.#credentials);
  }

  async conclude(listed: readonly KubernetesObject[], trouble: readonly string[]): Promise<Omit<Outcome, 'stillMs'>> {
    const expected = versions(listed);
    const late = await eventually(() => expect(versions(this.reflector.list())).toEqual(expected), {
      limitMs: 12_000,
    }).then(
      () => [],
      () => [`the store does not become what a list is: ${this.lines.join('')} ${this.#history()}`],
    );
    const seen = new Set(this.#events.map(({ object }) => Number(object.metadata.resourceVersion)));
    const first = Math.min(...seen);
    const lists = this.#lists - this.#before.lists;
    return {
      lists,
      watches: this.api.count('watch') - this.#before.watches,
      stored: versions(this.reflector.list()),
      replayed: replay(this.#events),
      listed: expected,
      missed:
        lists > 0
          ? []
          : this.#writer.writes.filter(
              ({ resourceVersion }) => resourceVersion > this.#listedAt(first) && !seen.has(resourceVersion),
            ),
      deceivedMs: this.#deceivedMs,
      silentMs: this.#silentMs,
      trouble: [...trouble, ...late],
    };
  }

  /** Without the reads of the revision, which select a name. */
  get #lists(): number {
    return this.api.requests.filter(({ verb, query }) => verb === 'list' && !query.has('fieldSelector')).length;
  }

  #history(): string {
    return this.api.requests
      .map(({ verb, atMs, answer }) => `${Math.round(atMs)} ${verb} ${answer?.kind ?? ''}`)
      .join('; ');
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#client.close();
    await this.api.stop();
    rmSync(this.#credentials.dir, { recursive: true, force: true });
  }

  async #begin(): Promise<void> {
    void this.reflector.run(this.#stop.signal);
    await this.reflector.waitSynced(AbortSignal.timeout(20_000));
    await eventually(() => expect(this.api.openWatches).toBe(1));
    this.#before = { lists: this.#lists, watches: this.api.count('watch') };
    void this.#sample();
  }

  /**
   * The first watch starts at the resourceVersion of the first list: every later write must be
   * seen.
   */
  #listedAt(fallback: number): number {
    const watch = this.api.requests.find(({ verb }) => verb === 'watch');
    return Number(watch?.query.get('resourceVersion') ?? fallback);
  }

  #note(event: ReflectorEvent<KubernetesObject>): void {
    this.#events.push(event);
    if (event.type !== 'Deleted') this.#newest = Math.max(this.#newest, Number(event.object.metadata.resourceVersion));
  }

  async #sample(): Promise<void> {
    let since = performance.now();
    while (!this.#stop.signal.aborted) {
      const silentMs = this.reflector.idleForMs();
      const unseen = this.#writer.writes.find(({ resourceVersion }) => resourceVersion > this.#newest);
      const oldMs = unseen === undefined ? 0 : performance.now() - unseen.atMs;
      this.#silentMs = Math.max(this.#silentMs, silentMs);
      if (oldMs - silentMs <= 2 * SILENCE_LIMIT_MS) since = performance.now();
      this.#deceivedMs = Math.max(this.#deceivedMs, performance.now() - since);
      await sleep(50);
    }
  }
}

function versions(objects: readonly KubernetesObject[]): Map<string, string> {
  const pairs = objects.map(({ metadata }) => [metadata.name, metadata.resourceVersion] as const);
  return new Map(pairs.toSorted(([a], [b]) => a.localeCompare(b)));
}

/** The objects that a listener knows. Throws when an event cannot follow those before it. */
function replay(events: readonly ReflectorEvent<KubernetesObject>[]): Map<string, string> {
  const objects = new Map<string, KubernetesObject>();
  for (const { type, object, old } of events) {
    const { name, resourceVersion } = object.metadata;
    const known = objects.get(name)?.metadata.resourceVersion;
    const follows = {
      Added: known === undefined,
      Modified:
        known !== undefined && old?.metadata.resourceVersion === known && Number(resourceVersion) > Number(known),
      Deleted: known === resourceVersion,
    };
    if (!follows[type]) throw new Error(`${type} ${name}@${resourceVersion} cannot follow ${known ?? 'nothing'}`);
    if (type === 'Deleted') objects.delete(name);
    else objects.set(name, object);
  }
  return versions([...objects.values()]);
}
