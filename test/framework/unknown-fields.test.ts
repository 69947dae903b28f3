import { configSchema } from '../../packages/shared/src/api/brupop-config.ts';
import { nodeGroupSchema } from '../../packages/shared/src/api/node-group.ts';
import { unknownFields } from '../../packages/shared/src/api/spec-schema.ts';
import { fullGroup } from './example-group.ts';
import { fullConfig } from './examples.ts';

it.each([
  ['configuration', configSchema, fullConfig],
  ['group', nodeGroupSchema, fullGroup],
])('no field of a %s that has every field is unknown, and each other one is', (_, schema, { spec, status }) => {
  expect(unknownFields(schema, { spec, status })).toEqual([]);
  expect(unknownFields(schema, { spec: { ...spec, other: 1, paused: true }, status })).toEqual(['spec.other']);
  expect(unknownFields(schema, { spec: { ...spec, drain: { timeouts: '1m' } } })).toEqual(['spec.drain.timeouts']);
});
