/** Who has written the spec of an object, by its metadata.managedFields: of each field manager, its last write. */
import * as v from 'valibot';
import { parseTime, rfc3339 } from '../runtime/clock.ts';
import { printable, truncated } from '../runtime/errors.ts';
import { CONTROLLER } from './names.ts';
import { changed, ifReadable, isFields, object } from './schema.ts';

const MAX_EDITS = 20;
export const MAX_FIELDS = 10;
export const MAX_MANAGER = 64;
export const MAX_FIELD = 64;

export interface Edit {
  readonly manager: string;
  readonly time: string;
  /** What it has set of the spec, such as `rollout.approvedVersion`. */
  readonly fields: readonly string[];
}

const managed = object({
  manager: changed(v.string(), printable),
  time: v.string(),
  subresource: ifReadable(v.string()),
  fieldsV1: v.unknown(),
});

/** The latest first. What cannot be read is left out. */
export function editsOf(metadata: object): Edit[] {
  const { managedFields } = metadata as { readonly managedFields?: unknown };
  if (!Array.isArray(managedFields)) return [];
  return managedFields
    .flatMap((one) => editOf(one) ?? [])
    .toSorted((a, b) => Number(a.time < b.time) - Number(a.time > b.time))
    .slice(0, MAX_EDITS);
}

function editOf(raw: unknown): Edit | undefined {
  const { success, output } = v.safeParse(managed, raw);
  if (!success || output.manager === CONTROLLER || (output.subresource ?? '') !== '') return undefined;
  const at = parseTime(output.time);
  const { 'f:spec': spec } = isFields(output.fieldsV1) ? output.fieldsV1 : {};
  if (at === undefined || !isFields(spec)) return undefined;
  const fields = pathsOf(spec, 2).toSorted().slice(0, MAX_FIELDS);
  return { manager: truncated(output.manager, MAX_MANAGER), time: rfc3339(at), fields };
}

function pathsOf(fields: Readonly<Record<string, unknown>>, depth: number): string[] {
  return Object.entries(fields).flatMap(([key, below]) => {
    if (!key.startsWith('f:')) return [];
    const name = key.slice(2, 2 + MAX_FIELD / 2 - 1);
    const deeper = depth > 1 && isFields(below) ? pathsOf(below, depth - 1) : [];
    return deeper.length === 0 ? [name] : deeper.map((one) => `${name}.${one}`);
  });
}
