/**
 * The BottlerocketNodeGroups as the plan uses them, in the order in which they claim nodes. The policy of a group is that
 * of the BrupopConfig with the fields that the group overrides. It is read when the spec of a group or the configuration
 * changes.
 *
 *     a node belongs to the first group, by precedence and then by name, whose nodeSelector selects it
 *     a node that is updating belongs to the group that its update began with, while that exists
 *     a group with a mistake starts nothing: updates under way go on as it says where the mistake is not, and Nodes
 *     keep its metadata
 *     a group that is being deleted has no nodes
 */
import type { NodeLimit } from '@brupop/shared/api/config-values';
import { overridden, readConfigSpec } from '@brupop/shared/api/config-spec';
import {
  isProtectedSelector,
  keysOf,
  type LabelSelector,
  NODE_RESTRICTION,
  selects,
} from '@brupop/shared/api/label-selector';
import { CONFIG_KIND, CONFIG_NAME, NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { type Rendered, readRendered } from '@brupop/shared/api/node-metadata';
import { type BottlerocketNodeGroup, type NodeGroupRules, readNodeGroupRules } from '@brupop/shared/api/node-group';
import { isFields } from '@brupop/shared/api/schema';
import type { Setting } from '@brupop/shared/api/shadow';
import type { Difference } from '@brupop/shared/api/spec-schema';
import { type Concurrency, type Openings, openingsOf, policyWith, type UpdatePolicy } from './policy.ts';
import { pendingRendering, render, type Rendering } from './rendered.ts';
import { requestedSettings } from './settings.ts';

/** Limits of one group; those that it does not set are those of the fleet alone. */
export type GroupConcurrency = Partial<Omit<Concurrency, 'maxUpdating'>> & { readonly maxUpdating?: NodeLimit };

/** What a group has of its own, beside the fleet, by the fields of `spec.rollout` that it sets. */
const LANES = {
  budget: ['failureBudget'],
  canaries: ['canary', 'soak', 'approval', 'approvedVersion'],
  progress: ['progressDeadline'],
} as const;
export type Lane = keyof typeof LANES;

export interface NodeGroup extends Pick<NodeGroupRules, 'precedence' | 'after' | 'soakMs'> {
  readonly name: string;
  readonly uid: string;
  readonly generation: number;
  /** Undefined: it is not readable, so that the group has no nodes. */
  readonly selector: LabelSelector | undefined;
  readonly concurrency: GroupConcurrency;
  readonly policy: UpdatePolicy;
  /** The group pauses its nodes, and the fleet is not paused. */
  readonly pauses: boolean;
  readonly lanes: ReadonlySet<Lane>;
  /** What this release gives to Nodes by the spec. */
  readonly rendering: Rendering;
  /** What Nodes are given. */
  readonly rendered: Rendered | undefined;
  /** What the next change of the spec also changes. */
  readonly pendingChanges: readonly Difference[];
  /** What is wrong with the group itself. */
  readonly problem: string | undefined;
}

/** @param group - the name of a group; undefined: the configuration is meant */
export function objectOf(group?: string): string {
  return group === undefined ? `${CONFIG_KIND} "${CONFIG_NAME}"` : `${NODE_GROUP_KIND} "${group}"`;
}

/** @param group - that of the node, if any */
export function describePause(
  { pauseReason }: Pick<UpdatePolicy, 'pauseReason'>,
  group: Pick<NodeGroup, 'name' | 'pauses'> | undefined,
): string {
  const who = group?.pauses === true ? `${objectOf(group.name)} pauses its nodes` : `${objectOf()} pauses all updates`;
  return pauseReason === undefined ? who : `${who}: ${pauseReason}`;
}

/** `config` is the policy of the BrupopConfig. */
export function readNodeGroups(groups: readonly BottlerocketNodeGroup[], config: UpdatePolicy): NodeGroup[] {
  const known = openingsOf(config);
  const read = groups.map((group) => readGroup(group, config, known));
  const byName = new Map(read.map((group) => [group.name, group]));
  const readers = readersOf(read, config);
  return read
    .map((group) => withProblem(group, orderProblem(group, byName)))
    .map((group) => withProblem(group, labelProblem(group, readers) ?? protectionProblem(group)))
    .toSorted((a, b) => b.precedence - a.precedence || (a.name < b.name ? -1 : 1));
}

/** @param began - the group that the update of the node began with, empty: none; undefined: it is not updating */
export function groupOf(
  labels: Readonly<Record<string, string>>,
  groups: readonly NodeGroup[],
  began: string | undefined,
): NodeGroup | undefined {
  if (began !== undefined) return groups.find(({ name }) => name === began);
  return groups.find(({ selector }) => selects(selector, labels));
}

function readGroup(object: BottlerocketNodeGroup, config: UpdatePolicy, known: Openings): NodeGroup {
  const { spec, metadata } = object;
  const { value, problems } = readNodeGroupRules(object);
  const { nodeSelector, precedence, after, soakMs } = value;
  const both = overridden(config.source, spec);
  const merged = policyWith(config, both, known);
  const mistakes = readConfigSpec(both).problems;
  const policy = mistakes.length === 0 ? merged : withoutMistakes(config, merged, mistakes);
  const found = renderingOf(object, render(value));
  const settings = requestedSettings(metadata.name, value, found.inForce);
  const missing =
    nodeSelector === undefined ? 'spec.nodeSelector: expected a selector of nodes, found none' : undefined;
  const group = {
    name: metadata.name,
    uid: metadata.uid,
    generation: metadata.generation ?? 0,
    // One that is not completely readable would select more nodes than its author wants.
    selector: problems.some((problem) => problem.startsWith('spec.nodeSelector')) ? undefined : nodeSelector,
    precedence,
    after,
    soakMs,
    concurrency: own(merged.concurrency, spec?.concurrency),
    policy: withSettings(policy, settings.own),
    pauses: pausesItself(merged, config),
    lanes: lanesIn(spec),
    rendering: found.rendering,
    rendered: found.rendered,
    pendingChanges: found.pendingChanges,
    problem: undefined,
  };
  const mistake = config.problem === undefined ? merged.problem : undefined;
  return withProblem(group, problems[0] ?? missing ?? settings.problem ?? mistake);
}

/** Those of `spec.versions` stay. */
function withSettings(policy: UpdatePolicy, own: readonly Setting[]): UpdatePolicy {
  return own.length === 0 ? policy : { ...policy, settings: [...policy.settings, ...own] };
}

function renderingOf(
  { metadata, status }: BottlerocketNodeGroup,
  rendering: Rendering,
): Pick<NodeGroup, 'rendering' | 'rendered' | 'pendingChanges'> & { readonly inForce: Rendering } {
  const rendered = readRendered(status);
  const recorded = rendered?.generation === metadata.generation ? rendered : undefined;
  return { rendering, rendered, inForce: recorded ?? rendering, pendingChanges: pendingRendering(recorded, rendering) };
}

/**
 * What protects nodes that are updating is that of the group, as the drain in the API server, unless the mistake is in
 * it. What could let a node start or be drained is what is readable of it: a calendar with a mistake is never open. A
 * pause interrupts nothing.
 */
function withoutMistakes(config: UpdatePolicy, readable: UpdatePolicy, mistakes: readonly string[]): UpdatePolicy {
  const { maintenance, calendar, calendarOfRequests, versions, paused, pauseReason, rollout, resumes } = readable;
  const read = { maintenance, calendar, calendarOfRequests, versions, paused, pauseReason, rollout, resumes };
  const by = (...fields: readonly string[]): UpdatePolicy =>
    mistakes.some((mistake) => fields.some((name) => mistake.startsWith(`spec.${name}`))) ? config : readable;
  const { drain, drainMs } = by('drain', 'loadBalancer');
  const [{ monitoring }, { health }, { hooks }] = [by('monitoring'), by('health'), by('hooks')];
  return { ...config, ...read, drain, drainMs, monitoring, health, hooks };
}

function own(concurrency: Concurrency, given: unknown): GroupConcurrency {
  const names = namesSet(given);
  return Object.fromEntries(Object.entries(concurrency).filter(([name]) => names.includes(name)));
}

function namesSet(given: unknown): string[] {
  return Object.entries(isFields(given) ? given : {}).flatMap(([name, value]) => (value == null ? [] : name));
}

function pausesItself({ paused }: UpdatePolicy, fleet: UpdatePolicy): boolean {
  return paused && !fleet.paused;
}

function lanesIn(spec: unknown): ReadonlySet<Lane> {
  const names = namesSet(isFields(spec) ? spec['rollout'] : undefined);
  const lanes = Object.entries(LANES) as [Lane, readonly string[]][];
  return new Set(lanes.flatMap(([lane, fields]) => (fields.some((name) => names.includes(name)) ? lane : [])));
}

function withProblem(group: NodeGroup, problem: string | undefined): NodeGroup {
  if (problem === undefined || group.problem !== undefined) return group;
  const shown = `${NODE_GROUP_KIND} "${group.name}": ${problem}`;
  return { ...group, problem, policy: { ...group.policy, problem: group.policy.problem ?? shown } };
}

/** Nodes that wait for a group that does not exist, or for each other, would wait for ever. */
function orderProblem({ name, after }: NodeGroup, groups: ReadonlyMap<string, NodeGroup>): string | undefined {
  const missing = after.find((one) => !groups.has(one));
  if (missing !== undefined)
    return `spec.after: expected the name of a ${NODE_GROUP_KIND} that exists, found "${missing}"`;
  const reached = new Set<string>();
  const reach = (from: readonly string[]): void => {
    for (const one of from.filter((next) => !reached.has(next))) {
      reached.add(one);
      reach(groups.get(one)?.after ?? []);
    }
  };
  reach(after);
  return reached.has(name) ? 'spec.after: expected groups that do not wait for this one, found a cycle' : undefined;
}

/** By key of a label: whose selectors read it. */
function readersOf(groups: readonly NodeGroup[], { nodeSelector, rollout }: UpdatePolicy): ReadonlyMap<string, string> {
  const selectors = [
    ...groups.flatMap(({ name, selector, policy }) => {
      const of = `of the ${NODE_GROUP_KIND} "${name}"`;
      const { nodeSelector: ofCanaries } = policy.rollout.canary;
      return [
        [selector, `spec.nodeSelector ${of}`] as const,
        [ofCanaries, `spec.rollout.canary.nodeSelector ${of}`] as const,
      ];
    }),
    [nodeSelector, `spec.nodeSelector of the ${CONFIG_KIND}`] as const,
    [rollout.canary.nodeSelector, `spec.rollout.canary.nodeSelector of the ${CONFIG_KIND}`] as const,
  ];
  return new Map(
    selectors.flatMap(([selector, reader]) => keysOf(selector ?? {}).map((key) => [key, reader] as const)),
  );
}

/** A group must not move nodes between groups. */
function labelProblem({ rendering }: NodeGroup, readers: ReadonlyMap<string, string>): string | undefined {
  const found = Object.keys(rendering.labels).find((key) => readers.has(key));
  if (found === undefined) return undefined;
  return `spec.nodeMetadata.labels: expected keys that no selector of nodes reads, found "${found}", which ${readers.get(found) ?? ''} reads`;
}

/** A kubelet could make such a group select its Node, and so get a label that it must not have. */
function protectionProblem({ selector, rendering }: NodeGroup): string | undefined {
  const found = Object.keys(rendering.labels).find((key) => key.startsWith(NODE_RESTRICTION));
  if (found === undefined || selector === undefined || isProtectedSelector(selector)) return undefined;
  return `spec.nodeMetadata.labels: expected no keys of ${NODE_RESTRICTION} unless kubelets can set none of the labels in spec.nodeSelector, found "${found}"`;
}
