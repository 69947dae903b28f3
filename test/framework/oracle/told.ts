/** What the plan of this commit says, and what it wants to be written, as JSON. */
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { EventSource } from '../../../packages/shared/src/kube/events.ts';
import { RECORD_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import { recordText } from '../../../packages/shared/src/api/record.ts';
import { conditionOf, healthConditions } from '../../../packages/controller/src/apply/conditions.ts';
import { annotationsOf } from '../../../packages/controller/src/apply/shadows.ts';
import { keyOf } from '../../../packages/controller/src/cluster/probes.ts';
import type { Snapshot } from '../../../packages/controller/src/cluster/snapshot.ts';
import { statusOf } from '../../../packages/controller/src/report/config-status.ts';
import { groupStatusOf } from '../../../packages/controller/src/report/group-status.ts';
import type { WholePlan as Plan } from '../../../packages/controller/src/whole-plan.ts';
import type { RawShadowSpec } from './objects.ts';

/** What a planner says, by node where it is of one. All of it is compared. */
export type Told = Readonly<Record<string, unknown>>;

export type Write =
  | {
      readonly kind: 'spec';
      readonly name: string;
      readonly spec: RawShadowSpec;
      readonly annotations: Readonly<Record<string, string | null>>;
    }
  | {
      readonly kind: 'annotations' | 'node annotations';
      readonly name: string;
      readonly annotations: Readonly<Record<string, string | null>>;
    }
  | { readonly kind: 'condition' | 'status'; readonly name: string; readonly status: object }
  | { readonly kind: 'create' | 'delete' | 'restore'; readonly name: string }
  | {
      readonly kind: 'taint';
      readonly name: string;
      readonly key: string;
      readonly effect: string;
      readonly on: boolean;
    }
  | { readonly kind: 'job'; readonly jobName: string; readonly jobOf: string };

const STARTUP = 'brupop.bottlerocket.aws/starting';
const WAITING = 'brupop.bottlerocket.aws/update-pending';
const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service';

interface Status {
  readonly kind: 'status';
  /** Of the group; empty: of the configuration. */
  readonly name: string;
  readonly status: object;
}

export function statusesOf(snapshot: Snapshot, made: Plan, now: number): Status[] {
  const { config, groupObjects } = snapshot;
  const own = config === undefined ? [] : [statusOfConfig(config, made, now)];
  return [
    ...own,
    ...groupObjects.flatMap((object) => {
      const rollout = made.groups.find(({ group }) => group.name === object.metadata.name);
      if (rollout === undefined) return [];
      const status = groupStatusOf(object, { rollout, before: object.status, isWritten: true, now });
      return [{ kind: 'status' as const, name: object.metadata.name, status }];
    }),
  ];
}

function statusOfConfig(config: BrupopConfig, made: Plan, now: number): Status {
  return {
    kind: 'status',
    name: '',
    status: statusOf({ config, plan: made, before: config.status, isWritten: true, now }),
  };
}

const eventOf = (event: EventSource | undefined): unknown =>
  event && [event.reason, event.message, event.warning ?? false];

function byName<T>(entries: readonly (readonly [string, T])[]): Record<string, T> {
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Not the annotations, in which a planner may remember what it likes. */
export function toldOf(made: Plan): Told {
  const { counts, stale, stuckNodes, orphanedNodes, uncreated, needsPodsOf, allPods, wakeAt } = made;
  return {
    specs: byName(
      made.specs.map(({ node, spec, outcome, event }) => [
        node.metadata.name,
        { spec, outcome, event: eventOf(event) },
      ]),
    ),
    conditions: byName(
      made.conditions
        .flat()
        .map(({ node, progressing, health, group, event }) => [
          node.metadata.name,
          { progressing, health, group, event: eventOf(event) },
        ]),
    ),
    taints: byName(made.taints.map(({ node, waiting, startup }) => [node.metadata.name, { waiting, startup }])),
    outOfService: byName(
      made.outOfService.map(({ node, wanted, event }) => [node.metadata.name, { wanted, event: eventOf(event) }]),
    ),
    cleanups: byName(
      made.cleanups.map(({ managedNode, kind, event, kept }) => [
        managedNode.name,
        { kind, event: eventOf(event), kept: eventOf(kept) },
      ]),
    ),
    lost: byName(made.lost.map(({ name, message, event }) => [name, { message, event: eventOf(event) }])),
    metadata: made.metadata.changes.map(({ node, groups, evicts }) => [node.metadata.name, groups, evicts]),
    newNodes: made.newNodes.map(({ metadata: { name } }) => name),
    lookUps: made.lookUps.map(({ metadata: { name } }) => name),
    checks: {
      evaluate: made.checks.evaluate.map(keyOf),
      read: made.checks.read.map(({ jobName }) => jobName),
      start: made.checks.nodes.flatMap(({ start, create }) => [...start, ...create].map(({ jobName }) => jobName)),
      events: made.checks.nodes.map(({ event }) => eventOf(event)),
    },
    members: [...made.members.keep],
    quorums: made.quorums,
    uncreated: [...uncreated],
    needsPodsOf: [...needsPodsOf].toSorted(),
    counts,
    stale,
    stuckNodes,
    orphanedNodes,
    allPods,
    wakeAt,
  };
}

export function writesOf(made: Plan, now: number): Write[] {
  const unwritten = new Set(made.specs.map(({ node }) => node.metadata.name));
  const conditions = made.conditions.flat().filter(({ node }) => !unwritten.has(node.metadata.name));
  return [
    ...made.specs.map((change): Write => {
      const { node, spec } = change;
      return { kind: 'spec', name: node.metadata.name, spec, annotations: annotationsOf(change) };
    }),
    ...made.checks.nodes.flatMap(ofJobs),
    ...made.newNodes.map(({ metadata: { name } }): Write => ({ kind: 'create', name })),
    ...made.cleanups.flatMap(ofCleanup),
    ...made.taints.flatMap(ofTaints),
    ...made.outOfService.flatMap(ofOutOfService),
    ...conditions.map((change): Write => {
      const all = [conditionOf(change, now), ...healthConditions(change, now)];
      return { kind: 'condition', name: change.node.metadata.name, status: { conditions: all, group: change.group } };
    }),
  ];
}

function ofJobs({ node, shadow, records, start, create }: Plan['checks']['nodes'][number]): Write[] {
  const { name } = node.metadata;
  const record = recordText({ ...shadow.record, jobs: records ?? undefined });
  const recorded: Write[] =
    records === undefined ? [] : [{ kind: 'annotations', name, annotations: { [RECORD_ANNOTATION]: record } }];
  return [...recorded, ...[...start, ...create].map(({ jobName, jobOf }): Write => ({ kind: 'job', jobName, jobOf }))];
}

function ofCleanup({ managedNode: { name }, kind }: Plan['cleanups'][number]): Write[] {
  const restored: Write[] = kind === 'DeleteShadow' ? [] : [{ kind: 'restore', name }];
  return kind === 'DeleteShadow' || kind === 'Unmanage' ? [...restored, { kind: 'delete', name }] : restored;
}

function ofTaints({ node, waiting, startup }: Plan['taints'][number]): Write[] {
  const { name } = node.metadata;
  return [
    { kind: 'taint', name, key: WAITING, effect: 'PreferNoSchedule', on: waiting },
    { kind: 'taint', name, key: STARTUP, effect: 'NoSchedule', on: startup },
  ];
}

function ofOutOfService({ node, wanted: on }: Plan['outOfService'][number]): Write[] {
  const { name } = node.metadata;
  const annotations = { 'brupop.bottlerocket.aws/out-of-service': on ? 'set' : null };
  return [
    { kind: 'taint', name, key: OUT_OF_SERVICE, effect: 'NoExecute', on },
    { kind: 'node annotations', name, annotations },
  ];
}
