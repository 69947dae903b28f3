/** metav1.LabelSelector: its schema in a BrupopConfig, and which objects it selects. */
import * as v from 'valibot';
import { described, isFields, oneOf, textThat } from './schema.ts';
import { field, fields, listOf, requireThat } from './spec-schema.ts';

/** The key of a label: at most 63 characters, perhaps after a DNS subdomain. */
const KEY =
  /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*\/)?[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/u;
const VALUE = /^(?:[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?)?$/u;
export const LABEL_KEY = 'the key of a label, such as pool or topology.kubernetes.io/zone';
export const LABEL_VALUE = 'the value of a label';
export const isLabelKey = (text: string): boolean => KEY.test(text) && text.length <= 317;
export const isLabelValue = (text: string): boolean => VALUE.test(text) && text.length <= 63;
const key = textThat(isLabelKey, 317, LABEL_KEY);
const value = textThat(isLabelValue, 63, LABEL_VALUE);

function areLabels(labels: unknown): boolean {
  return isFields(labels) && Object.entries(labels).every(([name, one]) => KEY.test(name) && v.is(value, one));
}

interface SelectorOptions {
  /** What it selects. */
  readonly what: string;
  readonly maxLabels: number;
  readonly maxRequirements: number;
  readonly maxValues: number;
}

/** @param checks - what holds beyond the rules of all selectors */
export function selectorOf(
  { what, maxLabels, maxRequirements, maxValues }: SelectorOptions,
  ...checks: readonly v.RawCheckAction<never>[]
) {
  const entries = {
    matchLabels: field(
      v.pipe(
        v.unknown(),
        v.check(areLabels, 'labels with their values, such as pool: web'),
        v.metadata({ type: 'object', maxProperties: maxLabels }),
      ) as unknown as v.GenericSchema<Readonly<Record<string, string>>>,
      `Labels that ${what} must have.`,
      { absent: {} },
    ),
    matchExpressions: field(
      listOf(
        fields(
          {
            key: described(key, 'The key of the label.'),
            operator: described(oneOf(['In', 'NotIn', 'Exists', 'DoesNotExist']), 'What is required of its value.'),
            values: field(listOf(value, maxValues), 'The values for In and NotIn.', { absent: [] }),
          },
          requireThat<{ operator: string; values: readonly string[] }>(
            'values',
            'values for In and NotIn, and none for Exists and DoesNotExist',
            ({ operator, values }) => operator.endsWith('In') === values.length > 0,
          ),
        ),
        maxRequirements,
      ),
      'Requirements, all of which must be met.',
      { absent: [] },
    ),
  };
  return fields(entries, ...checks);
}

export const labelSelector = selectorOf({ what: 'a node', maxLabels: 50, maxRequirements: 50, maxValues: 100 });

/** The limits of selectors of which a list has several. */
export const SMALL_SELECTOR = { maxLabels: 10, maxRequirements: 5, maxValues: 10 } as const;

/** A selector of pods. One of what it does not require would select most pods of the namespace. */
export const podSelector = selectorOf(
  { what: 'a pod', ...SMALL_SELECTOR },
  requireThat<LabelSelector>(
    'matchLabels',
    'at least one label that is required, in matchLabels or with In or Exists',
    (selector) => requiredKeys(selector).length > 0,
  ),
);

export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly Requirement[];
}

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** An empty selector selects all objects, an absent one none. */
export function selects(selector: LabelSelector | null | undefined, labels: Readonly<Record<string, string>>): boolean {
  if (selector == null) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  for (const key in matchLabels) if (labels[key] !== matchLabels[key]) return false;
  return matchExpressions.every((requirement) => matches(requirement, labels));
}

/** A short list is read faster than a set. */
const MAX_READ = 8;
/** Of long lists: thousands of pods are compared with the same budgets, thousands of nodes with the same groups. */
const sets = new WeakMap<readonly string[], ReadonlySet<string>>();

function isAmong(value: string, values: readonly string[]): boolean {
  if (values.length <= MAX_READ) return values.includes(value);
  const known = sets.get(values) ?? new Set(values);
  sets.set(values, known);
  return known.has(value);
}

/** An operator of another release selects, so that the pods of an unknown budget stay protected. */
function matches({ key, operator, values = [] }: Requirement, labels: Readonly<Record<string, string>>): boolean {
  // Anyone may name a label as what every object inherits, such as `constructor`.
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'In':
      return value !== undefined && isAmong(value, values);
    case 'NotIn':
      return value === undefined || !isAmong(value, values);
    case 'DoesNotExist':
      return value === undefined;
    case 'Exists':
      return value !== undefined;
    default:
      return true;
  }
}

/** As a query of the Kubernetes API has it. */
export function selectorText({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string {
  const labels = Object.entries(matchLabels).map(([name, one]) => `${name}=${one}`);
  return [...labels, ...matchExpressions.map(requirementText)].join(',');
}

function requirementText({ key: name, operator, values = [] }: Requirement): string {
  if (operator === 'Exists') return name;
  if (operator === 'DoesNotExist') return `!${name}`;
  return `${name} ${operator === 'In' ? 'in' : 'notin'} (${values.join(',')})`;
}

/** Keys of labels that an object must have to be selected. */
export function requiredKeys({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string[] {
  const required = matchExpressions.filter(({ operator }) => operator === 'In' || operator === 'Exists');
  return [...Object.keys(matchLabels), ...required.map((one) => one.key)];
}

export function keysOf({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string[] {
  return [...Object.keys(matchLabels), ...matchExpressions.map(({ key }) => key)];
}

export const NODE_RESTRICTION = 'node-restriction.kubernetes.io/';
/** Of labels that the admission plugin NodeRestriction keeps kubelets from setting on their Nodes. */
export const PROTECTED_PREFIXES = [NODE_RESTRICTION, 'node-role.kubernetes.io/'];

/** True for a label that a kubelet can neither set on its Node nor remove from it. */
export function isProtectedLabel(key: string): boolean {
  return PROTECTED_PREFIXES.some((prefix) => key.startsWith(prefix));
}

/** True for a selector of Nodes that no kubelet can make its Node match. */
export function isProtectedSelector(selector: LabelSelector): boolean {
  return requiredKeys(selector).length > 0 && keysOf(selector).every(isProtectedLabel);
}
