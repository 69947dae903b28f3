/** Which Nodes are written for their groups, when a group may end, and what is told of it. */
import { jest } from '@jest/globals';
import {
  GROUP_KEYS_ANNOTATION,
  GROUP_TAINTS_ANNOTATION,
  MANAGED_LABEL,
  MANAGED_LABEL_VALUE,
  NODE_METADATA_FINALIZER,
} from '@brupop/shared/api/names';
import { type Rendered, taintId } from '@brupop/shared/api/node-metadata';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import { rfc3339 } from '@brupop/shared/runtime/clock';
import { keysRecord, managerOf, taintsRecord } from '../cluster/group-metadata.ts';
import type { MetadataNote } from '../cluster/metadata-notes.ts';
import { readNode } from '../cluster/node.ts';
import type { Snapshot } from '../cluster/snapshot.ts';
import { aGroup, aManagedNode, aNode, aSnapshot, MINUTE, NOW, underWay, withGroups } from '../testing/objects.ts';
import { CONDITIONS } from '../report/config-conditions.ts';
import { metadataApplied } from '../report/metadata-condition.ts';
import { decideMetadata, type MetadataWrite } from './metadata-writes.ts';
import { nodeMetadataOf } from './node-metadata.ts';
import { wholePlan as plan } from '../whole-plan.ts';

const LABELS = { 'node-role.kubernetes.io/gpu': '' };
const [KEY = ''] = Object.keys(LABELS);
const CONFLICT = { field: 'labels', key: KEY, found: 'mine', manager: 'kubectl-label' } as const;
const RENDERED: Rendered = {
  generation: 1,
  conflicts: 'Respect',
  labels: LABELS,
  annotations: {},
  taints: [],
  settings: {},
  dropped: { labels: [], annotations: [], taints: [] },
};

/** That gives its Nodes a label, and whose status records it. */
function group(
  metadata: object = { finalizers: [NODE_METADATA_FINALIZER] },
  rendered = RENDERED,
): BottlerocketNodeGroup {
  const made = aGroup('gpu', { nodeMetadata: { labels: LABELS } });
  return { ...made, metadata: { ...made.metadata, ...metadata }, status: { rendered, confirmedGeneration: 1 } };
}

const deleted = (ago: number): object => {
  return { finalizers: [NODE_METADATA_FINALIZER], deletionTimestamp: rfc3339(NOW - ago) };
};

interface Parts {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly hasApplied?: boolean;
  readonly note?: MetadataNote;
  readonly isCurrent?: boolean;
  readonly clockSkewMs?: number;
}

function snapshotOf(of: BottlerocketNodeGroup, parts: Parts = {}): Snapshot {
  const { labels = {}, annotations = {}, hasApplied = false, note } = parts;
  const applied = hasApplied ? [{ group: 'gpu', labels: Object.keys(LABELS), annotations: [] }] : [];
  const node = aNode({ name: 'a', labels: { pool: 'gpu', ...labels }, annotations, applied });
  const nodes = [{ ...aManagedNode('a'), node }];
  const isAlive = of.metadata.deletionTimestamp === undefined;
  const notes = new Map(note === undefined ? [] : [[node.metadata.uid, note]]);
  return { ...withGroups(aSnapshot(nodes), isAlive ? [of] : []), groupObjects: [of], metadataNotes: notes };
}

function planOf(of: BottlerocketNodeGroup, { isCurrent = true, clockSkewMs = 0, ...parts }: Parts = {}) {
  const snapshot = { ...snapshotOf(of, parts), clockSkewMs };
  const { changes, byGroup, finalizers, leftBehind } = nodeMetadataOf(snapshot, [snapshot.nodes], isCurrent, NOW);
  return {
    written: changes.map(({ node: { metadata } }) => metadata.name),
    ofGroup: byGroup.get('gpu'),
    finalizers: [...finalizers.values()],
    leftBehind: [...leftBehind.values()],
  };
}

describe('a Node is written', () => {
  it('when the finalizer is set and the rendering recorded, and not before', () => {
    expect(planOf(group()).written).toEqual(['a']);
    expect(planOf(group({ finalizers: [] }))).toMatchObject({
      written: [],
      finalizers: ['Add'],
      ofGroup: { isRecorded: false },
    });
    expect(planOf({ ...group(), status: {} }).written).toEqual([]);
  });

  it('not while a watch is stale', () => {
    expect(planOf(group(), { isCurrent: false })).toMatchObject({ written: [], finalizers: [] });
  });

  it('not for a conflict, until it is to be looked at again', () => {
    const noted = (checkAt: number): MetadataNote => ({ conflicts: [CONFLICT], rejection: undefined, checkAt });
    const labels = { [KEY]: CONFLICT.found };
    expect(planOf(group(), { labels, note: noted(NOW + MINUTE) })).toMatchObject({
      written: [],
      ofGroup: { pending: [], conflicts: [{ node: 'a', manager: 'kubectl-label' }] },
    });
    expect(planOf(group(), { labels, note: noted(NOW) }).written).toEqual(['a']);
    expect(planOf(group(), { labels: { [KEY]: 'other' }, note: noted(NOW + MINUTE) }).written).toEqual(['a']);
  });
});

describe('a Node of which its kubelet, or a user, has removed the label of managed nodes', () => {
  const TAINT = { key: 'example.com/dedicated', value: 'gpu', effect: 'NoSchedule' } as const;
  const LABEL = 'node-restriction.kubernetes.io/tenant';
  const given = { ...RENDERED, labels: { [LABEL]: 'a', 'example.com/team': 'ml' }, taints: [TAINT] };
  const applied = [{ group: 'gpu', labels: Object.keys(given.labels), annotations: [] }];
  const FIELDS = [
    {
      manager: managerOf('gpu'),
      operation: 'Apply',
      fieldsV1: {
        'f:metadata': { 'f:labels': Object.fromEntries(Object.keys(given.labels).map((key) => [`f:${key}`, {}])) },
      },
    },
  ];
  const annotations = { [GROUP_TAINTS_ANNOTATION]: taintsRecord([{ group: 'gpu', ...TAINT }]) ?? '' };
  const writesOf = (of: BottlerocketNodeGroup, pool = 'gpu', claims = applied): readonly MetadataWrite[] => {
    const labels = { pool, ...given.labels };
    const made = aNode({ name: 'a', managed: false, labels, annotations, applied: claims });
    const node = { ...made, taints: [TAINT] };
    const snapshot = {
      ...withGroups(aSnapshot([]), of.metadata.deletionTimestamp === undefined ? [of] : []),
      nodes: [node],
    };
    const { changes } = nodeMetadataOf({ ...snapshot, groupObjects: [of] }, [snapshot.nodes], true, NOW);
    const state = { labels, annotations, taints: node.taints, applied: claims };
    return changes.flatMap(({ wanted, known }) => {
      return decideMetadata({ state, wanted, known, otherOwner: () => undefined }).writes;
    });
  };
  const withoutBoth = [
    { kind: 'Apply', body: { labels: {} } },
    { kind: 'Taints', taints: [], record: null },
  ];

  it('keeps taints and protected labels while its group selects it, and loses the rest', () => {
    const [write, ...others] = writesOf(group(undefined, given));
    expect(write).toMatchObject({ kind: 'Apply', groups: ['gpu'], body: { labels: { [LABEL]: 'a' } } });
    expect(write).not.toHaveProperty(['body', 'labels', 'example.com/team']);
    expect(others).toEqual([]);
  });

  it('keeps them although it claims that another group has given them', () => {
    const other = [{ group: 'other', labels: Object.keys(given.labels), annotations: [] }];
    const [write] = writesOf(group(undefined, given), 'gpu', other);
    expect(write).toMatchObject({ kind: 'Apply', groups: ['gpu'], body: { labels: { [LABEL]: 'a' } } });
  });

  it.each([true, false])('keeps them although it has more labels than are kept (managed: %s)', (isManaged) => {
    const selecting = 'node-restriction.kubernetes.io/pool';
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`example.com/${i}`, '7'.repeat(60)]));
    const managed = isManaged ? { [MANAGED_LABEL]: MANAGED_LABEL_VALUE } : {};
    const labels = { ...managed, ...many, ...given.labels, [selecting]: 'gpu' };
    const metadata = { name: 'a', uid: 'uid-a', resourceVersion: '1', labels, annotations, managedFields: FIELDS };
    const node = readNode({ metadata, spec: { taints: [TAINT] } });
    const made = group(undefined, given);
    const of = { ...made, spec: { ...made.spec, nodeSelector: { matchLabels: { [selecting]: 'gpu' } } } };
    const nodes = isManaged ? [{ ...aManagedNode('a'), node }] : [];
    const snapshot = { ...withGroups(aSnapshot(nodes), [of]), nodes: [node], groupObjects: [of] };
    const { changes } = nodeMetadataOf(snapshot, [snapshot.nodes], true, NOW);
    const state = { labels, annotations, taints: [TAINT], applied };
    const writes = changes.flatMap(({ wanted, known }) => {
      return decideMetadata({ state, wanted, known, otherOwner: () => undefined }).writes;
    });
    expect(writes.filter(({ kind }) => kind === 'Taints')).toEqual([]);
    for (const write of writes) expect(write).toMatchObject({ body: { labels: { [LABEL]: 'a' } } });
    expect(snapshot.managedNodes.map(({ group: found }) => found?.name)).toEqual(isManaged ? ['gpu'] : []);
  });

  it('loses all when its group no longer selects it, drops them, or is deleted', () => {
    expect(writesOf(group(undefined, given), 'web')).toMatchObject(withoutBoth);
    expect(writesOf(group(deleted(MINUTE), given))).toMatchObject(withoutBoth);
    const dropped = { labels: Object.keys(given.labels), annotations: [], taints: [taintId(TAINT)] };
    expect(writesOf(group(undefined, { ...RENDERED, labels: {}, dropped }))).toMatchObject(withoutBoth);
  });
});

it('a group that has lost its finalizer, as by kubectl replace, is removed from no Node', () => {
  const without = group({ finalizers: [] });
  expect(planOf(without, { labels: LABELS, hasApplied: true })).toMatchObject({ written: [], finalizers: ['Add'] });
});

it('a Node that was restored with its group owns its keys again only when these are recorded', () => {
  const record = keysRecord({ group: 'gpu', labels: Object.keys(LABELS), annotations: [] });
  const restored = { labels: LABELS, annotations: { [GROUP_KEYS_ANNOTATION]: record } };
  expect(planOf({ ...group(), status: {} }, restored).written).toEqual([]);
  expect(planOf(group(), restored).written).toEqual(['a']);
});

describe('a deleted group', () => {
  it('ends when it is removed from its Nodes', () => {
    expect(planOf(group(deleted(MINUTE)), { labels: LABELS, hasApplied: true })).toMatchObject({
      written: ['a'],
      finalizers: [],
    });
    expect(planOf(group(deleted(MINUTE)))).toMatchObject({ written: [], finalizers: ['Remove'], leftBehind: [] });
  });

  it('does not end by a wrong clock while something is left', () => {
    const left = { labels: LABELS, hasApplied: true, clockSkewMs: 11 * MINUTE };
    expect(planOf(group(deleted(11 * MINUTE)), left)).toMatchObject({ written: ['a'], finalizers: [], leftBehind: [] });
    expect(planOf(group(deleted(11 * MINUTE)), { clockSkewMs: 11 * MINUTE }).finalizers).toEqual(['Remove']);
  });

  it('ends after ten minutes in any case, and names the Nodes where something is left', () => {
    const left = { labels: LABELS, hasApplied: true };
    expect(planOf(group(deleted(9 * MINUTE)), left).finalizers).toEqual([]);
    expect(planOf(group(deleted(10 * MINUTE)), left)).toMatchObject({ finalizers: ['Remove'], leftBehind: [['a']] });
  });
});

it('the condition of a group names Nodes that another writer changes back', () => {
  const note = { conflicts: [], rejection: undefined, isChangedBack: true, checkAt: NOW + MINUTE };
  const [message] = plan(snapshotOf(group(), { note }), NOW).groups.map((one) => metadataApplied(one).message);
  expect(message).toContain('so they are written less and less often: a');
});

it('a group without metadata needs no finalizer when all Nodes have confirmed it', () => {
  const dropped = { ...RENDERED.dropped, labels: Object.keys(LABELS) };
  const without = group(undefined, { ...RENDERED, labels: {}, dropped });
  expect(planOf(without).finalizers).toEqual(['Remove']);
  expect(planOf({ ...without, status: { ...without.status, confirmedGeneration: 0 } }).finalizers).toEqual([]);
});

it.each([
  ['Conflict', 'other writers have set other labels', [CONFLICT], undefined],
  ['WriteRejected', 'labels, annotations or taints of these groups are rejected', [], 'denied'],
])('the configuration is Degraded while a group has %s', (reason, text, conflicts, rejection) => {
  const note = { conflicts, rejection, checkAt: NOW + MINUTE };
  const { status, message } = CONDITIONS.Degraded(plan(snapshotOf(group(), { labels: { [KEY]: 'mine' }, note }), NOW));
  expect([status, message]).toEqual(['True', expect.stringContaining(`(${reason}): gpu;`)]);
  expect(message).toContain(text);
});

describe('a node whose group ends while it updates', () => {
  const TAINT = { key: 'example.com/dedicated', value: 'gpu', effect: 'NoSchedule' } as const;
  const given = { ...RENDERED, taints: [TAINT] };
  const applied = [{ group: 'gpu', labels: Object.keys(LABELS), annotations: [] }];
  const annotations = { [GROUP_TAINTS_ANNOTATION]: taintsRecord([{ group: 'gpu', ...TAINT }]) ?? '' };

  /** What is written of a node that began with the group gpu, and is monitored. */
  function writesWith(others: readonly BottlerocketNodeGroup[]): readonly MetadataWrite[] {
    const labels = { pool: 'gpu', ...LABELS };
    const node = { ...aNode({ name: 'a', labels, annotations, applied }), taints: [TAINT] };
    const updating = aManagedNode('a', {}, { spec: underWay('MonitoringUpdate'), record: { group: 'gpu' } });
    const snapshot = withGroups(aSnapshot([{ ...updating, node }]), others);
    const groupObjects = [group(deleted(MINUTE), given), ...others];
    const { changes } = nodeMetadataOf({ ...snapshot, groupObjects }, [snapshot.nodes], true, NOW);
    const state = { labels, annotations, taints: node.taints, applied };
    return changes.flatMap(({ wanted, known }) => {
      return decideMetadata({ state, wanted, known, otherOwner: () => undefined }).writes;
    });
  }

  it('never misses what the group that its labels select gives as well, such as the same one with another name', () => {
    const made = aGroup('accelerated', { nodeMetadata: { labels: LABELS, taints: [TAINT] } });
    const renamed = { ...made, metadata: { ...group().metadata, name: 'accelerated', uid: 'group-accelerated' } };
    const spec = { nodeSelector: { matchLabels: { pool: 'gpu' } } };
    const writes = writesWith([{ ...renamed, spec, status: { rendered: given, confirmedGeneration: 1 } }]);
    expect(writes[0]).toMatchObject({ kind: 'Apply', groups: ['accelerated'], body: { labels: LABELS } });
    expect(writes.at(-1)).toMatchObject({ kind: 'Taints', groups: ['accelerated', 'gpu'], taints: [TAINT] });
  });

  it('loses what it had if no other group selects it', () => {
    expect(writesWith([])).toMatchObject([
      { kind: 'Apply', body: { labels: {} } },
      { kind: 'Taints', taints: [], record: null },
    ]);
  });
});

it('many groups of many nodes are reported without a look at each node for each group', () => {
  const names = Array.from({ length: 400 }, (_, i) => `g${i}`);
  const groups = names.map((name) => {
    const made = aGroup(name, { nodeMetadata: { labels: LABELS } });
    const metadata = { ...made.metadata, finalizers: [NODE_METADATA_FINALIZER] };
    return { ...made, metadata, status: { rendered: RENDERED, confirmedGeneration: 1 } };
  });
  const nodes = names.map((name) => aManagedNode(`node-${name}`, { labels: { pool: name } }));
  const snapshot = withGroups(aSnapshot(nodes), groups);
  const includes = jest.spyOn(Array.prototype, 'includes');
  const { byGroup } = nodeMetadataOf(snapshot, [snapshot.nodes], true, NOW);
  const { length } = includes.mock.calls;
  includes.mockRestore();
  expect([...byGroup].map(([name, { pending }]) => [name, ...pending])).toEqual(
    names.map((name) => [name, `node-${name}`]),
  );
  expect(length).toBeLessThan(20 * names.length);
});
