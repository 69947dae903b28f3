/**
 * The BottlerocketNodeGroup: what holds for a pool of nodes instead of the BrupopConfig. Users write the
 * spec, the controller writes the status. The fields that override those of the configuration have its
 * schema (`OVERRIDES`), and are read after both were merged.
 */
import * as v from 'valibot';
import { type Edit, editsOf } from './edits.ts';
import { GENERATIONS, LANE, ROLLOUT } from './brupop-config.ts';
import { type BrupopConfigSpec, OVERRIDES } from './config-spec.ts';
import { type LabelSelector, labelSelector } from './label-selector.ts';
import { nodeMetadata, renderedField } from './node-metadata.ts';
import { conditions, type KubernetesObject, NOT_SEEN } from './meta.ts';
import { count, described, type Infer, list, object, optional, oneOf, text, whole } from './schema.ts';
import { SETTING_CLASSES, settingKey } from './settings.ts';
import { always, duration, field, fields, listOf, type Reading, readSpec } from './spec-schema.ts';

const NAME = 'the name of a BottlerocketNodeGroup';
const groupName = v.pipe(
  v.string(NAME),
  v.regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, NAME),
  v.minLength(1, NAME),
  v.maxLength(63, NAME),
);

const OWN = {
  // A reader goes on without it; the definition of the resource requires it.
  nodeSelector: field(
    labelSelector,
    'Which of the managed nodes are in the group, by their labels. An empty selector selects all. A kubelet may change the labels ' +
      'of its own Node, except those with the prefix node-restriction.kubernetes.io/.',
  ),
  precedence: field(
    whole(0, 1_000_000),
    'If several groups select a node, it is in the one with the highest precedence; with the same precedence, in the one whose ' +
      'name sorts first. From 0, which is the default, to 1000000.',
    always(0),
  ),
  after: field(
    listOf(groupName, 20, 'set'),
    'Groups that go first. A node starts its update to a version when all nodes of these groups run that version or a later one, ' +
      'are Ready, and are not updating. Nodes with the annotation brupop.bottlerocket.aws/skip do not count, nor do groups that pin ' +
      'another version or deny this one. A group without nodes keeps this one waiting.',
    { absent: [] },
  ),
  settings: field(
    v.pipe(
      v.record(v.string(), v.unknown(), 'an object'),
      v.metadata({ 'x-kubernetes-preserve-unknown-fields': true }),
    ),
    'Settings of the hosts, nested as `apiclient set --json` takes them, without the outer `settings`. A setting that is removed here gets back ' +
      'the value that it had before. The agent asks its host what a change disrupts before it makes it: nothing, kubelet and ' +
      'container runtime, which restart within the limits of concurrency, or a reboot, for which the node is drained as for an update. ' +
      'Version lock and waves belong to versions. Settings that hold secrets are refused, since their values could be read here: let ' +
      'a bootstrap container set them.',
  ),
  settingsConflicts: field(
    oneOf(['Respect', 'Force']),
    'What happens to a setting that a user changes on the host afterwards. Respect: it is kept, and a condition says so. Force: it is ' +
      'replaced, and is the value to get back later.',
    always('Respect'),
  ),
  soak: field(
    duration('0s', '720h'),
    'How long a node waits after the latest successful update in the groups of after. Without after it has no effect.',
    always('0s'),
  ),
  nodeMetadata,
};

const ownSpec = fields(OWN);
export type NodeGroupRules = Infer<typeof ownSpec>;

const statusSchema = object({
  ...GENERATIONS,
  conditions: conditions(
    'The state of the group. Ready: its spec is in use; False while it is being applied to nodes. Reconciling and Stalled, as kstatus reads them: the spec is being applied, and a user is needed. Paused: updates of its nodes are paused. Frozen: no update to a version starts that too many nodes failed with. WindowOpen: its maintenance ' +
      'windows allow updates to start. SettingsApplied: the hosts have its settings. Progressing: nodes are updating. Degraded: something needs a user. MetadataApplied: its Nodes have its ' +
      'labels, annotations and taints. PendingChanges: the next change of the spec will also bring what this release renders otherwise.',
  ),
  rendered: renderedField,
  ...ROLLOUT,
  ...LANE,
  settings: optional(
    list(
      object({
        key: described(settingKey, 'The key of the setting.'),
        class: described(
          oneOf(SETTING_CLASSES),
          'What its change disrupts. Live: nothing. RestartsService: kubelet or container runtime. NeedsReboot: it is set with the next ' +
            'update of the node. Refused: it cannot be set, and no other setting of the group is.',
        ),
        reason: described(text(256), 'Why it has this class.'),
        nodes: described(count(), 'On how many nodes it is left to be changed.'),
      }),
      100,
    ),
    'Changes of settings that are not made yet, at most 100.',
    { 'x-kubernetes-list-type': 'atomic' },
  ),
});
export type NodeGroupStatus = Infer<typeof statusSchema>;

export const nodeGroupSchema = described(
  object({
    spec: described(
      fields({ ...OWN, ...OVERRIDES }),
      'What users want. A field that is left out has the value of the BrupopConfig, except for paused, pauseMode, pauseReason, ' +
        'rollout.resume, rollout.approvedVersion and rollout.canary.nodeSelector. Percentages are of the nodes of the group. ' +
        'versions.deny and maintenance.blackouts are added to those of the BrupopConfig, and a pause of either holds.',
    ),
    status: optional(statusSchema, 'What the controller reports.', NOT_SEEN),
  }),
  'A pool of nodes with rules of its own. Each node is in at most one group. The limits of the BrupopConfig hold for the nodes of ' +
    'all groups together.',
);

type Overrides = Pick<BrupopConfigSpec, keyof typeof OVERRIDES>;
type Own = Omit<v.InferInput<typeof ownSpec>, 'nodeSelector'>;

export interface BottlerocketNodeGroup extends KubernetesObject {
  readonly spec: Overrides & Own & { readonly nodeSelector: LabelSelector };
  readonly status?: NodeGroupStatus;
  /** Who has written its spec. */
  readonly edits?: readonly Edit[];
}

export function readNodeGroup(raw: unknown): BottlerocketNodeGroup {
  const { metadata, spec, status } = raw as BottlerocketNodeGroup;
  const { name, uid, resourceVersion, generation = 0, deletionTimestamp, finalizers = [] } = metadata;
  const edits = editsOf(metadata);
  const deleted = deletionTimestamp === undefined ? {} : { deletionTimestamp };
  return {
    metadata: { name, uid, resourceVersion, generation, finalizers, ...deleted },
    spec,
    ...(status && { status }),
    ...(edits.length > 0 && { edits }),
  };
}

/** Reads the fields of the spec that a BrupopConfig does not have. */
export function readNodeGroupRules({ spec }: BottlerocketNodeGroup): Reading<NodeGroupRules> {
  return readSpec(ownSpec, spec);
}
