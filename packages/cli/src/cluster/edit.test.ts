import { readNode } from '@brupop/controller/cluster/node';
import { readShadow } from '@brupop/controller/cluster/shadow';
import { plan } from '@brupop/controller/plan/plan';
import { readBrupopConfig } from '@brupop/shared/api/brupop-config';
import { differenceLines, differencesOf, type Outcome, outcomesOf } from '../render/outcomes.ts';
import { withEdits } from './edit.ts';
import { type Objects, snapshotOf } from './snapshot.ts';

const NOW = 1_796_000_000_000;
const NAMES = ['node-a', 'node-b'];

const metadata = (name: string, generation = 1) => ({
  name,
  uid: name,
  resourceVersion: '1',
  generation,
  namespace: 'brupop',
});

const nodes = NAMES.map((name) =>
  readNode({
    metadata: { ...metadata(name), labels: { 'bottlerocket.aws/updater-interface-version': '2.0.0', pool: name } },
    spec: {},
    status: { conditions: [{ type: 'Ready', status: 'True', lastTransitionTime: '2026-11-01T00:00:00Z' }] },
  }),
);
const shadows = NAMES.map((name) =>
  readShadow({
    metadata: { ...metadata(`brs-${name}`), ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid: name }] },
    spec: { state: 'Idle' },
    status: {
      current_state: 'Idle',
      current_version: '1.20.0',
      target_version: '1.21.0',
      crash_count: 0,
      observedGeneration: 1,
      bootID: 'a',
    },
  }),
);
const pods = new Map(
  NAMES.map((name) => [
    name,
    { nodeUID: name, pods: [], namespaces: new Set<string>(), seenAt: NOW, problem: undefined, retryAt: 0 },
  ]),
);
const configOf = (spec: object, generation = 1) =>
  readBrupopConfig({ metadata: metadata('cluster', generation), spec });
const objects: Objects = {
  config: configOf({ concurrency: { maxUpdating: 2 } }),
  groups: [],
  nodes,
  shadows,
  budgets: [],
  leaderNode: '',
  mayForce: true,
  pods,
};

function outcomes(given: Objects): Outcome[] {
  return outcomesOf(plan(snapshotOf(given, NOW), NOW));
}

const apiVersion = 'brupop.bottlerocket.aws/v1alpha1';
const file = (spec: object): string =>
  JSON.stringify({ apiVersion, kind: 'BrupopConfig', metadata: { name: 'cluster' }, spec });

it.each([
  [{ concurrency: { maxUpdating: 1 } }, ['Started', '']],
  [{ paused: true, pauseReason: 'freeze' }, ['', '']],
  [{ versions: { deny: ['1.21.0'] } }, ['', '']],
])('an edit to %j is planned as if it were applied', (spec, changes) => {
  const edited = outcomes(withEdits(objects, 'file', file(spec)));
  expect(edited).toEqual(outcomes({ ...objects, config: configOf(spec, 2) }));
  expect(edited.map(({ change }) => change)).toEqual(changes);
});

it('shows each node for which the edit changes something', () => {
  const after = outcomes(withEdits(objects, 'file', file({ concurrency: { maxUpdating: 1 } })));
  expect(differenceLines(outcomes(objects), after, { width: 80, hasColors: false })).toEqual([
    'NODE    NOW             WITH THE EDIT',
    'node-b  Started 1.21.0  WaitingForCapacity',
    '',
    '1 of 2 nodes differ. Nothing was applied.',
  ]);
});

it('plans with a group that does not exist yet', () => {
  const spec = { nodeSelector: { matchLabels: { pool: 'node-a' } }, concurrency: { maxUpdating: 1 } };
  const group = JSON.stringify({ apiVersion, kind: 'BottlerocketNodeGroup', metadata: { name: 'one' }, spec });
  const edited = withEdits(objects, 'file', `---\n${group}\n---\n`);
  expect(edited.groups.map((one) => one.metadata.name)).toEqual(['one']);
  expect(differencesOf(outcomes(objects), outcomes(edited))).toEqual([]);
  expect(snapshotOf(edited, NOW).managedNodes.map((one) => one.group?.name)).toEqual(['one', undefined]);
});

it('leaves out the status of an object that was read, and takes labels, annotations and settings of any name', () => {
  const group = { apiVersion, kind: 'BottlerocketNodeGroup', metadata: { name: 'one' }, status: { other: true } };
  const settings = { kubernetes: { 'max-pods': 30 } };
  const spec = { nodeSelector: { matchLabels: { pool: 'none' } }, settings, nodeMetadata: { labels: { a: 'b' } } };
  expect(withEdits(objects, 'file', JSON.stringify({ ...group, spec })).groups).toMatchObject([{ spec }]);
});

const HEAD = `apiVersion: ${apiVersion}\nkind: BrupopConfig\nmetadata: { name: cluster }\n`;
const READ = { apiVersion, kind: 'BrupopConfig', metadata: { name: 'cluster' }, spec: { paused: true } };

it.each([
  ['a merge key', `${HEAD}spec: { <<: { paused: true } }`, { paused: true }],
  ['a List, as kubectl get prints it', JSON.stringify({ kind: 'List', items: [READ] }), { paused: true }],
  ['a BrupopConfigList', JSON.stringify({ kind: 'BrupopConfigList', items: [READ] }), { paused: true }],
  ['the boolean yes of YAML 1.1', `${HEAD}spec: { paused: yes }`, { paused: true }],
  ['the boolean off of YAML 1.1', `${HEAD}spec: { paused: Off }`, { paused: false }],
  [
    'texts that are no booleans',
    `${HEAD}spec: { pauseReason: "yes", pauseMode: one }`,
    { pauseReason: 'yes', pauseMode: 'one' },
  ],
  ['a time of day', `${HEAD}spec: { pauseReason: 22:00 }`, { pauseReason: '22:00' }],
])('reads %s as kubectl does', (_, text, spec) => {
  expect(withEdits(objects, 'file', text).config?.spec).toEqual(configOf(spec).spec);
});

it.each([
  ['{ kind: List, items: [] }', 'found nothing'],
  ['{ kind: List, items: [{ kind: Pod }] }', 'found {"kind":"Pod"}'],
  ['kind: Pod\nmetadata: { name: a }', 'file: expected a BrupopConfig named cluster or a BottlerocketNodeGroup'],
  ['kind: BrupopConfig\nmetadata: { name: other }', 'found {"kind":"BrupopConfig","name":"other"}'],
  ['a: [', 'file: '],
  ['', 'file: expected a BrupopConfig named cluster or a BottlerocketNodeGroup, found nothing'],
  ['---\n# later\n', 'found nothing'],
  [
    'kind: BrupopConfig\nmetadata: { name: cluster }\nspec: {}',
    'file: BrupopConfig: expected the apiVersion brupop.bottlerocket.aws/v1alpha1, found undefined',
  ],
  [
    'apiVersion: brupop.bottlerocket.aws/v9\nkind: BottlerocketNodeGroup\nmetadata: { name: web }\nspec: {}',
    'found "brupop.bottlerocket.aws/v9"',
  ],
  [file({ rollout: { aproval: 'Required' } }), 'file: BrupopConfig: there is no field spec.rollout.aproval'],
  [file({ maintenance: { windows: [{ schedul: '' }] } }), 'there is no field spec.maintenance.windows[0].schedul'],
  [file({ constructor: {} }), 'there is no field spec.constructor'],
  [
    JSON.stringify({ apiVersion, kind: 'BottlerocketNodeGroup', metadata: { name: 'web' }, sepc: {} }),
    'file: BottlerocketNodeGroup: there is no field sepc',
  ],
])('refuses the file %j', (text, message) => {
  expect(() => withEdits(objects, 'file', text)).toThrow(message);
});
