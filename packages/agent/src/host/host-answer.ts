import type { Answer } from '../exchange.ts';
import type { HostErrorKind } from './host.ts';
import { HostError } from './host.ts';
import { shorten } from './host-status.ts';

/** Beginnings of error texts by which kinds of errors are told; statuses alone do not tell them. */
const TEXTS: readonly (readonly [status: number, prefix: string, kind: HostErrorKind])[] = [
  [423, '', 'locked'],
  [408, '', 'silent'],
  [404, 'Update status is uninitialized', 'uninitialized'],
  [404, 'Found no', 'unset'],
  [500, 'Unable to start the update dispatcher: No such file', 'unsupported'],
  [500, 'Update dispatcher failed', 'unreadable'],
  [500, 'Failed to parse update status', 'unreadable'],
  [500, 'Unable to open update lock file', 'unreadable'],
];

/** The body of an answer that says yes. Throws HostError for any other. */
export function takeBody(call: string, answer: Answer): string {
  if (answer.status >= 200 && answer.status < 300) return answer.body;
  throw new HostError(kindOf(answer), `${call}: ${answer.status} ${shorten(answer.body, 500)}`);
}

function kindOf({ status, body }: Answer): HostErrorKind {
  if (status === 404 && body === '') return 'unsupported';
  const known = TEXTS.find(([code, prefix]) => code === status && body.startsWith(prefix));
  return known?.[2] ?? 'answer';
}
