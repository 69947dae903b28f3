/** Checks the invariants and logs what happens. */
import type { AgentStatus, LastOperation } from '@brupop/shared/api/shadow';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { CallName, SimWorld } from './sim-world.ts';
import { UserActions } from './user-actions.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** A finished drain counts for 5 s, its answer may have been on its way for 9 s, and what was decided then is sent within 2 s. */
const DRAIN_AGE_MS = 16 * SECOND;
const WINDOW_MS = 10 * MINUTE;
/** A whole update takes about 20 calls, an outage a few tens of tries; more in 10 minutes would be load. */
const MOST_CALLS = 250;
/** A spec counts as current for 60 s; then an answer may be on its way for 9 s. */
const SPEC_AGE_MS = 70 * SECOND;
const SEMVER = /^\d+\.\d+\.\d+$/;
const TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/;

export class Invariants {
  /** Violated invariants. */
  readonly violations: string[] = [];
  readonly log: string[] = [];
  readonly userActions: UserActions;
  calls = 0;
  readonly #world: SimWorld;
  #recent: number[] = [];
  readonly #reboots = new Map<string, number>();
  #asked: string | undefined;
  /** Version and shadow of the latest requested reboot, and of the latest that rolled back. */
  #booting: string | undefined;
  #rolledBack: string | undefined;
  #specLeftAt: number | undefined;
  /** The shadow whose status was wiped. */
  #forgotten: string | undefined;

  constructor(world: SimWorld) {
    this.#world = world;
    this.userActions = new UserActions(world, this);
  }

  observe(text: string): void {
    this.log.push(`${Math.round(this.#world.clock.monotonic())} ${text}`);
  }

  wrong(what: string): void {
    this.violations.push(what);
    this.observe(`VIOLATION ${what}`);
  }

  called(name: CallName): void {
    if (name === 'look') return;
    this.calls += 1;
    this.observe(`call ${name}`);
    const now = this.#world.clock.monotonic();
    this.#recent.push(now);
    while ((this.#recent[0] ?? now) < now - WINDOW_MS) this.#recent.shift();
    if (this.#recent.length === MOST_CALLS) this.wrong(`${MOST_CALLS} calls within 10 minutes, the latest: ${name}`);
    if (name === 'activate') this.#requireDrained('activate');
    if (name === 'deactivate' || name === 'restore') this.#requireNoReboot(name);
  }

  reported(status: AgentStatus): void {
    const { lastOperation: last, current_state, observedGeneration } = status;
    this.observe(`report ${current_state} of ${observedGeneration} ${describe(last)}`);
    if (!isTaken(status)) this.wrong(`the apiserver would reject ${JSON.stringify(status)}`);
  }

  /** The agent's reboot call arrives at the host. */
  rebootAsked(): void {
    const { cluster, clock } = this.#world;
    const { shadow } = cluster;
    this.#requireDrained('reboot');
    this.#asked = `${shadow?.uid}/${shadow?.generation}`;
    const isKnown = this.#forgotten === undefined || this.#forgotten !== shadow?.uid;
    if (isKnown && this.#rolledBack === this.#attempted)
      this.wrong(`rebooted again into ${this.#rolledBack}, which rolled back`);
    this.#booting = this.#attempted;
    const staleMs = clock.monotonic() - (this.#specLeftAt ?? clock.monotonic());
    if (staleMs > SPEC_AGE_MS) this.wrong(`rebooted for a spec that was withdrawn ${staleMs} ms ago`);
  }

  /** The spec or the shadow has changed. */
  specChanged(): void {
    const asks = this.#world.cluster.shadow?.spec.state === 'RebootedIntoUpdate';
    this.#specLeftAt = asks ? undefined : (this.#specLeftAt ?? this.#world.clock.monotonic());
  }

  /** A boot of what was activated has failed. */
  rolledBack(): void {
    this.observe('the boot rolls back');
    this.#rolledBack = this.#booting;
  }

  /** A user requests something else: earlier failures do not count. */
  forgive(): void {
    this.#rolledBack = undefined;
  }

  /** A user removes the record: which boot of this shadow has rolled back cannot be known any more. */
  forget(): void {
    this.#forgotten = this.#world.cluster.shadow?.uid;
  }

  get #attempted(): string {
    return `${this.#world.host.inactive} of ${this.#world.cluster.shadow?.uid}`;
  }

  /** The host starts to go down. */
  shutsDown(why: 'asked' | 'others'): void {
    this.observe(`host shuts down: ${why}`);
    if (why === 'others') return;
    this.#requireEmpty();
    const attempt = this.#asked ?? '';
    const times = (this.#reboots.get(attempt) ?? 0) + 1;
    this.#reboots.set(attempt, times);
    if (times > 1) this.wrong(`rebooted ${times} times for one update`);
  }

  /** The host is down. */
  goesDown(why: 'asked' | 'others'): void {
    this.observe(`host is down: ${why}`);
    if (why === 'asked') this.#requireEmpty();
  }

  #requireEmpty(): void {
    const { cordoned, pods } = this.#world.cluster;
    if (!cordoned || pods > 0)
      this.wrong(`the host goes down for the agent with ${pods} pods on it, cordoned: ${cordoned}`);
  }

  agentEnded(why: string): void {
    this.observe(`agent ended: ${why}`);
    const known = /its mount may be stale|the apiserver has not accepted a call/.test(why);
    if (!known) this.wrong(`the agent ended: ${why}`);
  }

  #requireNoReboot(what: string): void {
    const { cluster, host } = this.#world;
    if (host.rebootComes && cluster.marked) this.wrong(`${what} while the requested reboot may still come`);
  }

  #requireDrained(what: string): void {
    const { cluster, host, clock } = this.#world;
    const { drained, cordoned } = cluster;
    const now = clock.monotonic();
    const fresh = drained !== undefined && now - drained.at <= DRAIN_AGE_MS;
    if (!cordoned || !fresh || drained.boots !== host.boots)
      this.wrong(`${what} without a fresh drain of this boot, cordoned: ${cordoned}`);
  }

  /** What must be true after a long time without faults. */
  atRest(): void {
    const { shadow } = this.#world.cluster;
    const { spec, status } = shadow ?? {};
    if (status?.settings?.inFlight !== undefined) this.wrong('settings are in flight');
    if (spec?.state !== 'Idle') this.wrong(`the update is stuck: ${JSON.stringify(shadow)}`);
    if (!this.#isOver) this.wrong(`neither done nor failed: ${JSON.stringify(shadow)}`);
    this.#nothingLeft();
    if (status?.current_state !== 'Idle') this.wrong(`not confirmed: ${JSON.stringify(shadow)}`);
    this.userActions.atRest();
  }

  #nothingLeft(): void {
    const { cluster, host } = this.#world;
    if (host.armed) this.wrong('the host is left armed');
    if (cluster.marked) this.wrong('the Node is left cordoned or excluded');
  }

  get settled(): boolean {
    const { shadow } = this.#world.cluster;
    const idle = shadow?.spec.state === 'Idle' && shadow.status?.observedGeneration === shadow.generation;
    return idle && shadow.status?.current_state === 'Idle' && this.#isOver && this.userActions.served;
  }

  get #isOver(): boolean {
    const { host, controller } = this.#world;
    return host.choice === undefined || controller.needsUser || controller.paused || this.userActions.wasReverted;
  }

  /** The log, for a failed test. */
  transcript(): string {
    return [...this.log, `at the end ${rfc3339(this.#world.clock.now())}`].join('\n');
  }
}

function describe(last: LastOperation | undefined): string {
  if (last === undefined) return '';
  const { operation, state, errorCode = '', message = '' } = last;
  return `${operation} ${state} ${errorCode} ${message}`;
}

/** Whether the apiserver accepts the report. */
function isTaken(status: AgentStatus): boolean {
  const { current_version, target_version, bootID, bootTime = '', lastOperation: last } = status;
  const versions = [current_version, target_version, ...(last === undefined ? [] : [last.version])];
  const times = [bootTime, ...(last === undefined ? [] : [last.startTime, last.lastUpdateTime])];
  return versions.every((one) => SEMVER.test(one)) && times.every((one) => TIME.test(one)) && bootID !== '';
}
