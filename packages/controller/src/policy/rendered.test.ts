/** What the status of a group records, and what the next change of the spec also changes. */
import type { NodeMetadataSpec, Rendered } from '@brupop/shared/api/node-metadata';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import { pendingRendering, recordOf, render } from './rendered.ts';

const spec: NodeMetadataSpec = {
  labels: { b: '1', a: '2' },
  annotations: {},
  taints: [],
  domains: ['a', 'b'],
  conflicts: 'Respect',
  confirmNoExecute: false,
};
const renderingOf = (labels: Readonly<Record<string, string>>, motd = 'hello'): ReturnType<typeof render> =>
  render({ nodeMetadata: { ...spec, labels }, settings: { motd } });

function record(
  generation: number,
  labels: Readonly<Record<string, string>>,
  status: NodeGroupStatus = {},
  problem?: string,
): Rendered | undefined {
  const metadata = { name: 'gpu', uid: 'u', resourceVersion: '1', generation };
  return recordOf({ metadata, status }, { rendering: renderingOf(labels), problem });
}

test('a rendering is recorded for the generation of the spec, with sorted keys', () => {
  const first = record(1, { b: '1', a: '2' });
  expect(first).toMatchObject({ generation: 1, labels: { a: '2', b: '1' }, dropped: { labels: [] } });
  expect(Object.keys(first?.labels ?? {})).toEqual(['a', 'b']);
});

test('another rendering of the same generation changes nothing, and is named', () => {
  const first = record(1, { a: '1' });
  if (first === undefined) throw new Error('expected a record');
  expect(record(1, { a: '2' }, { rendered: first })).toEqual(first);
  expect(pendingRendering(first, renderingOf({ a: '2' }))).toEqual([
    { field: 'nodeMetadata.labels.a', before: '1', after: '2' },
  ]);
  expect(pendingRendering(first, renderingOf({ a: '1' }, 'bye'))).toEqual([
    { field: 'settings.motd', before: '"hello"', after: '"bye"' },
  ]);
});

test('a spec with a mistake keeps the record', () => {
  const first = record(1, { a: '1' });
  expect(record(2, { a: '2' }, first && { rendered: first }, 'spec.nodeMetadata: wrong')).toEqual(first);
  expect(record(1, { a: '2' }, {}, 'spec.nodeMetadata: wrong')).toBeUndefined();
});

test('dropped keys are recorded until all Nodes have confirmed the change that dropped them', () => {
  const first = record(1, { a: '1', b: '1' });
  const second = record(2, { b: '1' }, first && { rendered: first, confirmedGeneration: 1 });
  expect(second?.dropped.labels).toEqual(['a']);
  const status = second && { rendered: second };
  expect(record(3, { c: '1' }, status && { ...status, confirmedGeneration: 1 })?.dropped.labels).toEqual(['a', 'b']);
  expect(record(3, { c: '1' }, status && { ...status, confirmedGeneration: 2 })?.dropped.labels).toEqual(['b']);
});
