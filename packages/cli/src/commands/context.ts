import type { Clock } from '@brupop/shared/runtime/clock';
import type { Client } from '../cluster/client.ts';
import { type Screen, wrapped } from '../render/screen.ts';

/** What every command gets. */
export interface Context {
  readonly client: Client;
  readonly clock: Clock;
  /** Aborts when the user ends the program, or when the reader of its output has gone. */
  readonly signal: AbortSignal;
  readonly screen: Screen;
  readonly print: (text: string) => void;
  /** To standard error. */
  readonly warn: (text: string) => void;
}

export function printLines({ print }: Context, lines: readonly string[]): void {
  print(`${lines.join('\n')}\n`);
}

/** Prints sentences, in lines that fit the screen. */
export function say(context: Context, text: string): void {
  printLines(context, wrapped(text, context.screen.width));
}

/** One sentence about the operator, to standard error; undefined: none. */
export function warnOf({ warn, screen }: Context, sentence: string | undefined): void {
  if (sentence !== undefined) warn(`${wrapped(`warning: ${sentence}`, screen.width).join('\n')}\n`);
}
