import type { Clock } from '@brupop/shared/runtime/clock';
import type { Client } from '../cluster/client.ts';
import type { Screen } from '../render/screen.ts';

/** What every command gets. */
export interface Context {
  readonly client: Client;
  readonly clock: Clock;
  readonly screen: Screen;
  readonly print: (text: string) => void;
}

export function printLines({ print }: Context, lines: readonly string[]): void {
  print(`${lines.join('\n')}\n`);
}
