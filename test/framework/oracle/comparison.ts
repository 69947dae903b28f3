/** Two fleets, each with a planner of its own, that are told the same events: where the planners differ. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Event } from './events.ts';
import { LATEST_WANTED } from './latest-wanted.ts';
import { MORE_WANTED } from './more-wanted.ts';
import type { Told } from './told.ts';
import { type Fault, WANTED } from './wanted.ts';

export interface AnyFleet {
  step: (event: Event) => Told;
}

type FleetClass = new () => AnyFleet;

const text = [...WANTED, ...MORE_WANTED, ...LATEST_WANTED]
  .flatMap(({ changes }) => changes)
  .reduce(planted, readFileSync(join(import.meta.dirname, 'planner.cjs'), 'utf8'));

/** The planner that was frozen. Throws unless `find` matches exactly once. */
export function frozenFleet(fault?: Fault): FleetClass {
  const module = { exports: {} as { Fleet: FleetClass } };
  const code = fault === undefined ? text : planted(text, fault);
  // oxlint-disable-next-line no-new-func, typescript/no-implied-eval -- other ways run it in another realm, whose Date and Array its libraries do not know
  const run = new Function('module', 'exports', 'require', code) as (...given: unknown[]) => void;
  run(module, module.exports, createRequire(import.meta.url));
  return module.exports.Fleet;
}

function planted(code: string, { find, replace }: Fault): string {
  const count = [...code.matchAll(new RegExp(find, 'gu'))].length;
  if (count !== 1) throw new Error(`expected one match of ${find} in the frozen planner, found ${count}`);
  return code.replace(find, replace);
}

const MAX_SHOWN = 12;

/** Returns what the second planner says otherwise after the first event for which the two differ, or undefined. */
export function firstDifference(story: readonly Event[], one: AnyFleet, other: AnyFleet): string | undefined {
  for (const [index, event] of story.entries()) {
    // As JSON: a field that is undefined is one that is not there.
    const [expected, found] = [one, other].map((fleet) => JSON.parse(JSON.stringify(fleet.step(event))) as unknown);
    if (isDeepStrictEqual(expected, found)) continue;
    const lines = differences(expected, found, '').slice(0, MAX_SHOWN);
    return [`after event ${index} of ${story.length}, ${JSON.stringify(event)}:`, ...lines].join('\n');
  }
  return undefined;
}

/** One line for each leaf that differs. */
function differences(expected: unknown, found: unknown, path: string): string[] {
  if (isDeepStrictEqual(expected, found)) return [];
  if (!isObject(expected) || !isObject(found))
    return [`${path}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`];
  const keys = [...new Set([...Object.keys(expected), ...Object.keys(found)])];
  return keys.flatMap((key) => differences(expected[key], found[key], path === '' ? key : `${path}.${key}`));
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
