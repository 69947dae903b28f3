import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../framework/eventually.ts';
import type { LeaseCandidateOptions } from './candidate.ts';
import { createLedger, readSpec, termsOf, type World } from './world.ts';

const START_LIMIT_MS = 30_000;

/** The outcome: times in milliseconds from the signal until another candidate held the Lease. */
export interface Scenario {
  /** After the leader was frozen. */
  readonly takeovers: readonly number[];
  readonly stopMs: number;
  readonly killMs: number;
  /** A term is there twice if a leader that was frozen has written after another one. */
  readonly terms: readonly string[];
}

/**
 * Runs four processes, which write as fast as they can while they are the leader, each time with the resourceVersion
 * that they read: a process that is frozen after the check of its lead sends that one write when it goes on. Two
 * leaders are frozen past the lease and thawed, one is stopped, one killed.
 */
export async function scenario(
  world: World,
  lease: string,
  limits: LeaseCandidateOptions['limits'],
): Promise<Scenario> {
  await createLedger(world, lease);
  const children = new Children(world, lease, limits);
  try {
    const identities = ['a', 'b', 'c', 'd'];
    await Promise.all(identities.map((identity) => children.start(identity)));
    for (const identity of identities) await children.startCandidate(identity);
    const first = await children.freeze('a');
    const second = await children.freeze(first.to);
    const stopped = await children.handover(second.to, 'SIGTERM');
    await children.hasWritten(stopped.to);
    const killed = await children.handover(stopped.to, 'SIGKILL');
    await children.hasWritten(killed.to);
    return {
      takeovers: [first.ms, second.ms],
      stopMs: stopped.ms,
      killMs: killed.ms,
      terms: await termsOf(world, lease),
    };
  } finally {
    await children.end();
  }
}

/** Kills a leader with the durations of the controller; resolves with the time until another leads. */
export async function killed(world: World, lease: string): Promise<number> {
  await createLedger(world, lease);
  const children = new Children(world, lease, undefined);
  try {
    await Promise.all(['a', 'b'].map((identity) => children.start(identity)));
    for (const identity of ['a', 'b']) await children.startCandidate(identity);
    const { ms, to } = await children.handover('a', 'SIGKILL');
    await children.hasWritten(to);
    return ms;
  } finally {
    await children.end();
  }
}

interface Handover {
  readonly ms: number;
  readonly to: string;
}

class Children {
  readonly #world: World;
  readonly #lease: string;
  readonly #limits: LeaseCandidateOptions['limits'];
  readonly #children = new Map<string, ChildProcess>();

  constructor(world: World, lease: string, limits: LeaseCandidateOptions['limits']) {
    this.#world = world;
    this.#lease = lease;
    this.#limits = limits;
  }

  /** Resolves when the process has started. */
  async start(identity: string): Promise<void> {
    const { cluster, namespace } = this.#world;
    const options: LeaseCandidateOptions = {
      access: cluster.accessAs('admin'),
      namespace,
      lease: this.#lease,
      identity,
      ...(this.#limits && { limits: this.#limits }),
      pauseMs: 0,
      conditional: true,
    };
    const script = join(import.meta.dirname, 'child.ts');
    const child = spawn(process.execPath, [script, JSON.stringify(options)], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#children.set(identity, child);
    await once(child.stdout, 'data', { signal: AbortSignal.timeout(START_LIMIT_MS) });
  }

  /** Starts the candidate; resolves when it has observed a holder of the Lease. */
  async startCandidate(identity: string): Promise<void> {
    const child = this.#children.get(identity);
    if (!child?.stdout || !child.stdin) throw new Error(`${identity} was not started`);
    child.stdin.write('start\n');
    await once(child.stdout, 'data', { signal: AbortSignal.timeout(START_LIMIT_MS) });
  }

  async handover(from: string, signal: NodeJS.Signals): Promise<Handover> {
    const since = performance.now();
    this.#children.get(from)?.kill(signal);
    const to = await eventually(async () => {
      const { holderIdentity = '' } = await readSpec(this.#world, this.#lease);
      if (holderIdentity === '' || holderIdentity === from) throw new Error(`the Lease is held by '${holderIdentity}'`);
      return holderIdentity;
    });
    return { ms: performance.now() - since, to };
  }

  /** Freezes the leader until another one leads and writes, then thaws it. */
  async freeze(leader: string): Promise<Handover> {
    const handover = await this.handover(leader, 'SIGSTOP');
    await this.hasWritten(handover.to);
    this.#children.get(leader)?.kill('SIGCONT');
    await sleep(500);
    return handover;
  }

  async hasWritten(identity: string): Promise<void> {
    await eventually(async () => {
      const latest = (await termsOf(this.#world, this.#lease)).at(-1);
      if (latest?.startsWith(`${identity}-`) !== true) throw new Error(`${identity} has not written`);
    });
  }

  async end(): Promise<void> {
    const running = [...this.#children.values()].filter(
      ({ exitCode, signalCode }) => exitCode === null && signalCode === null,
    );
    const gone = running.map((child) => once(child, 'exit'));
    for (const child of running) child.kill('SIGKILL');
    await Promise.all(gone);
  }
}
