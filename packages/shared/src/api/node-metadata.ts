/**
 * Labels, annotations and taints that a BottlerocketNodeGroup gives to its Nodes: what users may write, and the rendering that
 * the status of the group records. One wrong key makes the whole group invalid, so that nothing is applied in part.
 *
 * What Kubernetes, cloud providers and this operator say about a Node can be given to no Node, and every other key must
 * be of a domain that the group lists.
 */
import * as v from 'valibot';
import { isLabelKey, isLabelValue, LABEL_KEY, LABEL_VALUE } from './label-selector.ts';
import { count64, described, flag, type Infer, isFields, issueAt, object, oneOf, optional } from './schema.ts';
import { always, field, fields, group, listOf } from './spec-schema.ts';

export type KeyValues = Readonly<Record<string, string>>;

/** Groups need not list them; the chart's value nodeMetadata.domains must. */
const OPEN_DOMAINS = ['node-role.kubernetes.io', 'node-restriction.kubernetes.io'];
/** What Kubernetes, the operator and the autoscaler whose holds it sets say about a Node, with all subdomains. */
const RESERVED_DOMAINS = ['kubernetes.io', 'k8s.io', 'bottlerocket.aws', 'karpenter.sh'];
/** Together with those of other writers they must fit into a Node, whose annotations take 256 KiB. */
const MAX_ANNOTATION = 4_096;

const EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'] as const;
const VALUE_OF = { labels: LABEL_VALUE, annotations: `a text of at most ${MAX_ANNOTATION} characters` } as const;

function areValues(of: keyof typeof VALUE_OF) {
  const isValue = of === 'labels' ? isLabelValue : (text: string): boolean => text.length <= MAX_ANNOTATION;
  const check = v.rawCheck<unknown>(({ dataset, addIssue }) => {
    if (!dataset.typed) return;
    if (!isFields(dataset.value)) return addIssue({ message: 'keys with their values, such as example.com/pool: web' });
    for (const [key, value] of Object.entries(dataset.value)) {
      const problem = isLabelKey(key) ? VALUE_OF[of] : LABEL_KEY;
      if (isLabelKey(key) && typeof value === 'string' && isValue(value)) continue;
      addIssue(issueAt(dataset.value, key, problem, isLabelKey(key) ? value : key));
    }
  });
  const keywords = { type: 'object', maxProperties: 32 };
  return v.pipe(v.unknown(), check, v.metadata(keywords)) as unknown as v.GenericSchema<KeyValues>;
}

const taint = fields({
  key: described(
    v.pipe(v.string(LABEL_KEY), v.check(isLabelKey, LABEL_KEY), v.maxLength(317)),
    'The key of the taint, such as example.com/dedicated.',
  ),
  value: field(
    v.pipe(v.string(LABEL_VALUE), v.check(isLabelValue, LABEL_VALUE), v.maxLength(63)),
    'The value of the taint.',
    {
      absent: '',
    },
  ),
  effect: described(oneOf(EFFECTS), 'What the taint does to pods that do not tolerate it.'),
});
export type GroupTaint = Infer<typeof taint>;

const DOMAIN =
  'a domain such as example.com that neither Kubernetes nor the operator owns, or the key of a label, such as pool';
const isDomain = (text: string): boolean => isLabelKey(text) && !isReserved(text.split('/')[0] ?? '');
const domain = v.pipe(v.string(DOMAIN), v.check(isDomain, DOMAIN), v.maxLength(317, DOMAIN));

interface Given {
  readonly labels: KeyValues;
  readonly annotations: KeyValues;
  readonly taints: readonly GroupTaint[];
  readonly domains: readonly string[];
  readonly confirmNoExecute: boolean;
}

const ruled = v.rawCheck<Given>(({ dataset, addIssue }) => {
  if (!dataset.typed) return;
  const { value } = dataset;
  const { labels, annotations, taints, domains, confirmNoExecute } = value;
  const keys = [
    ...Object.keys(labels).map((key) => ['labels', key] as const),
    ...Object.keys(annotations).map((key) => ['annotations', key] as const),
    ...taints.map(({ key }) => ['taints', key] as const),
  ];
  for (const [name, key] of keys) {
    const expected = expectedOf(key, domains);
    if (expected !== undefined) addIssue(issueAt(value, name, expected, key));
  }
  const ids = taints.map(taintId);
  const twice = ids.find((id, index) => ids.indexOf(id) !== index);
  if (twice !== undefined) addIssue(issueAt(value, 'taints', 'one taint of each key and effect', twice));
  const confirmed = confirmNoExecute || !taints.some(({ effect }) => effect === 'NoExecute');
  const why = 'true, because a taint has the effect NoExecute, which evicts pods';
  if (!confirmed) addIssue(issueAt(value, 'confirmNoExecute', why, false));
}) as unknown as v.RawCheckAction<never>;

/** What a key must be instead; undefined: it may be given to Nodes. */
function expectedOf(key: string, domains: readonly string[]): string | undefined {
  const [prefix = ''] = key.includes('/') ? key.split('/') : [''];
  if (OPEN_DOMAINS.includes(prefix)) return undefined;
  if (isReserved(prefix))
    return `a key that neither Kubernetes nor the operator owns, or one of the domains ${OPEN_DOMAINS.join(' and ')}`;
  if (domains.some((one) => one === prefix || one === key)) return undefined;
  return `a key of a domain in spec.nodeMetadata.domains, or of ${OPEN_DOMAINS.join(' and ')}`;
}

function isReserved(domain: string): boolean {
  return RESERVED_DOMAINS.some((one) => domain === one || domain.endsWith(`.${one}`));
}

export function taintId({ key, effect }: { readonly key: string; readonly effect: string }): string {
  return `${key}:${effect}`;
}

export const nodeMetadata = group(
  'Labels, annotations and taints of the Nodes of the group. A change reaches them at once, without a drain. What the group no ' +
    'longer has is removed from them, unless it was there before or another field manager owns it, too.',
  {
    labels: field(areValues('labels'), 'Labels of the Nodes. Keys that a nodeSelector of a group reads are refused.', {
      absent: {},
    }),
    annotations: field(areValues('annotations'), 'Annotations of the Nodes.', { absent: {} }),
    taints: field(listOf(taint, 16), 'Taints of the Nodes.', { absent: [] }),
    domains: field(
      listOf(domain, 16, 'set'),
      'Domains of keys that the group may have, such as example.com for example.com/pool, or whole keys without a domain, such as ' +
        'pool. The domains node-role.kubernetes.io and node-restriction.kubernetes.io need not be listed here. The value ' +
        'nodeMetadata.domains of the chart must have them, too.',
      { absent: [] },
    ),
    conflicts: field(
      oneOf(['Respect', 'Force']),
      'What happens to a key that another field manager has set to another value. Respect: it is kept, and the condition ' +
        'MetadataApplied names it. Force: the group takes it over.',
      always('Respect'),
    ),
    confirmNoExecute: field(
      flag(),
      'True allows taints with the effect NoExecute, which evict running pods.',
      always(false),
    ),
  },
  ruled,
);
export type NodeMetadataSpec = Infer<typeof nodeMetadata>;

const values = (text: string) => described(v.record(v.string(), v.string('a text')), text);
const keys = (text: string) =>
  described(v.array(v.string('a key'), 'a list'), text, { 'x-kubernetes-list-type': 'atomic' });

/** What Nodes and their hosts are given. */
export const renderedSchema = object({
  generation: described(count64(), 'The metadata.generation that it was rendered for.'),
  conflicts: described(oneOf(['Respect', 'Force']), 'What happens to the keys of other field managers.'),
  labels: values('The labels of the Nodes.'),
  annotations: values('The annotations of the Nodes.'),
  taints: described(
    v.array(
      object({
        key: described(v.string('a key'), 'The key of the taint.'),
        value: described(v.string('a value'), 'The value of the taint.'),
        effect: described(oneOf(EFFECTS), 'The effect of the taint.'),
      }),
      'a list',
    ),
    'The taints of the Nodes.',
    { 'x-kubernetes-list-type': 'atomic' },
  ),
  settings: values('The settings of the hosts, by their keys, as JSON.'),
  dropped: described(
    object({
      labels: keys('Keys of labels.'),
      annotations: keys('Keys of annotations.'),
      taints: keys('Taints, as key:effect.'),
    }),
    'What earlier renderings had and this one does not have: it is removed from Nodes where the group owns it.',
  ),
});
export type Rendered = Infer<typeof renderedSchema>;

/** What the status of a group records; undefined: nothing readable. */
export function readRendered(status: { readonly rendered?: unknown } | undefined): Rendered | undefined {
  const { success, output } = v.safeParse(renderedSchema, status?.rendered);
  return success ? output : undefined;
}

export const renderedField = optional(
  renderedSchema,
  'What the Nodes of the group and their hosts are given. It is rendered when the spec changes: a new release of the operator does not change it.',
  { 'x-kubernetes-map-type': 'atomic' },
);
