/**
 * Notifies the receivers of `spec.notifications`, on the leader only. The loop of the controller calls {@link Notifier.observe}
 * with each plan, which queues what is new and returns at once: no update waits for a notification, and none is decided by one.
 * What was sent is in the status of the BrupopConfig, which is written with the next status. A leader that stops between the
 * two leaves an event to the next one, which sends it again with the same ID.
 */
import { isDeepStrictEqual } from 'node:util';
import type { BrupopConfig, NotificationsStatus } from '@brupop/shared/api/brupop-config';
import type { Receiver } from '@brupop/shared/api/config-notifications';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import { type Logger, RetriedProblem } from '@brupop/shared/runtime/log';
import { TokenBucket } from '@brupop/shared/runtime/token-bucket';
import type { Snapshot } from '../cluster/snapshot.ts';
import type { Metrics } from '../metrics.ts';
import type { NotificationsShown } from '../report/config-status.ts';
import type { WholePlan } from '../report/report.ts';
import { type DeliveryOptions, findTarget, post } from './deliver.ts';
import { isCertain, isRolling, lastSuccessOf, type Notices, noticesOf } from './events.ts';
import { Outbox, type OutboxOptions, type Queued } from './outbox.ts';
import { bodyOf } from './payload.ts';
import {
  dueOf,
  hashOf,
  type Known,
  knownFrom,
  type LastSeen,
  newcomer,
  type RolloutTimes,
  rolloutAfter,
  seenAt,
  withoutEnded,
  withChange,
  withCheck,
  withSent,
  withState,
  withUnasked,
} from './record.ts';
import { reportOf } from './report.ts';

interface NotifierOptions extends DeliveryOptions {
  readonly log: Logger;
  readonly metrics: Pick<
    Metrics,
    'notifications' | 'notificationFailures' | 'notificationReceiverReady' | 'receiverLabels'
  >;
  /** The report has changed. */
  readonly onReport: () => void;
}

/** Two agents may claim to be offered one version after the other. */
const APPROVALS = { burst: 10, perSecond: 1 / 600 };

interface Entry {
  readonly receiver: Receiver;
  known: Known;
  readonly outbox: Outbox;
  readonly approvals: TokenBucket;
}

type Change = (known: Known, now: string, receiver: Receiver) => Known;

interface Found extends Notices {
  /** By former leaders, or by this one. */
  readonly recorded: NotificationsStatus | undefined;
}

const NO_ROLLOUT: RolloutTimes = { startedAt: undefined, endedAt: undefined };

export class Notifier {
  readonly #options: NotifierOptions;
  /** In the order of the spec, by name. */
  #entries = new Map<string, Entry>();
  /** Of receivers that were removed, until their attempt has ended. */
  readonly #removed = new Set<Outbox>();
  #seen: LastSeen = new Map();
  #rollout = NO_ROLLOUT;
  /** Of this process as the leader; undefined: it does not lead. */
  #signal: AbortSignal | undefined;
  /** The record of former leaders has been read. */
  #isRead = false;

  constructor(options: NotifierOptions) {
    this.#options = options;
  }

  /** Undefined without receivers. */
  get report(): NotificationsShown {
    if (!this.#isRead) return 'unknown';
    const entries = [...this.#entries.values()];
    if (entries.length === 0) return undefined;
    return reportOf(
      entries.map(({ receiver }) => receiver),
      entries.map(({ known }) => known),
      this.#rollout,
    );
  }

  /** Runs until `signal` aborts. Never throws. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    const { promise, resolve } = Promise.withResolvers<void>();
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    this.#signal = undefined;
    const outboxes = [...this.#removed, ...[...this.#entries.values()].map(({ outbox }) => outbox)];
    this.#entries = new Map();
    this.#seen = new Map();
    this.#rollout = NO_ROLLOUT;
    this.#isRead = false;
    this.#options.metrics.notificationReceiverReady.reset();
    await Promise.all(outboxes.map((outbox) => outbox.settled()));
  }

  /** @param snapshot - with the status as it was last written */
  observe(plan: WholePlan, snapshot: Pick<Snapshot, 'config' | 'groupObjects' | 'managedNodes'>): void {
    const { config } = snapshot;
    const signal = this.#signal;
    if (signal === undefined || signal.aborted || config === undefined) return;
    const before = this.report;
    if (!this.#isRead) this.#read(config);
    const receivers = plan.policy.notifications;
    if (receivers.length > 0 || this.#entries.size > 0) this.#observe(plan, { ...snapshot, config }, signal);
    if (!isDeepStrictEqual(this.report, before)) this.#options.onReport();
  }

  #observe(
    plan: WholePlan,
    {
      config,
      groupObjects,
      managedNodes,
    }: { readonly config: BrupopConfig } & Pick<Snapshot, 'groupObjects' | 'managedNodes'>,
    signal: AbortSignal,
  ): void {
    const { clock } = this.#options;
    const receivers = plan.policy.notifications;
    const now = clock.now();
    this.#followRollout(plan, managedNodes, now);
    const { endedAt: finishedAt } = this.#rollout;
    const status = config.status ?? {};
    const found = noticesOf({ plan, status, groups: groupObjects, nodes: managedNodes, finishedAt });
    this.#seen = seenAt(this.#seen, found, clock.monotonic());
    this.#follow(receivers, { ...found, recorded: status.notifications });
    for (const entry of this.#entries.values()) {
      entry.known = withUnasked(withoutEnded(entry.known, this.#seen), entry.receiver, found, this.#seen);
      const due = dueOf(found.notices, entry.receiver, entry.known).filter(({ id }) => !entry.outbox.has(id));
      for (const notice of due) {
        const mayBeSent = notice.event !== 'WaitsForApproval' || entry.approvals.take();
        if (mayBeSent) entry.outbox.offer({ notice, at: now }, signal);
      }
    }
  }

  #read({ status }: BrupopConfig): void {
    const { rolloutStartTime, rolloutEndTime, receivers = [] } = status?.notifications ?? {};
    const notices = receivers.flatMap(({ sent = [] }) => sent.map((id) => ({ id })));
    this.#seen = seenAt(new Map(), { notices, others: [] }, this.#options.clock.monotonic());
    this.#rollout = { startedAt: parseTime(rolloutStartTime), endedAt: parseTime(rolloutEndTime) };
    this.#isRead = true;
  }

  #followRollout(plan: WholePlan, nodes: Snapshot['managedNodes'], now: number): void {
    const isWanted = plan.policy.notifications.some(({ events }) => events.includes('Finished'));
    const lastSuccess = (): number => lastSuccessOf(nodes);
    const found = { isRolling: isRolling(plan), isCertain: isCertain(plan), lastSuccess };
    this.#rollout = isWanted ? rolloutAfter(this.#rollout, found, now) : NO_ROLLOUT;
  }

  #follow(receivers: readonly Receiver[], found: Found): void {
    const { metrics } = this.#options;
    const before = this.#entries;
    this.#entries = new Map(
      receivers.map((receiver) => [receiver.name, this.#entryOf(receiver, before.get(receiver.name), found)]),
    );
    for (const [name, { outbox }] of before) {
      if (this.#entries.has(name)) continue;
      outbox.close();
      this.#removed.add(outbox);
      void outbox.settled().then(() => this.#removed.delete(outbox));
      metrics.notificationReceiverReady.remove({ receiver: metrics.receiverLabels.of(name) });
    }
  }

  #entryOf(receiver: Receiver, entry: Entry | undefined, { recorded, ...found }: Found): Entry {
    const signal = this.#signal;
    if (entry !== undefined && isDeepStrictEqual(entry.receiver, receiver)) return entry;
    const now = rfc3339(this.#options.clock.now());
    const known =
      entry === undefined ? (knownFrom(recorded, receiver, now) ?? newcomer(found, now)) : withChange(entry.known, now);
    const outbox = entry?.outbox ?? this.#newOutbox(receiver);
    const approvals = entry?.approvals ?? new TokenBucket(this.#options.clock, APPROVALS);
    if (signal !== undefined) outbox.update(receiver, signal);
    return { receiver, known, outbox, approvals };
  }

  #newOutbox(receiver: Receiver): Outbox {
    const { name } = receiver;
    // An attempt may end after its receiver was removed, and another one may have its name by then.
    const change = (next: Change): void => {
      if (this.#entries.get(name)?.outbox === outbox) this.#change(name, next);
    };
    const outbox: Outbox = new Outbox(receiver, this.#outboxOptions(name, change));
    return outbox;
  }

  #outboxOptions(name: string, change: (next: Change) => void): OutboxOptions {
    const { clock, log, metrics, onReport } = this.#options;
    const label = metrics.receiverLabels.of(name);
    const problem = new RetriedProblem(clock);
    // Without an entry, the receiver was removed, or this process has lost leadership.
    const show = (next: Change): void => {
      change(next);
      const { state } = this.#entries.get(name)?.known ?? {};
      if (state !== undefined) metrics.notificationReceiverReady.set({ receiver: label }, state === 'Ready' ? 1 : 0);
    };
    return {
      clock,
      log,
      check: async (receiver, signal) => void (await findTarget(receiver, this.#options, signal)),
      send: (receiver, queued, signal) => this.#send(receiver, queued, signal),
      onReady: (by) => {
        if (problem.ended()) log.info('the receiver of notifications is ready again', { receiver: name });
        show((known, now) => (by === 'check' ? withCheck(known, now) : withState(known, now, 'Ready')));
      },
      onFailure: (reason, message) => {
        log[problem.levelOf(message)]('cannot notify, retrying', { receiver: name, reason, error: message });
        metrics.notificationFailures.inc({ receiver: label, reason });
        show((known, now, receiver) =>
          withState(known, now, 'NotReady', { message, reason, receiverHash: hashOf(receiver) }),
        );
      },
      onResult: (id, result) => {
        metrics.notifications.inc({ receiver: label, result });
        const sentAt = result === 'Sent' ? (now: string) => ({ lastSentTime: now }) : () => ({});
        change((known, now) => ({ ...withSent(known, id, this.#seen), ...sentAt(now) }));
        onReport();
      },
    };
  }

  async #send(receiver: Receiver, { notice, at }: Queued, signal: AbortSignal): Promise<void> {
    const target = await findTarget(receiver, this.#options, signal);
    await post(target, bodyOf(notice, receiver, at), this.#options, signal);
  }

  #change(name: string, next: Change): void {
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    const known = next(entry.known, rfc3339(this.#options.clock.now()), entry.receiver);
    if (known === entry.known) return;
    entry.known = known;
    this.#options.onReport();
  }
}
