import type { BrupopConfig, BrupopConfigStatus } from '@brupop/shared/api/brupop-config';
import { CONTROLLER } from '@brupop/shared/api/names';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { type Fleet, namespacesText } from '../cluster/fleet.ts';
import { skewText } from '../cluster/skew.ts';
import { type NodeRow, nodeRow } from './node.ts';
import { colored, rowsOf, type Screen, wrapped } from './screen.ts';
import { table } from './table.ts';
import { relative } from './times.ts';

export const NO_CONFIG = 'There is no BrupopConfig named cluster: no node starts an update.';

export interface StatusOptions {
  readonly screen: Screen;
  readonly now: number;
  readonly isWide?: boolean;
  /** What is shown may have changed since then. */
  readonly stale?: { readonly since: number; readonly problem: string } | undefined;
  /** A sentence when no controller leads. */
  readonly leaderless?: string | undefined;
}

/** The lines of `status`. */
export function statusLines(
  fleet: Fleet,
  options: StatusOptions,
  order = (rows: readonly NodeRow[]): readonly NodeRow[] => rows,
): string[] {
  const { config, namespace, shadows } = fleet;
  const rows = order(shadows.map(nodeRow));
  return [
    ...staleLines(options),
    ...fleetLines(config?.status, rows, options),
    ...namespaceLines(fleet, options),
    ...noticeLines(fleet, options),
    ...(rows.length === 0 && namespace !== undefined ? [] : ['', ...nodeLines(rows, options)]),
  ];
}

function staleLines({ stale, screen, now }: StatusOptions): string[] {
  if (stale === undefined) return [];
  const text = `Stale since ${relative(rfc3339(stale.since), now)}: ${stale.problem}`;
  return wrapped(text, screen.width, 2).map((line) => colored(line, 'red', screen));
}

function namespaceLines(fleet: Fleet, { screen }: StatusOptions): string[] {
  const text = namespacesText(fleet);
  if (text === undefined) return [];
  return wrapped(`Namespaces: ${text}`, screen.width, 2).map((line) => colored(line, 'yellow', screen));
}

/** Of a status that does not fit the terminal, what is under way, has failed or needs a user comes first. */
export function fittingLines(fleet: Fleet, options: StatusOptions): string[] {
  const { height = Infinity } = options.screen;
  const lines = statusLines(fleet, options);
  if (within(lines, height - 1, options) === lines.length) return lines;
  const sorted = statusLines(fleet, options, (rows) => rows.toSorted((a, b) => urgencyOf(a) - urgencyOf(b)));
  const shown = sorted.slice(0, Math.max(1, within(sorted, height - 2, options)));
  return [...shown, `… and ${sorted.length - shown.length} more nodes`];
}

/** How many lines fit into so many rows of the terminal. */
function within(lines: readonly string[], rows: number, { screen }: StatusOptions): number {
  let left = rows;
  const first = lines.findIndex((line) => {
    left -= rowsOf(line, screen);
    return left < 0;
  });
  return first < 0 ? lines.length : first;
}

const URGENCY: readonly string[] = ['Updating', 'Failed', 'Waiting', 'Unknown', 'UpToDate'];

function urgencyOf({ phase, stalled }: NodeRow): number {
  return URGENCY.indexOf(stalled && phase !== 'Updating' ? 'Failed' : phase);
}

function fleetLines(
  status: BrupopConfigStatus | undefined,
  rows: readonly NodeRow[],
  { screen, now }: StatusOptions,
): string[] {
  const counts = status?.nodes ?? countsOf(rows);
  const { managed, upToDate, updating, waiting, failed } = counts;
  const bar = barOf(upToDate, managed, Math.max(0, Math.min(40, screen.width - 30)));
  const end = status?.expectedCompletionTime;
  return [
    `${colored(bar, 'green', screen)} ${upToDate} of ${managed} up to date`,
    `${updating} updating, ${waiting} waiting, ${failed} failed`,
    ...(end === undefined ? [] : wrapped(`Expected end: ${relative(end, now)}`, screen.width, 2)),
  ];
}

function countsOf(rows: readonly NodeRow[]) {
  const count = (...phases: string[]): number => rows.filter(({ phase }) => phases.includes(phase)).length;
  return {
    managed: rows.length,
    upToDate: count('UpToDate'),
    updating: count('Updating'),
    waiting: count('Waiting', 'Unknown'),
    failed: count('Failed'),
  };
}

function barOf(part: number, all: number, width: number): string {
  const full = all === 0 ? 0 : Math.floor((Math.min(part, all) / all) * width);
  return `[${'#'.repeat(full)}${'-'.repeat(width - full)}]`;
}

/** What keeps the fleet from updating, and what else a user must know of the operator. */
function noticeLines({ config }: Fleet, { screen, now, leaderless }: StatusOptions): string[] {
  if (config === undefined) return [NO_CONFIG];
  const { spec, status } = config;
  const opens = status?.window?.nextOpenTime;
  const skew = skewText(config);
  const notices = [
    ...(skew === undefined ? [] : [`Release: ${skew}`]),
    ...(leaderless === undefined ? [] : [`Controller: ${leaderless}`]),
    ...unseen(config),
    ...(spec.paused === true ? [`Paused: ${spec.pauseReason || 'no reason was given'}`] : []),
    ...frozen(now, status),
    ...(opens === undefined ? [] : [`Window opens: ${relative(opens, now)}`]),
    ...conditionsOf(status),
  ];
  return notices.flatMap((text) => wrapped(text, screen.width, 2)).map((line) => colored(line, 'yellow', screen));
}

function frozen(now: number, { frozenVersions = [] }: BrupopConfigStatus = {}): string[] {
  return frozenVersions.map(
    ({ version, since }) => `Frozen: ${version}, ${relative(since, now)}: too many nodes failed with it`,
  );
}

/** For a moment after each change of the spec, and for as long as no controller leads. */
function unseen({ metadata: { generation = 0 }, status }: BrupopConfig): string[] {
  const { observedGeneration: seen = 0 } = status ?? {};
  if (seen >= generation) return [];
  const what =
    seen === 0 ? 'no controller has reported on the configuration' : 'no controller has seen its latest change yet';
  return [
    `Configuration: ${what} (generation ${generation}). If this lasts, see whether the pods of the Deployment ` +
      `${CONTROLLER} run`,
  ];
}

/** Without these, a part of the operator does not work. Each is absent where it is not asked for. */
const PARTS = ['CertificateReady', 'DependentsAvailable', 'RecoveryReady', 'NotificationsReady', 'SilencesReady'];

/** Versions that are frozen have lines of their own. */
function conditionsOf({ conditions = [] }: BrupopConfigStatus = {}): string[] {
  return conditions.flatMap(({ type, status, reason, message }) => {
    if (PARTS.includes(type)) return status === 'False' ? [`${type} is False: ${message}`] : [];
    if (type === 'Connected') return status === 'False' ? [`Not connected: ${message}`] : [];
    const isShown = type === 'Held' || type === 'Degraded' || (type === 'Frozen' && reason !== 'FailureBudgetExceeded');
    return isShown && status === 'True' ? [`${type}: ${message}`] : [];
  });
}

/** A controller that does not run creates none for labelled nodes. */
const NO_SHADOW =
  'No node is managed, or no controller has created its shadow: label the nodes that are to be updated, and see whether ' +
  `the pods of the Deployment ${CONTROLLER} run`;

const NARROW = ['NODE', 'PHASE', 'REASON', 'VERSION', 'WAITING FOR'];
const WIDE = ['NODE', 'PHASE', 'REASON', 'VERSION', 'TARGET', 'GROUP', 'WAITING FOR'];

/** With `-o wide` nothing is cut. */
function nodeLines(rows: readonly NodeRow[], { screen, isWide = false }: StatusOptions): string[] {
  if (rows.length === 0) return wrapped(NO_SHADOW, screen.width, 2);
  const cells = rows.map((row) => {
    const { node, phase, reason, version, target, group } = row;
    const waitingFor = waitsFor(row);
    return isWide
      ? [node, phase, reason, version, target, group, waitingFor]
      : [node, phase, reason, version, waitingFor];
  });
  return table([isWide ? WIDE : NARROW, ...cells], { width: isWide ? Infinity : screen.width });
}

/** Of a node that updates, the step if nothing delays it; nothing that the column REASON says. */
function waitsFor({ phase, reason, waitingFor, lastOperation, target }: NodeRow): string {
  if (waitingFor !== '' || phase !== 'Updating') return waitingFor === reason ? '' : waitingFor;
  // Before the first step, the last operation is of the update before.
  return lastOperation?.version === target ? lastOperation.operation : '';
}
