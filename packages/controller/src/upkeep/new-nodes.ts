/** The managed nodes whose shadows are to be created. */
import { MAX_NODE_NAME } from '@brupop/shared/api/names';
import { isManaged, type NodeView } from '../cluster/node.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { ofParts, type Parts } from '../kept/parts.ts';

export interface NewNodes {
  /** Managed nodes without a shadow; none while a watch is stale, since the shadow or the end of the Node may be unseen. */
  readonly newNodes: readonly NodeView[];
  /** Names of managed nodes whose shadows cannot be created, and why. */
  readonly uncreated: ReadonlyMap<string, string>;
}

/** A shadow of an earlier Node of the same name is deleted first. */
export function newNodesOf(managedNodes: Parts<ManagedNode>): NewNodes {
  const pending = withoutShadowIn(managedNodes).flat();
  const nodes = pending.flatMap(({ node }) => node ?? []);
  const without = nodes.filter((node) => isManaged(node) && node.metadata.deletionTimestamp === undefined);
  const rejections = new Map(pending.map(({ name, writeRejection }) => [name, writeRejection]));
  const problemOf = ({ metadata: { name } }: NodeView): string | undefined =>
    name.length > MAX_NODE_NAME ? NAME_TOO_LONG : rejections.get(name);
  return {
    newNodes: without.filter(({ metadata: { name } }) => name.length <= MAX_NODE_NAME),
    uncreated: new Map(without.map((node) => [node.metadata.name, problemOf(node)] as const).filter(isKnown)),
  };
}

const withoutShadowIn = ofParts((part: readonly ManagedNode[]) => part.filter(({ shadow }) => shadow === undefined));

function isKnown(entry: readonly [string, string | undefined]): entry is [string, string] {
  return entry[1] !== undefined;
}

const NAME_TOO_LONG = `the name of the Node is longer than ${MAX_NODE_NAME} characters`;
