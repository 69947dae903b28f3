import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What a real program answered; see `record.ts`. */
export interface Transcript {
  /** The query, or the filter. */
  readonly name: string;
  readonly status: number;
  readonly body: string;
}

const file = readFileSync(join(import.meta.dirname, 'transcripts.json'), 'utf8');

const TRANSCRIPTS = JSON.parse(file) as {
  readonly versions: readonly string[];
  readonly queries: readonly Transcript[];
  readonly alerts: readonly Transcript[];
};

/** What the real program answered to this query or filter. */
export function transcript(of: 'queries' | 'alerts', wanted: string): Transcript {
  const found = TRANSCRIPTS[of].find(({ name }) => name === wanted);
  if (found === undefined) throw new Error(`nothing was recorded for ${wanted}`);
  return found;
}
