/** The BrupopConfig: users write how nodes are updated, the controller writes the status. */
import * as v from 'valibot';
import { type BrupopConfigSpec, specSchema, withDefaults } from './config-spec.ts';
import { conditions, type KubernetesObject } from './meta.ts';
import { count, count64, described, type Infer, object, optional, text, time } from './schema.ts';
import { isFields, merged } from './spec-schema.ts';

const total = (text: string) => described(count(), text);
const statusSchema = object({
  observedGeneration: optional(
    count64(),
    'The metadata.generation of the spec that is wholly in effect: everything that had to be written for it is written.',
  ),
  conditions: conditions(
    'What is true of the cluster now. Ready: the configuration is in use. Paused: users keep nodes from starting updates. ' +
      'Frozen: the controller does, because it cannot know that it would be safe. WindowOpen: the maintenance windows let ' +
      'nodes start. Progressing: what the fleet does. Degraded: something needs a user. Reasons of one node are on its ' +
      'BottlerocketShadow.',
  ),
  nodes: optional(
    object({
      managed: total(
        'Nodes with the label bottlerocket.aws/updater-interface-version=2.0.0 that spec.nodeSelector selects.',
      ),
      upToDate: total('Nodes that run the version they are to run, which is the pinned one or what their host offers.'),
      updating: total('Nodes that are updating now.'),
      waiting: total('Nodes that are to run another version and wait, and those that have not reported yet.'),
      failed: total('Nodes whose latest attempt failed.'),
    }),
    'The managed nodes, counted.',
  ),
  versions: optional(
    v.array(
      object({
        version: described(text(128), 'The version in question.'),
        running: total('Managed nodes that run it.'),
        offered: total('Managed nodes that run another one and whose host offers it.'),
        firstOfferedTime: described(
          time(),
          'When it was first seen in this cluster. spec.versions.minimumAge counts from here.',
        ),
      }),
    ),
    'The versions that managed nodes run or their hosts offer.',
    { maxItems: 50, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['version'] },
  ),
  window: optional(
    object({
      nextOpenTime: optional(time(), 'When nodes may start updates next. Absent while they may.'),
      nextCloseTime: optional(time(), 'When the window that is open now closes.'),
    }),
    'When nodes may start updates. Absent without windows and blackouts.',
  ),
  updateEstimate: optional(
    text(20),
    'How long the update of one node is expected to take, from those that were measured, such as 12m30s.',
  ),
  expectedCompletionTime: optional(
    time(),
    'When all nodes that can update will have, if all goes well, to within some minutes. Absent when nothing is to be ' +
      'done, or when it cannot be told.',
  ),
  plan: optional(
    v.array(
      object({
        node: described(text(253), 'Name of the Node.'),
        version: optional(text(128), 'Version that it updates to.'),
        reason: described(text(128), 'Why it waits, as in the condition Progressing of its BottlerocketShadow.'),
        expectedTime: optional(time(), 'When its update is expected to be complete. Absent when it cannot be told.'),
      }),
    ),
    'The nodes that update next, in their order, at most 20.',
    { maxItems: 20, 'x-kubernetes-list-type': 'atomic' },
  ),
  inForce: optional(
    object({
      generation: described(count64(), 'The metadata.generation of the spec that it comes from.'),
      spec: described(
        v.unknown() as v.GenericSchema<Readonly<Record<string, unknown>>>,
        'The spec, with all defaults.',
        {
          type: 'object',
          'x-kubernetes-map-type': 'atomic',
          'x-kubernetes-preserve-unknown-fields': true,
        },
      ),
    }),
    'The configuration that nodes are updated by, with every default filled in as it was when the spec was last changed. ' +
      'A new release of the operator does not change it.',
  ),
});
export type BrupopConfigStatus = Infer<typeof statusSchema>;
/** Of another release it may have fields that this one does not know. */
export type InForce = NonNullable<BrupopConfigStatus['inForce']>;
export type VersionStatus = NonNullable<BrupopConfigStatus['versions']>[number];
export type PlannedNode = NonNullable<BrupopConfigStatus['plan']>[number];

export const configSchema = described(
  object({
    spec: described(
      specSchema,
      'What users want. Null, which is what a server-side apply of an empty spec may leave, means all defaults.',
      { nullable: true },
    ),
    status: optional(statusSchema, 'What the controller reports.'),
  }),
  'How the Bottlerocket nodes of this cluster are updated. There is one, named cluster. Without it, and for every field left ' +
    'out, the defaults apply. Users write the spec, the controller writes the status.',
);

export interface BrupopConfig extends KubernetesObject {
  readonly spec: BrupopConfigSpec;
  readonly status?: BrupopConfigStatus;
}

export function readBrupopConfig(raw: unknown): BrupopConfig {
  const { metadata, spec, status } = raw as Omit<BrupopConfig, 'spec'> & { spec?: BrupopConfigSpec | null };
  const { name, uid, resourceVersion, generation = 0 } = metadata;
  return { metadata: { name, uid, resourceVersion, generation }, spec: spec ?? {}, ...(status && { status }) };
}

/**
 * The configuration that is in force unless it is invalid: the spec, with missing fields taken
 * from the record for this generation, else from the defaults. So a release with other defaults
 * changes nothing until the spec changes (ADR 0019).
 */
export function inForceOf({ metadata: { generation = 0 }, spec: given, status: reported }: BrupopConfig): InForce {
  const known = reported?.inForce;
  const isKnown = known !== undefined && known.generation === generation && isFields(known.spec);
  return { generation, spec: isKnown ? merged(known.spec, given) : withDefaults(given) };
}
