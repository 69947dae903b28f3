import { rfc3339 } from '@brupop/shared/runtime/clock';
import { colored, type Screen, wrapped } from './screen.ts';

interface Answer {
  readonly reason: string;
  readonly message: string;
  /** Epoch milliseconds. */
  readonly retryAt?: number;
}

const HEAD = 'GATE';
const GAP = 2;

/** The gates in their order. The first that blocks is the reason that the node shows. Nothing is cut. */
export function gateLines(
  answers: readonly (readonly [gate: string, answer: Answer | undefined])[] | string,
  screen: Screen,
): string[] {
  if (typeof answers === 'string') return wrapped(answers, screen.width);
  const column = Math.max(HEAD.length, ...answers.map(([gate]) => gate.length)) + GAP;
  const lines = answers.flatMap(([gate, answer]) => {
    const name = gate.padEnd(column);
    if (answer === undefined) return [`${name}passes`];
    return wrapped(`${name}${textOf(answer)}`, screen.width, column).map((line) => colored(line, 'yellow', screen));
  });
  return [`${HEAD.padEnd(column)}ANSWER`, ...lines];
}

function textOf({ reason, message, retryAt }: Answer): string {
  const until = retryAt === undefined ? '' : ` until ${rfc3339(retryAt)}`;
  return `${reason}${until}: ${message}`;
}
