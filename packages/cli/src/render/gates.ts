import { rfc3339 } from '@brupop/shared/runtime/clock';
import { type Screen, wrapped } from './screen.ts';
import { table } from './table.ts';

interface Answer {
  readonly reason: string;
  readonly message: string;
  /** Epoch milliseconds. */
  readonly retryAt?: number;
}

/** The gates in their order. The first that blocks is the reason that the node shows. */
export function gateLines(
  answers: readonly (readonly [gate: string, answer: Answer | undefined])[] | string,
  screen: Screen,
): string[] {
  if (typeof answers === 'string') return wrapped(answers, screen.width);
  const rows = answers.map(([gate, answer]) => [
    gate,
    answer === undefined ? 'passes' : answer.reason,
    answer?.retryAt === undefined ? '' : rfc3339(answer.retryAt),
    answer?.message ?? '',
  ]);
  return table([['GATE', 'ANSWER', 'UNTIL', 'MESSAGE'], ...rows], screen);
}
