import { requestEndOf } from '@brupop/controller/plan/facts/requests';
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import { shorten } from '@brupop/shared/runtime/errors';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { type NodeRow, nodeRow } from './node.ts';
import { type Screen, wrapped } from './screen.ts';
import { relative } from './times.ts';

/** Characters of an annotation. */
const MAX_VALUE = 100;

/**
 * The lines of `explain NODE`: what the controller and the agent have reported of it.
 * @param skipped - the value of the annotation `skip` of the Node; undefined: it has none, or that is not known
 */
export function explainLines(shadow: BottlerocketShadow, now: number, { width }: Screen, skipped?: string): string[] {
  const row = nodeRow(shadow);
  const facts: readonly (readonly [string, string])[] = [
    ['Node', row.node],
    ['Version', row.version === row.target ? row.version : `${row.version}, offered ${row.target}`],
    ['Group', row.group],
    ['Phase', row.phase],
    ['Reason', row.reason],
    ['Message', row.message],
    ['Waiting for', row.waitingFor === row.reason ? '' : row.waitingFor],
    ['Skipped', skippedText(row, skipped)],
    ['Requested', requested(row, shadow, now)],
    ...blockTexts(shadow, now).map((text) => ['Drain', text] as const),
    ['Last step', lastStep(row, now)],
    ['Failed', failure(row, now)],
    ['Aborted', aborted(row, now)],
    ['What to do', advice(row)],
  ];
  return facts.flatMap(([name, text]) => (text === '' ? [] : wrapped(`${`${name}:`.padEnd(13)}${text}`, width, 13)));
}

/** The reason of a node is the first that holds, such as a pause: the annotation would go unseen until that ends. */
function skippedText({ node }: NodeRow, value: string | undefined): string {
  if (value === undefined) return '';
  return `by the annotation ${SKIP_ANNOTATION}=${shorten(value, MAX_VALUE)}, until "kubectl brupop unskip ${node}"`;
}

/** A request `update-now` that the controller has seen expires. */
function requested({ requests, record }: NodeRow, { metadata }: BottlerocketShadow, now: number): string {
  const end = requestEndOf({ metadata, record });
  const until = end === undefined ? '' : `; update-now until ${relative(rfc3339(end), now)}`;
  return `${requests.join(', ')}${until}`;
}

/** A drain that has ended without success still says what it had waited for. */
function blockTexts({ status }: BottlerocketShadow, now: number): string[] {
  const { blockedBy = [], result, endTime = '' } = status?.drain ?? {};
  const waits = result === undefined ? 'waits' : `${result} at ${relative(endTime, now)}; it waited`;
  return blockedBy.map(
    ({ pod, reason, message, since }) =>
      `${waits} for the pod ${pod} since ${relative(since, now)}: ${reason}: ${message}`,
  );
}

/** Of a step that has not failed, the message says what it waits for. */
function lastStep({ lastOperation }: NodeRow, now: number): string {
  if (lastOperation === undefined) return '';
  const { operation, state, version, lastUpdateTime, errorCode, message } = lastOperation;
  const step = `${operation} for ${version} ${state} at ${relative(lastUpdateTime, now)}`;
  return [step, errorCode, message].filter((text) => text !== undefined).join(': ');
}

function failure({ record: { failed, unsuccessful } }: NodeRow, now: number): string {
  if (failed === undefined) return '';
  const attempts = unsuccessful === undefined ? '' : `; attempts without success: ${unsuccessful}`;
  return `with ${failed.version} at ${relative(failed.at, now)}: ${failed.code}${attempts}`;
}

function aborted({ record: { aborted: ended } }: NodeRow, now: number): string {
  return ended === undefined ? '' : `the update to ${ended.version}, by a user, at ${relative(ended.at, now)}`;
}

/** The runbook has an entry for each reason. */
function advice({ phase, reason }: NodeRow): string {
  return phase === 'UpToDate' || phase === 'Updating' || reason === '' ? '' : `see ${reason} in docs/runbook.md`;
}
