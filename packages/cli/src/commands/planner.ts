/** The planner of the controller, run here: on the cluster as it is, and as an edit would make it. */
import { readFileSync } from 'node:fs';
import { addAbortSignal } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { configPath } from '@brupop/shared/kube/paths';
import type { Clock } from '@brupop/shared/runtime/clock';
import { messageOf } from '@brupop/shared/runtime/errors';
import { forEachOf } from '@brupop/shared/runtime/for-each';
import type { NodeView } from '@brupop/controller/cluster/node';
import type { ManagedNode, NodePair } from '@brupop/controller/cluster/snapshot';
import { lookUpsOf } from '@brupop/controller/plan/look-ups';
import type { Blocked, Candidate } from '@brupop/controller/plan/facts/reasons';
import { gatesOf } from '@brupop/controller/plan/gates/admission';
import { type Plan, plan } from '@brupop/controller/plan/plan';
import type { Client } from '../cluster/client.ts';
import { withEdits } from '../cluster/edit.ts';
import { UsageError } from '../cluster/errors.ts';
import { type Objects, readObjects, readPods, snapshotOf } from '../cluster/snapshot.ts';
import { type Outcome, outcomesOf } from '../render/outcomes.ts';
import type { Context } from './context.ts';

/** Each plan may ask for the pods of a hundred more nodes: so many suffice if all nodes of a large fleet may start, */
const MAX_ROUNDS = 60;
/** and for those of one node only, if its drain is blocked: pods of so many more nodes are read in each round. */
const MORE_EACH_ROUND = 2;

export interface Comparison {
  readonly config: BrupopConfig | undefined;
  readonly before: readonly Outcome[];
  readonly after: readonly Outcome[];
  /** A sentence if the pods of more nodes would have to be read; undefined: all that is asked is known. */
  readonly incomplete: string | undefined;
}

/** Throws UsageError for a file that cannot be read, and KubeError. */
export async function compare(
  { client, clock, signal }: Omit<Context, 'screen' | 'print'>,
  file: string,
): Promise<Comparison> {
  const given = await read(file, signal);
  const objects = await readObjects(client);
  const now = await timeOf(client, clock);
  const before = await planned(client, objects, now);
  const after = await planned(client, withEdits(before.objects, file, given), now);
  return {
    config: objects.config,
    before: outcomesOf(before.plan),
    after: outcomesOf(after.plan),
    incomplete: before.isComplete && after.isComplete ? undefined : describeLimit(after.objects),
  };
}

function describeLimit({ pods }: Objects): string {
  return `the pods of ${pods.size} nodes were read, and more nodes may start now than are shown`;
}

export interface Gates {
  readonly config: BrupopConfig | undefined;
  readonly answers: ReturnType<typeof gatesOf> | string;
}

/**
 * What each gate says of the node, in their order; a text: none is asked, or none blocks it. Throws UsageError when the
 * node is not managed, and KubeError.
 */
export async function gatesOfNode({ client, clock }: Omit<Context, 'screen' | 'print'>, node: string): Promise<Gates> {
  const { plan: made, objects } = await plannedWithPodsOf(node, client, await timeOf(client, clock));
  return { config: objects.config, answers: answersOf(node, made) };
}

/** By the clock of the API server: with one of a user that is wrong, windows, waits and deadlines would be. Throws KubeError. */
async function timeOf(client: Client, clock: Pick<Clock, 'now'>): Promise<number> {
  return (await client.time(configPath())) ?? clock.now();
}

function answersOf(node: string, made: Plan): Gates['answers'] {
  const found = [...made.admitted].find(([{ name }]) => name === node);
  if (found !== undefined) return answersFor(...found, made);
  const decision = made.decisions.flat().find(({ managedNode: { name } }) => name === node);
  if (decision === undefined) throw new UsageError(`node ${node}: expected a managed node, found none`);
  const { progressing, managedNode } = decision;
  // A condition that is not decided on now remains as it was reported.
  const shown = asReported(progressing, managedNode) ?? managedNode.shadow?.progressing;
  const { reason = 'Waiting', message = 'its agent has not reported yet' } = shown ?? {};
  return `No gate is asked: the node is not about to start an update. ${reason}: ${message}`;
}

function answersFor(candidate: Candidate, blocked: Blocked | undefined, { fleetState }: Plan): Gates['answers'] {
  if (blocked === undefined) return startsText(candidate);
  const answers = gatesOf(candidate, fleetState);
  const first = answers.find(([, answer]) => answer !== undefined)?.[0];
  return answers.map(([gate, answer]) => [gate, gate === first ? asReported(answer, candidate) : answer]);
}

/** Such as that a watch is stale: only a controller knows that. */
function startsText({ shadow: { progressing } }: Pick<NodePair, 'shadow'>): string {
  const { status, reason, message } = progressing ?? {};
  const starts = 'No gate blocks the node: it starts now';
  if (status !== 'False' || reason === 'UpToDate') return `${starts}.`;
  return `${starts}, unless the controller still finds what it has reported last. ${reason}: ${message}`;
}

/** With the words of the controller if it has reported the same reason: it knows more, such as the Jobs of checks. */
function asReported<T extends { readonly reason: string; readonly message: string }>(
  found: T | undefined,
  { shadow }: Pick<ManagedNode, 'shadow'>,
): T | undefined {
  const { reason, message } = shadow?.progressing ?? {};
  if (found === undefined || message === undefined || found.reason !== reason) return found;
  return { ...found, message };
}

/** Also with the pods on the node if the planner asks for none of them, as an earlier gate blocks: a later one answers. */
async function plannedWithPodsOf(node: string, client: Client, now: number): Promise<Planned> {
  const objects = await readObjects(client);
  const found = objects.nodes.find(({ metadata }) => metadata.name === node);
  const pods = new Map(found === undefined ? [] : [[node, await readPods(client, found, now)] as const]);
  return await planned(client, { ...objects, pods }, now);
}

interface Planned {
  readonly plan: Plan;
  readonly objects: Objects;
  /** The plan asked for no pods that are not known. */
  readonly isComplete: boolean;
}

/** Plans again with the pods that the plan before asked for. */
async function planned(client: Client, given: Objects, now: number): Promise<Planned> {
  let objects = given;
  for (let round = 1; ; round += 1) {
    const snapshot = snapshotOf(objects, now);
    const made = plan(snapshot, now);
    const { lookUps } = lookUpsOf(made, [], snapshot);
    const isUnknown = ({ metadata }: NodeView): boolean => !objects.pods.has(metadata.name);
    const wanted = lookUps.filter(isUnknown);
    const isComplete = wanted.length === 0;
    if (isComplete || round === MAX_ROUNDS) return { plan: made, objects, isComplete };
    const next = [...made.admitted.keys()].map(({ node }) => node).filter(isUnknown);
    const asked = [...new Set([...wanted, ...next])].slice(0, Math.max(wanted.length, round * MORE_EACH_ROUND));
    const pods = new Map(objects.pods);
    await forEachOf(asked, async (node) => void pods.set(node.metadata.name, await readPods(client, node, now)));
    objects = { ...objects, pods };
  }
}

/** Standard input may come later than this program starts, or from a user, who may end the program meanwhile. */
async function read(file: string, signal: AbortSignal): Promise<string> {
  try {
    return file === '-' ? await text(addAbortSignal(signal, process.stdin)) : readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--with: ${messageOf(error)}`);
  }
}
