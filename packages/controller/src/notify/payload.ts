/**
 * The body of a notification. Names in it come from tenants and agents, who must neither mention people nor format the
 * text: Slack reads `<!channel>` and the like only between angle brackets, which are escaped; services that take its format
 * also read `@all`, so that no word follows an at sign, and make links of addresses, which are broken up.
 */
import type { Receiver } from '@brupop/shared/api/config-notifications';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { printable, truncated } from '@brupop/shared/runtime/errors';
import type { Notice } from './events.ts';

/** Of the JSON format. Fields may be added to a version; a field that changes or ends makes a new one. */
const SCHEMA_VERSION = 'v1';
const MAX_SUMMARY = 300;
/** Slack takes 4,000 characters; an escaped one takes five at most. */
const MAX_SLACK_MESSAGE = 2_000;
const MAX_MESSAGE = 4_000;
const MAX_COMMAND = 700;

/** @param at - when it was found, epoch milliseconds */
export function bodyOf(notice: Notice, { format, cluster }: Pick<Receiver, 'format' | 'cluster'>, at: number): string {
  return JSON.stringify(format === 'Slack' ? slackBody(notice, cluster) : jsonBody(notice, cluster, at));
}

function jsonBody({ id, event, severity, object, version, ...texts }: Notice, cluster: string | undefined, at: number) {
  return {
    schemaVersion: SCHEMA_VERSION,
    id,
    event,
    severity,
    time: rfc3339(at),
    ...(cluster !== undefined && { cluster }),
    object,
    ...(version !== undefined && { version }),
    summary: line(texts.summary, MAX_SUMMARY),
    message: line(texts.message, MAX_MESSAGE),
    command: line(texts.command, MAX_COMMAND),
  };
}

const SIGNS = { info: ':white_check_mark:', warning: ':warning:', error: ':rotating_light:' };

function slackBody({ event, severity, object, summary, message, command }: Notice, cluster: string | undefined) {
  const sign = event === 'WaitsForApproval' ? ':raised_hand:' : SIGNS[severity];
  const where = cluster === undefined ? '' : ` in ${escaped(cluster, MAX_SUMMARY)}`;
  const text = [
    `${sign} *${escaped(summary, MAX_SUMMARY)}*${where}`,
    `${escaped(`${object.kind} ${object.name}`, MAX_SUMMARY)}: ${escaped(message, MAX_SLACK_MESSAGE)}`,
    `\`\`\`${escaped(command, MAX_COMMAND)}\`\`\``,
  ].join('\n');
  return { text, mrkdwn: true, link_names: false, unfurl_links: false, unfurl_media: false };
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

/** As Slack's "Formatting text for app surfaces" requires. What begins bold, italic or code text is replaced. */
function escaped(text: string, maxLength: number): string {
  return line(text, maxLength)
    .replaceAll(/[&<>]/gu, (character) => ENTITIES[character] ?? '')
    .replaceAll('@', '@\u200B')
    .replaceAll('://', ':\u200B//')
    .replaceAll('`', "'")
    .replaceAll('*', '∗')
    .replaceAll('~', '∼');
}

function line(text: string, maxLength: number): string {
  const short = printable(truncated(text, maxLength));
  return short.length < text.length ? `${short}…` : short;
}
