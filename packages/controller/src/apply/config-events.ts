/**
 * What users see when the status of the BrupopConfig has changed: Events on it, and lines in the
 * log. `brupop-config.ts` calls {@link recordChanges} after each write, so that each change is reported once.
 */
import type { BrupopConfigStatus, FailedNodeStatus } from '@brupop/shared/api/brupop-config';
import type { Condition } from '@brupop/shared/api/meta';
import { CONFIG_NAME, CONFIG_OBJECT, NODE_GROUP_KIND } from '@brupop/shared/api/names';
import type { ObjectReference } from '@brupop/shared/kube/events';
import { countFailure } from '../metrics.ts';
import type { WholePlan } from '../report/report.ts';
import { describeFrozen } from '../report/stopped-versions.ts';
import type { ApplyContext } from './writer.ts';

/** Reasons of the Events on the BrupopConfig. `docs/runbook.md` explains each. */
export const CONFIG_EVENT_REASONS = [
  'Frozen',
  'Resumed',
  'CanariesSucceeded',
  'WaitingForApproval',
  'ProgressDeadlineExceeded',
] as const;
/**
 * Conditions whose changes are reported, by their reasons and whether it is a warning; the Events above report the others. A
 * rollout changes between two of them with each node, so each is reported once an hour.
 */
const REPORTED: Readonly<Record<string, Readonly<Record<string, boolean>>>> = {
  Ready: { InUse: false, InvalidConfiguration: true },
  Paused: { Paused: false, NotPaused: false },
  Frozen: { ClockSkew: true },
  Held: { WorkloadsFail: true, NotHeld: false },
  Connected: { LeasesExpired: true, LeasesRenewed: false },
  WindowOpen: { NoWindows: false, InWindow: false, OutsideWindows: false, Blackout: false },
  Progressing: {
    Updating: false,
    UpToDate: false,
    NoNodes: false,
    WatchStale: true,
    WaitingForCanary: false,
    Soaking: false,
    CheckNotPassed: true,
  },
  Degraded: { NodesFailed: true, NodesNeedAttention: true, AsExpected: false },
};
export const CONDITION_EVENT_REASONS = Object.values(REPORTED).flatMap((reasons) => Object.keys(reasons));
/** Those that keep the whole fleet from starting are in the log as well, which is there longer than Events. */
const LOGGED = new Set(['Ready', 'Paused', 'Frozen', 'Connected', 'WindowOpen']);
/** A new configuration has them. */
const AT_FIRST = new Set(['InUse', 'NotPaused', 'NotHeld', 'LeasesRenewed', 'NoWindows', 'AsExpected']);
const HOUR_MS = 3_600_000;
const [FROZEN, RESUMED, CANARIES_SUCCEEDED, APPROVAL, LATE] = CONFIG_EVENT_REASONS;

type Context = Pick<ApplyContext, 'clock' | 'events' | 'log' | 'metrics'>;

interface Change {
  readonly uid: string;
  readonly before: BrupopConfigStatus | undefined;
  readonly now: BrupopConfigStatus;
  readonly failed: WholePlan['failed'];
  readonly frozen: WholePlan['frozen'];
}

type Lane = Pick<BrupopConfigStatus, 'frozenVersions' | 'canaries'>;

/** Of the configuration, or of a group. */
interface LaneChange extends Pick<Change, 'uid' | 'failed' | 'frozen'> {
  readonly before: Lane | undefined;
  readonly now: Lane;
  readonly about: ObjectReference;
}

export function recordChanges(context: Context, change: Change): void {
  logAges(context, change);
  recordLane(context, { ...change, about: aboutConfig(change) });
  recordApproval(context, change);
  recordLateness(context, change);
  logHold(context, change);
  recordConditions(context, change);
  countFailures(context, change);
}

/** What has changed for versions. */
export function recordLane(context: Pick<Context, 'events' | 'log'>, change: LaneChange): void {
  recordFreezes(context, change);
  recordCanaries(context, change);
}

function aboutConfig({ uid }: Change) {
  return { ...CONFIG_OBJECT, name: CONFIG_NAME, uid };
}

function logAges({ log }: Context, { before, now }: Change): void {
  const aging = new Set(
    (now.versions ?? []).flatMap(({ version, firstOfferedTime }) => (firstOfferedTime === undefined ? [] : [version])),
  );
  for (const { version, firstOfferedTime } of before?.versions ?? []) {
    if (firstOfferedTime === undefined || aging.has(version)) continue;
    log.info('resetting the age of a version: too few nodes run it or are offered it', { version });
  }
}

function recordFreezes({ events, log }: Pick<Context, 'events' | 'log'>, change: LaneChange): void {
  const { uid, before, now, failed, frozen, about } = change;
  const where = fieldsOf(about);
  const [old, current] = [before?.frozenVersions ?? [], now.frozenVersions ?? []];
  const missing = (from: typeof old, other: typeof old): typeof old =>
    from.filter(({ version }) => !other.some((one) => one.version === version));
  for (const { version, since } of missing(current, old)) {
    const found = frozen.find((one) => one.version === version);
    const message = describeFrozen(found ?? { version, holdsOlder: false }, failed);
    events.record({ reason: FROZEN, warning: true, about, message, key: `${uid}/${version}/${since}` });
    log.error('version frozen: too many nodes failed with it', { version, ...where });
  }
  for (const { version, since } of missing(old, current)) {
    const message = `${version} is no longer frozen`;
    events.record({ reason: RESUMED, warning: false, about, message, key: `${uid}/${version}/${since}/resumed` });
    log.info('version no longer frozen', { version, ...where });
  }
}

/** The time of a failure changes when its attempt ends. */
function countFailures({ metrics }: Context, { before, now }: Change): void {
  const known = new Set(before?.failedNodes?.map(failureKey));
  for (const one of now.failedNodes ?? []) if (!known.has(failureKey(one))) countFailure(metrics, one);
}

function failureKey({ name, version, code }: FailedNodeStatus): string {
  return `${name}/${version}/${code}`;
}

function fieldsOf({ kind, name }: ObjectReference): { readonly group?: string } {
  return kind === NODE_GROUP_KIND ? { group: name } : {};
}

function recordCanaries({ events, log }: Pick<Context, 'events' | 'log'>, change: LaneChange): void {
  const { uid, before, now, about } = change;
  for (const { version, since } of now.canaries ?? []) {
    if (before?.canaries?.some((one) => one.version === version) === true) continue;
    const message = `As many canaries as spec.rollout.canary asks for run ${version} and are healthy`;
    const key = `${uid}/${version}/${since}/canaries`;
    events.record({ reason: CANARIES_SUCCEEDED, warning: false, about, message, key });
    log.info('canaries have succeeded', { version, ...fieldsOf(about) });
  }
}

function recordApproval({ events, log }: Context, change: Change): void {
  if (!isNew(change, 'Progressing', APPROVAL)) return;
  const { uid, now } = change;
  const command = `kubectl patch brc ${CONFIG_NAME} --type merge -p '{"spec":{"rollout":{"approvedVersion":"VERSION"}}}'`;
  const message =
    `Nodes wait for an approval of their version; kubectl get brs -A -o wide shows it. To approve: ${command}. ` +
    'A group with a rollout of its own is approved in its own spec';
  const key = `${uid}/approval/${now.progress?.lastProgressTime ?? ''}`;
  events.record({ reason: APPROVAL, warning: false, about: aboutConfig(change), message, key });
  log.info('nodes wait for an approval of their version');
}

function recordLateness({ events, log }: Context, change: Change): void {
  if (!isNew(change, 'Degraded', LATE)) return;
  const { uid, now } = change;
  const message = conditionOf(now, 'Degraded')?.message ?? '';
  const key = `${uid}/late/${now.progress?.lastProgressTime ?? ''}`;
  events.record({ reason: LATE, warning: true, about: aboutConfig(change), message, key });
  log.error('rollout late', { message });
}

function logHold({ log }: Context, change: Change): void {
  const { reason = '', message = '' } = conditionOf(change.now, 'Held') ?? {};
  if (isNew(change, 'Held', 'WorkloadsFail')) log.error('version held: workloads fail on it', { message });
  else if (conditionOf(change.before, 'Held')?.status === 'True' && reason === 'NotHeld')
    log.info('no version is held any more');
}

const NONE = { reason: '', message: '' };

function recordConditions({ events, clock, log }: Context, change: Change): void {
  const { uid, before, now } = change;
  for (const [type, reasons] of Object.entries(REPORTED)) {
    const { reason, message } = conditionOf(now, type) ?? NONE;
    const warning = reasons[reason];
    const isFirst = before?.conditions === undefined && AT_FIRST.has(reason);
    if (warning === undefined || isFirst || !isNew(change, type, reason)) continue;
    const key = `${uid}/${type}/${Math.floor(clock.now() / HOUR_MS)}`;
    events.record({ reason, warning, about: aboutConfig(change), message, key });
    const level = warning ? 'warn' : 'info';
    if (LOGGED.has(type))
      log[level]('a condition of the BrupopConfig has changed', { condition: type, reason, message });
  }
}

function conditionOf(status: BrupopConfigStatus | undefined, wanted: string): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === wanted);
}

/** True when a condition has got this reason. */
function isNew({ before, now }: Change, type: string, reason: string): boolean {
  return conditionOf(now, type)?.reason === reason && conditionOf(before, type)?.reason !== reason;
}
