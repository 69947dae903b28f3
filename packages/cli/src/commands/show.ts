/** The commands that only read. */
import { UsageError } from '../cluster/errors.ts';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { type Fleet, followFleet, namespaceOf, namespacesText, readFleet, shadowOf, skipOf } from '../cluster/fleet.ts';
import { leaderText } from '../cluster/leader.ts';
import { plannerSkewText, skewText } from '../cluster/skew.ts';
import { staleText } from '../cluster/follow.ts';
import { explainLines } from '../render/explain.ts';
import { gateLines } from '../render/gates.ts';
import { historyLines, historyOf } from '../render/history.ts';
import { nodeRow } from '../render/node.ts';
import { planLines } from '../render/plan.ts';
import { reportOf, reportPage } from '../render/report.ts';
import { dataText } from '../render/data.ts';
import { redrawn } from '../render/screen.ts';
import { fittingLines, statusLines, type StatusOptions } from '../render/status.ts';
import { differenceLines, differencesOf } from '../render/outcomes.ts';
import { type Context, printLines, warnOf } from './context.ts';
import { compare, gatesOfNode } from './planner.ts';

export type Format = 'table' | 'wide' | 'json' | 'yaml';

interface Output {
  readonly output: Format;
}

/** Prints `data` as JSON or YAML, else the lines. */
function show(context: Context, output: Format, data: unknown, lines: () => readonly string[]): void {
  if (isData(output)) context.print(dataText(output, data));
  else printLines(context, lines());
}

function isData(output: Format): output is 'json' | 'yaml' {
  return output === 'json' || output === 'yaml';
}

/** The fleet, with a warning when the operator and this plugin do not work together, or no controller leads. Throws KubeError. */
async function readFleetOnce(context: Context): Promise<Fleet> {
  const fleet = await readFleet(context.client);
  warnOf(context, skewText(fleet.config));
  warnOf(context, await leaderText(context.client, fleet));
  return fleet;
}

const REDRAW = { atLeastMs: 10_000, atMostMs: 500 };

/** With `watch` until the process is interrupted. */
export async function status(context: Context, { output, watch }: Output & { readonly watch: boolean }): Promise<void> {
  if (watch) {
    await watchStatus(context, output);
    return;
  }
  const fleet = await readFleet(context.client);
  const leaderless = await leaderText(context.client, fleet);
  if (isData(output)) warnOfFleet(context, fleet, leaderless);
  show(context, output, statusData(fleet), () => statusLines(fleet, statusOptions(context, output, { leaderless })));
}

/** What the table has as lines. */
function warnOfFleet(context: Context, fleet: Fleet, leaderless: string | undefined): void {
  warnOf(context, skewText(fleet.config));
  warnOf(context, leaderless);
  warnOf(context, namespacesText(fleet));
}

function statusData({ config, shadows }: Fleet): object {
  const { paused = false, pauseReason = '' } = config?.spec ?? {};
  return { paused, pauseReason, fleet: config?.status, nodes: shadows.map(nodeRow) };
}

/** On a terminal in place; elsewhere again after each change. */
async function watchStatus(context: Context, output: Format): Promise<void> {
  const { client, clock, signal } = context;
  let shown = '';
  for await (const { fleet, stale } of followFleet(client, clock, { ...REDRAW, signal })) {
    // What is stale says why; a failure of this request alone does not end the watch.
    const leaderless = stale ? undefined : await leaderText(client, fleet).catch(() => undefined);
    const known = { stale: stale && { since: stale.since, problem: staleText(stale) }, leaderless };
    if (!isData(output) && context.screen.height !== undefined) {
      context.print(redrawn(fittingLines(fleet, statusOptions(context, output, known))));
      continue;
    }
    const state = JSON.stringify([known, fleet.config?.spec, statusData(fleet)]);
    if (shown === '' && isData(output)) warnOfFleet(context, fleet, leaderless);
    if (state !== shown) printAgain(context, output, fleet, known);
    shown = state;
  }
}

type Known = Pick<StatusOptions, 'stale' | 'leaderless'>;

function statusOptions({ screen, clock }: Context, output: Format, known: Known): StatusOptions {
  return { screen, now: clock.now(), isWide: output === 'wide', ...known };
}

function printAgain(context: Context, output: Format, fleet: Fleet, known: Known): void {
  const { stale } = known;
  if (stale !== undefined) context.warn(`stale since ${rfc3339(stale.since)}: ${stale.problem}\n`);
  else if (output === 'yaml') context.print(`---\n${dataText(output, statusData(fleet))}`);
  else
    show(context, output, statusData(fleet), () => [...statusLines(fleet, statusOptions(context, output, known)), '']);
}

export async function explain(
  context: Context,
  node: string,
  { output, gates }: Output & { readonly gates: boolean },
): Promise<void> {
  if (gates) {
    const { config, answers } = await gatesOfNode(context, node);
    warnOf(context, plannerSkewText(config));
    const data =
      typeof answers === 'string'
        ? { answer: answers }
        : answers.map(([gate, answer]) => ({ gate, answer: answer ?? null }));
    show(context, output, data, () => gateLines(answers, context.screen));
    return;
  }
  const shadow = shadowOf(await readFleetOnce(context), node);
  const skipped = await skipOf(context.client, node);
  const data = { ...nodeRow(shadow), drain: shadow.status?.drain, ...(skipped !== undefined && { skipped }) };
  show(context, output, data, () => explainLines(shadow, context.clock.now(), context.screen, skipped));
}

export async function plan(
  context: Context,
  { output, with: file }: Output & { readonly with?: string | undefined },
): Promise<void> {
  if (file !== undefined) {
    const { config, before, after, incomplete } = await compare(context, file);
    warnOf(context, plannerSkewText(config));
    warnOf(context, incomplete);
    const differences = differencesOf(before, after).map(([was, is]) => ({ before: was, after: is }));
    show(context, output, differences, () => differenceLines(before, after, context.screen));
    return;
  }
  const { config } = await readFleetOnce(context);
  show(context, output, config?.status?.plan ?? [], () => planLines(config, context.clock.now(), context.screen));
}

/**
 * Throws UsageError when the node is not managed, and as `namespaceOf` does.
 * @param node - undefined: all nodes
 */
export async function history(context: Context, node: string | undefined, { output }: Output): Promise<void> {
  const fleet = await readFleetOnce(context);
  namespaceOf(fleet);
  const entries = historyOf(node === undefined ? fleet.shadows : [shadowOf(fleet, node)]);
  show(context, output, entries, () => historyLines(entries, context.screen));
}

export type ReportFormat = 'html' | 'json' | 'yaml';

/** Throws UsageError when there is nothing to report, and as `namespaceOf` does. */
export async function report(
  context: Context,
  { output, version }: { readonly output: ReportFormat; readonly version?: string | undefined },
): Promise<void> {
  const fleet = await readFleetOnce(context);
  namespaceOf(fleet);
  const found = reportOf(fleet, version);
  if (found === undefined) throw new UsageError('expected a rollout to report, found none: no update has ended yet');
  if (found.rollouts.length + found.updates.length === 0)
    throw new UsageError(`version ${found.version}: expected a rollout or an update to it, found none`);
  if (output === 'html') context.print(reportPage(found, context.clock.now()));
  else show(context, output, found, () => []);
}
