/** The rollout of a version as one page without scripts and without anything to load, to be printed or filed. */
import type { FrozenVersionStatus } from '@brupop/shared/api/brupop-config';
import { readRollouts, type RolloutStatus } from '@brupop/shared/api/rollouts';
import { sameVersion } from '@brupop/shared/api/version';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import type { Fleet } from '../cluster/fleet.ts';
import { type Entry, historyOf, tookOf } from './history.ts';
import { plain } from './screen.ts';
import { duration } from './times.ts';

export interface RolloutReport {
  readonly version: string;
  readonly rollouts: readonly RolloutStatus[];
  /** The updates to the version, the latest first. */
  readonly updates: readonly Entry[];
  /** When too many nodes had failed with it. */
  readonly frozenSince: string | undefined;
  /** When it was first held, since workloads fail on it. */
  readonly heldSince: string | undefined;
}

/** @param wanted - undefined: the version of the latest rollout; undefined is returned if there was none */
export function reportOf({ config, shadows }: Fleet, wanted: string | undefined): RolloutReport | undefined {
  const { rollouts: found, frozenVersions, heldVersions } = config?.status ?? {};
  const rollouts = readRollouts(found);
  const updates = historyOf(shadows).filter(({ from, to }) => !sameVersion(from, to));
  const version = wanted ?? rollouts[0]?.version ?? updates[0]?.to;
  if (version === undefined) return undefined;
  return {
    version,
    frozenSince: sinceOf(frozenVersions, version),
    heldSince: sinceOf(heldVersions, version),
    rollouts: rollouts.filter((one) => sameVersion(one.version, version)),
    updates: updates.filter(({ to }) => sameVersion(to, version)),
  };
}

function sinceOf(versions: readonly FrozenVersionStatus[] | undefined, version: string): string | undefined {
  return versions?.find((one) => sameVersion(one.version, version))?.since;
}

/** @param now - epoch milliseconds */
export function reportPage(report: RolloutReport, now: number): string {
  const { version, rollouts, updates } = report;
  const others = withoutSuccess(updates);
  const title = `Rollout of Bottlerocket ${version}`;
  return [
    '<!doctype html>',
    '<html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    `<title>${escaped(title)}</title><style>${STYLE}</style></head><body>`,
    `<h1>${escaped(title)}</h1>`,
    `<dl>${factsOf(report, now)
      .map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`)
      .join('')}</dl>`,
    ...section('Rollouts', ROLLOUTS, rollouts.map(rolloutCells)),
    ...section('Approvals, pauses and other changes', CHANGES, rollouts.flatMap(changeCells)),
    ...section('Attempts without success', UPDATES, others.map(updateCells)),
    ...section('Nodes', UPDATES, updates.map(updateCells)),
    ...LEGEND.map((text) => `<p>${text}</p>`),
    '</body></html>',
    '',
  ].join('\n');
}

function withoutSuccess(updates: readonly Entry[]): readonly Entry[] {
  return updates.filter(({ outcome }) => outcome !== 'Succeeded');
}

/** Names and values. */
function factsOf({ version, updates, frozenSince, heldSince }: RolloutReport, now: number): [string, string][] {
  const nodes = new Set(updates.map(({ node }) => node));
  const succeeded = new Set(updates.filter(({ outcome }) => outcome === 'Succeeded').map(({ node }) => node));
  const from = [...new Set(updates.map((one) => one.from))].toSorted();
  const frozen = frozenSince === undefined ? '' : `since ${frozenSince}: too many nodes failed with it`;
  const held = heldSince === undefined ? '' : `first at ${heldSince}: workloads failed on it`;
  const facts: [string, string][] = [
    ['Version', version],
    ['From', from.join(', ')],
    ['Nodes', `${succeeded.size} updated, of ${nodes.size} that have ended an update to it`],
    ['Attempts without success', String(withoutSuccess(updates).length)],
    ['Frozen', frozen],
    ['Held', held],
    ['Written', rfc3339(now)],
  ];
  return facts.filter(([, value]) => value !== '');
}

const LEGEND = [
  'All times are UTC. Nodes that wait for their first update to the version, or have not ended it, are not counted here.',
  'Staging: the node downloaded and wrote the version. Out of service: from the request to drain the node until it ran ' +
    'the version and was restored. Proving: it ran the version and took pods, and the operator watched its health. ' +
    'In all: from the start to the end of the attempt.',
  'The operator keeps the last ten updates of each node and the last twenty rollouts.',
];

const ROLLOUTS = ['Group', 'Started', 'Ended', 'Updated', 'Failed'];
const CHANGES = ['Time', 'Field manager', 'Object', 'Fields that it has set'];
const UPDATES = [
  'Node',
  'Group',
  'Started',
  'From',
  'Staging',
  'Out of service',
  'Proving',
  'In all',
  'Outcome',
  'Attempt',
];

function rolloutCells({ group = '', startTime, endTime = 'not yet', nodes, failures }: RolloutStatus): string[] {
  return [group, startTime, endTime, String(nodes), String(failures)];
}

function changeCells({ changes = [] }: RolloutStatus): string[][] {
  return changes.map(({ time, manager, object, fields }) => [time, manager, object, fields.join(', ')]);
}

function updateCells(update: Entry): string[] {
  const { node, group = '', start, from, outcome, code, attempt, seconds } = update;
  const steps = ['StagedAndPerformedUpdate', 'RebootedIntoUpdate', 'MonitoringUpdate'].map((state) => {
    const found = seconds[state];
    return found === undefined ? '' : duration(found * 1000);
  });
  const end = code === undefined ? outcome : `${outcome}: ${code}`;
  return [node, group, start, from, ...steps, tookOf(update), end, String(attempt)];
}

/** Without the columns in which no row has a value. */
function section(title: string, head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const heading = `<h2>${title}</h2>`;
  if (rows.length === 0) return [heading, '<p>None.</p>'];
  const used = (_: string, column: number): boolean => rows.some((row) => row[column] !== '');
  const body = rows.map((row) => line(row.filter(used), 'td'));
  return [
    heading,
    `<div role="region" aria-label="${title}" tabindex="0"><table><thead>${line(head.filter(used), 'th')}</thead><tbody>`,
    ...body,
    '</tbody></table></div>',
  ];
}

function line(cells: readonly string[], tag: 'td' | 'th'): string {
  const open = tag === 'th' ? '<th scope="col">' : '<td>';
  return `<tr>${cells.map((cell) => `${open}${marked(cell)}</${tag}>`).join('')}</tr>`;
}

/** A time, which is not wrapped, or other text. */
function marked(cell: string): string {
  return /^[\d-]+T[\d:]+Z$/u.test(cell) ? `<time>${cell}</time>` : escaped(cell);
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** What objects say, without markup and without characters that change the direction of text. */
function escaped(text: string): string {
  return plain(text).replaceAll(/[&<>"']/gu, (one) => ENTITIES[one] ?? '');
}

const STYLE = [
  ':root{color-scheme:light dark}',
  'body{font:14px/1.45 system-ui,sans-serif;color:#1b1f24;background:#fff;max-width:1100px;margin:2em auto;padding:0 1em}',
  'h1{font-size:1.6em;overflow-wrap:anywhere}h2{font-size:1.15em;margin-top:1.8em}',
  'dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.2em 1.5em}dt{color:#57606a}',
  'dd{margin:0;overflow-wrap:anywhere}div{overflow-x:auto}table{border-collapse:collapse;width:100%}',
  'th,td{text-align:left;padding:.35em .6em;border-bottom:1px solid #d8dee4;vertical-align:top}',
  'td{min-width:4em;max-width:17em;overflow-wrap:break-word}th{background:#f6f8fa}p{color:#57606a}',
  'time{white-space:nowrap}thead{display:table-header-group}',
  '@media screen and (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}dt,p{color:#9da7b3}',
  'th{background:#161b22}th,td{border-color:#30363d}}',
  '@media print{body{margin:0;max-width:none;font-size:9px}div{overflow:visible}tr{break-inside:avoid}',
  'td{min-width:0}th,td{padding:.3em .4em}}',
].join('');
