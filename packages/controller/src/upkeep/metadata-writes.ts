/**
 * Which writes bring a Node what its group gives it, and take from it what groups no longer give. The same function evaluates a
 * Node in the cache, to find those with something to write, and a Node that was just read, to make the write: it carries the
 * resourceVersion of that read, so that what is found here still holds.
 *
 *     Adopt     a Node was restored without managedFields: a group owns again what the record on the Node says
 *     Apply     server-side apply with the field manager of the group: first that of the Node's own group, so that a key that
 *               moves from one group to another is never absent, then those that have something on the Node no longer
 *     Taints    the list of taints as a whole, with the record of those that groups have set
 *
 * A key that another field manager has set to another value is a conflict: it stays, unless the group says Force. A key or
 * taint that was there with the same value stays when the group drops it. Only keys that the status of a group records are
 * ever removed; any other that a Node claims to have of it stays as it is.
 */
import { GROUP_KEYS_ANNOTATION, GROUP_TAINTS_ANNOTATION } from '@brupop/shared/api/names';
import { type GroupTaint, type KeyValues, type Rendered, taintId } from '@brupop/shared/api/node-metadata';
import {
  type AppliedKeys,
  KEY_FIELDS,
  type KeyField,
  keysRecord,
  type MetadataState,
  type NodeTaint,
  type RecordedTaint,
  readKeysRecord,
  readTaintsRecord,
  taintName,
  taintsRecord,
} from '../cluster/group-metadata.ts';
import type { Conflict } from '../cluster/metadata-notes.ts';
import type { KnownKeys } from '../policy/rendered.ts';

/** What the group of a Node gives it. */
export interface WantedMetadata {
  readonly group: string;
  readonly rendered: Rendered;
}

interface Applied {
  readonly labels: KeyValues;
  readonly annotations: KeyValues;
}

export type MetadataWrite =
  | { readonly kind: 'Adopt'; readonly groups: readonly string[]; readonly keys: AppliedKeys }
  | { readonly kind: 'Apply'; readonly groups: readonly string[]; readonly body: Applied }
  | {
      readonly kind: 'Taints';
      readonly groups: readonly string[];
      readonly taints: readonly NodeTaint[];
      readonly record: string | null;
    };

export interface MetadataInput {
  readonly state: MetadataState;
  /** Undefined: nothing is. */
  readonly wanted: WantedMetadata | undefined;
  /** Of each group whose status has a record, also of those that are being deleted. */
  readonly known: ReadonlyMap<string, KnownKeys>;
  /** The field manager, other than those of groups, that owns a key or the taints. */
  readonly otherOwner: (field: KeyField | 'taints', key: string) => string | undefined;
}

interface MetadataDecision {
  /** In their order: the later ones are to be evaluated again after the first. */
  readonly writes: readonly MetadataWrite[];
  readonly conflicts: readonly Conflict[];
}

export function decideMetadata(input: MetadataInput): MetadataDecision {
  const { state, wanted } = input;
  const conflicts = keyConflicts(input);
  const taints = decideTaints(input);
  const former = state.applied
    .filter(({ group }) => group !== wanted?.group)
    .flatMap((applied) => release(input, applied));
  const writes = [...adopt(input), ...applyWanted(input, conflicts), ...former, ...taints.writes];
  return { writes, conflicts: [...conflicts, ...taints.conflicts] };
}

function adopt({ state, known }: MetadataInput): MetadataWrite[] {
  const record = readKeysRecord(state.annotations);
  const keys = record && known.get(record.group);
  if (record === undefined || keys === undefined) return [];
  if (state.applied.some(({ group }) => group === record.group)) return [];
  const given = (field: KeyField): string[] => [...new Set(record[field])].filter((key) => keys[field].has(key));
  const [labels, annotations] = [given('labels'), given('annotations')];
  const { group } = record;
  return [
    { kind: 'Adopt', groups: [group], keys: { group, labels, annotations: [...annotations, GROUP_KEYS_ANNOTATION] } },
  ];
}

function keyConflicts({ state, wanted, otherOwner }: MetadataInput): Conflict[] {
  if (wanted === undefined || wanted.rendered.conflicts === 'Force') return [];
  return KEY_FIELDS.flatMap((field) =>
    Object.entries(wanted.rendered[field]).flatMap(([key, value]): Conflict[] => {
      const [found, manager] = [state[field][key], otherOwner(field, key)];
      if (manager === undefined || found === undefined || found === value) return [];
      return [{ field, key, found, manager }];
    }),
  );
}

function applyWanted(input: MetadataInput, conflicts: readonly Conflict[]): MetadataWrite[] {
  const { state, wanted, known, otherOwner } = input;
  if (wanted === undefined) return [];
  const { group, rendered } = wanted;
  const applied = state.applied.find((one) => one.group === group);
  const given = (field: KeyField): [string, string][] =>
    Object.entries(rendered[field]).filter(([key]) => !conflicts.some((one) => one.field === field && one.key === key));
  const [labels, annotations] = [given('labels'), given('annotations')];
  if (labels.length + annotations.length === 0) return applied === undefined ? [] : release(input, applied);
  const own = (field: KeyField, entries: readonly [string, string][]): string[] =>
    entries.map(([key]) => key).filter((key) => otherOwner(field, key) === undefined);
  const record = keysRecord({ group, labels: own('labels', labels), annotations: own('annotations', annotations) });
  const kept = unknownKeys(input, applied, known.get(group));
  const body = {
    labels: { ...kept.labels, ...Object.fromEntries(labels) },
    annotations: { ...kept.annotations, ...Object.fromEntries(annotations), [GROUP_KEYS_ANNOTATION]: record },
  };
  const isInPlace =
    applied !== undefined && KEY_FIELDS.every((field) => hasApplied(applied[field], body[field], state[field]));
  return isInPlace ? [] : [{ kind: 'Apply', groups: [group], body }];
}

/** The record may have been written when another manager still owned the same. */
function hasApplied(keys: readonly string[], wanted: KeyValues, found: KeyValues): boolean {
  const names = Object.keys(wanted);
  const applied = new Set(keys);
  return (
    names.length === keys.length &&
    names.every((key) => applied.has(key) && (key === GROUP_KEYS_ANNOTATION || found[key] === wanted[key]))
  );
}

/** Removes what the group owns alone; none if the group does not exist, or owns nothing that it may remove. */
function release(input: MetadataInput, applied: AppliedKeys): MetadataWrite[] {
  const keys = input.known.get(applied.group);
  if (keys === undefined) return [];
  const body = unknownKeys(input, applied, keys);
  const isReleased = KEY_FIELDS.every((field) => Object.keys(body[field]).length === applied[field].length);
  return isReleased ? [] : [{ kind: 'Apply', groups: [applied.group], body }];
}

/** What a Node claims to have of a group that never gave it. */
function unknownKeys(
  { state }: MetadataInput,
  applied: AppliedKeys | undefined,
  known: KnownKeys | undefined,
): Applied {
  const of = (field: KeyField): KeyValues => {
    const keys = (applied?.[field] ?? []).filter((key) => key !== GROUP_KEYS_ANNOTATION && !known?.[field].has(key));
    return Object.fromEntries(
      keys.flatMap((key) => (state[field][key] === undefined ? [] : [[key, state[field][key]]])),
    );
  };
  return { labels: of('labels'), annotations: of('annotations') };
}

function decideTaints(input: MetadataInput): MetadataDecision {
  const { state, wanted, known } = input;
  const found = new Map(state.taints.map((taint) => [taintId(taint), taint]));
  const records = readTaintsRecord(state.annotations).filter((one) => known.get(one.group)?.taints.has(taintId(one)));
  // One that another writer has given another value is that writer's.
  const owned = new Set(records.filter((one) => (found.get(taintId(one))?.value ?? '') === one.value).map(taintId));
  const given = givenTaints(wanted, found, owned);
  const ours = given.filter(({ isOurs }) => isOurs).map(({ taint }) => taint);
  const replaced = new Set([...owned, ...ours.map(taintId)]);
  const taints = [...state.taints.filter((taint) => !replaced.has(taintId(taint))), ...ours];
  const record = taintsRecord(ours.map((taint): RecordedTaint => ({ group: wanted?.group ?? '', ...taint })));
  const isInPlace = areSame(taints, state.taints) && record === (state.annotations[GROUP_TAINTS_ANNOTATION] ?? null);
  const groups = [...new Set([...(wanted === undefined ? [] : [wanted.group]), ...records.map((one) => one.group)])];
  return {
    writes: isInPlace || groups.length === 0 ? [] : [{ kind: 'Taints', groups, taints, record }],
    conflicts: given.filter(({ isConflict }) => isConflict).map(({ taint }) => taintConflict(input, taint, found)),
  };
}

interface GivenTaint {
  readonly taint: GroupTaint;
  readonly isConflict: boolean;
  /** Set by the group, and recorded. */
  readonly isOurs: boolean;
}

function givenTaints(
  wanted: WantedMetadata | undefined,
  found: ReadonlyMap<string, NodeTaint>,
  owned: ReadonlySet<string>,
): GivenTaint[] {
  const isForced = wanted?.rendered.conflicts === 'Force';
  return (wanted?.rendered.taints ?? []).map((taint) => {
    const there = found.get(taintId(taint));
    if (there === undefined || owned.has(taintId(taint))) return { taint, isConflict: false, isOurs: true };
    const isOther = (there.value ?? '') !== taint.value;
    return { taint, isConflict: isOther && !isForced, isOurs: isOther && isForced };
  });
}

function taintConflict(
  { otherOwner }: MetadataInput,
  taint: GroupTaint,
  found: ReadonlyMap<string, NodeTaint>,
): Conflict {
  const key = taintId(taint);
  return {
    field: 'taints',
    key,
    found: found.get(key)?.value ?? '',
    manager: otherOwner('taints', key) ?? 'another writer',
  };
}

function areSame(a: readonly NodeTaint[], b: readonly NodeTaint[]): boolean {
  return namesOf(a) === namesOf(b);
}

function namesOf(taints: readonly NodeTaint[]): string {
  return taints.map(taintName).toSorted().join();
}
