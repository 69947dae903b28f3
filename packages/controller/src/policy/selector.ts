import type { SpecReader } from '@brupop/shared/api/brupop-config';
import type { LabelSelector } from '@brupop/shared/api/meta';

type Requirement = NonNullable<LabelSelector['matchExpressions']>[number];

/** A key of at most 63 characters, with a DNS subdomain or without. */
const KEY =
  /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/u;
const VALUE = /^(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?$/u;
const KEY_EXPECTED = 'the key of a label, such as pool or topology.kubernetes.io/zone';
const VALUE_EXPECTED = 'the value of a label';

/** Reads a label selector, every field; undefined when none is given. */
export function readSelector(read: SpecReader, field: string): LabelSelector | undefined {
  if (read.valueOf(field) === undefined) return undefined;
  const matchExpressions = read.items(`${field}.matchExpressions`).map((one) => readRequirement(read, one));
  return { matchLabels: readLabels(read, `${field}.matchLabels`), matchExpressions };
}

function readLabels(read: SpecReader, field: string): Readonly<Record<string, string>> {
  const value = read.valueOf(field);
  if (value === undefined) return {};
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && Object.entries(value).every(isLabel)) {
    return value as Readonly<Record<string, string>>;
  }
  return read.wrong(field, 'labels with their values, such as pool: web', value) ?? {};
}

function isLabel([key, value]: [string, unknown]): boolean {
  return KEY.test(key) && typeof value === 'string' && VALUE.test(value);
}

function readRequirement(read: SpecReader, field: string): Requirement {
  const key = read.text(`${field}.key`) ?? '';
  const operator = read.valueOf(`${field}.operator`) === undefined ? undefined : operatorIn(read, `${field}.operator`);
  if (!KEY.test(key)) read.wrong(`${field}.key`, KEY_EXPECTED, read.valueOf(`${field}.key`));
  if (operator === undefined) read.wrong(`${field}.operator`, 'In, NotIn, Exists or DoesNotExist', operator);
  const values = read.items(`${field}.values`).map((one) => readLabelValue(read, one));
  if ((operator === 'In' || operator === 'NotIn') !== values.length > 0) {
    read.wrong(`${field}.values`, 'values for In and NotIn, and none for Exists and DoesNotExist', values);
  }
  return { key, operator: operator ?? 'Exists', values };
}

function operatorIn(read: SpecReader, field: string): string {
  return read.oneOf(field, ['In', 'NotIn', 'Exists', 'DoesNotExist']);
}

function readLabelValue(read: SpecReader, field: string): string {
  const value = read.valueOf(field);
  return typeof value === 'string' && VALUE.test(value) ? value : (read.wrong(field, VALUE_EXPECTED, value) ?? '');
}
