/**
 * What BottlerocketNodeGroups have put on a Node, as the Node shows it: the field managers of groups in
 * `metadata.managedFields`, and the records in annotations. Managed nodes may be in an attacker's hands, so none of this is
 * more than a claim.
 */
import { GROUP_KEYS_ANNOTATION, GROUP_MANAGER_PREFIX, GROUP_TAINTS_ANNOTATION } from '@brupop/shared/api/names';
import { type GroupTaint, taintId } from '@brupop/shared/api/node-metadata';
import { isFields } from '@brupop/shared/api/schema';

/** An entry of metadata.managedFields. */
export interface ManagedFields {
  readonly manager?: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly apiVersion?: string;
  readonly fieldsType?: string;
  readonly time?: string;
  readonly fieldsV1?: Readonly<Record<string, unknown>>;
}

/** What a group gives by keys. */
export const KEY_FIELDS = ['labels', 'annotations'] as const;
export type KeyField = (typeof KEY_FIELDS)[number];

/** What a group has applied. */
export interface AppliedKeys {
  readonly group: string;
  readonly labels: readonly string[];
  readonly annotations: readonly string[];
}

export interface RecordedTaint extends GroupTaint {
  readonly group: string;
}

export interface NodeTaint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

/** Another value makes another taint: pods may tolerate one and not the other. */
export function taintName(taint: NodeTaint): string {
  return `${taintId(taint)}=${taint.value ?? ''}`;
}

export function isSameTaint(a: NodeTaint, b: NodeTaint): boolean {
  return taintName(a) === taintName(b);
}

export function hasTaint(taints: readonly NodeTaint[], taint: NodeTaint): boolean {
  return taints.some((one) => isSameTaint(one, taint));
}

/** Of a Node in the cache, or of one that was just read. */
export interface MetadataState {
  readonly labels: Readonly<Record<string, string>>;
  /** All, or at least those that groups have applied. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly taints: readonly NodeTaint[];
  readonly applied: readonly AppliedKeys[];
}

export function managerOf(group: string): string {
  return `${GROUP_MANAGER_PREFIX}${group}`;
}

/** Of the groups on a Node, and of each field of one. A group gives at most 32 keys and its record. */
const MAX_KEYS = 200;
/** Of the key of a label. */
const MAX_KEY = 317;

interface Applied {
  readonly applied: readonly AppliedKeys[];
  /** How many keys and groups are too many, or too long, to be kept. */
  readonly omitted: number;
}

/** A kubelet decides what its Node says that groups have applied: 60,000 keys fit into one. */
export function appliedKeys(managedFields: readonly ManagedFields[] = []): Applied {
  const groups = managedFields.filter(isOfGroup);
  let omitted = Math.max(0, groups.length - MAX_KEYS);
  const some = (entry: ManagedFields, field: KeyField): string[] => {
    const all = keysOf(entry, field);
    const kept = all.filter((key) => key.length <= MAX_KEY).slice(0, MAX_KEYS);
    omitted += all.length - kept.length;
    return kept;
  };
  const applied = groups.slice(0, MAX_KEYS).map((entry) => ({
    group: (entry.manager ?? '').slice(GROUP_MANAGER_PREFIX.length),
    labels: some(entry, 'labels'),
    annotations: some(entry, 'annotations'),
  }));
  return { applied, omitted };
}

function isOfGroup({ manager = '', operation, subresource = '' }: ManagedFields): boolean {
  return manager.startsWith(GROUP_MANAGER_PREFIX) && operation === 'Apply' && subresource === '';
}

function keysOf(entry: ManagedFields, field: KeyField): string[] {
  const names = Object.keys(ownedIn(entry, field));
  return names.filter((name) => name.startsWith('f:')).map((name) => name.slice(2));
}

function ownedIn({ fieldsV1 }: ManagedFields, field: KeyField): Readonly<Record<string, unknown>> {
  const metadata = fieldsV1?.['f:metadata'];
  const owned = isFields(metadata) ? metadata[`f:${field}`] : undefined;
  return isFields(owned) ? owned : {};
}

/** The field manager, other than those of groups, that owns a key or the taints; undefined: none does. */
export function otherOwner(
  managedFields: readonly ManagedFields[],
  field: KeyField | 'taints',
  key: string,
): string | undefined {
  const owns = (entry: ManagedFields): boolean => {
    const spec = entry.fieldsV1?.['f:spec'];
    return field === 'taints'
      ? isFields(spec) && spec['f:taints'] !== undefined
      : Object.hasOwn(ownedIn(entry, field), `f:${key}`);
  };
  return managedFields.find((entry) => !isOfGroup(entry) && owns(entry))?.manager;
}

export function keysRecord(keys: AppliedKeys): string {
  return JSON.stringify(keys);
}

/** Undefined: there is none, or it is not readable. */
export function readKeysRecord(annotations: MetadataState['annotations']): AppliedKeys | undefined {
  const record = parse(annotations[GROUP_KEYS_ANNOTATION]);
  if (!isFields(record) || typeof record['group'] !== 'string') return undefined;
  return { group: record['group'], labels: texts(record['labels']), annotations: texts(record['annotations']) };
}

export function taintsRecord(taints: readonly RecordedTaint[]): string | null {
  return taints.length === 0 ? null : JSON.stringify(taints.toSorted((a, b) => (taintId(a) < taintId(b) ? -1 : 1)));
}

export function readTaintsRecord(annotations: MetadataState['annotations']): RecordedTaint[] {
  const record = parse(annotations[GROUP_TAINTS_ANNOTATION]);
  return Array.isArray(record) ? record.filter(isRecordedTaint) : [];
}

function isRecordedTaint(value: unknown): value is RecordedTaint {
  return isFields(value) && ['group', 'key', 'value', 'effect'].every((name) => typeof value[name] === 'string');
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

function parse(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return undefined;
  }
}
