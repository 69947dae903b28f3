import { jest } from '@jest/globals';
import {
  CONFIG_PLURAL,
  CONFIG_VERSION,
  GROUP,
  NODE_GROUP_PLURAL,
  NODE_GROUP_VERSION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
} from '@brupop/shared/api/names';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';
import { fullShadow } from '../../framework/example-shadow.ts';
import { fullGroup } from '../../framework/example-group.ts';
import { fullConfig } from '../../framework/examples.ts';

jest.setTimeout(120_000);

const shadows = `/apis/${GROUP}/${SHADOW_VERSION}/namespaces/default/${SHADOW_PLURAL}`;
const configs = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;

/**
 * A version of `object` with the field at `path`, such as `spec.version`, set to `value`, or
 * without it when that is undefined.
 */
function changed(object: object, path: string, value: unknown): object {
  const [name = '', ...rest] = path.split('.');
  const copy: Record<string, unknown> = { ...object };
  copy[name] = rest.length === 0 ? value : changed(copy[name] ?? {}, rest.join('.'), value);
  return copy;
}

let cluster: ControlPlane;

beforeAll(async () => {
  cluster = await startControlPlane();
  await installCrds(cluster);
});

afterAll(async () => await cluster.stop());

/**
 * Creates the object with its status and reads it back. Unknown fields are rejected, so that
 * pruning does not go unnoticed.
 */
async function store(path: string, object: { metadata: { name: string } }): Promise<unknown> {
  const named = `${path}/${object.metadata.name}`;
  const strict = '?fieldValidation=Strict';
  const { metadata } = await cluster.api.create<{ metadata: object }>(`${path}${strict}`, {
    ...object,
    status: undefined,
  });
  await cluster.api.request('PUT', `${named}/status${strict}`, { ...object, metadata });
  const stored = await cluster.api.get<{ metadata: object }>(named);
  return { ...stored, metadata: { name: object.metadata.name } };
}

/** The error message of the API server for a change of one field of the full example. */
async function refusal(kind: 'shadow' | 'config', path: string, value: unknown): Promise<string> {
  const [list, full] = kind === 'shadow' ? [shadows, fullShadow] : [configs, fullConfig];
  const status = path.startsWith('status') ? '/status' : '';
  const body = changed({ [path.split('.')[0] ?? '']: full[path.split('.')[0] as 'spec'] }, path, value);
  const answer = cluster.api.request(
    'PATCH',
    `${list}/${full.metadata.name}${status}?dryRun=All&fieldValidation=Strict`,
    body,
    'application/merge-patch+json',
  );
  return await answer.then(
    () => 'accepted',
    (error: unknown) => String(error),
  );
}

describe('a full object of each kind', () => {
  it('is stored without losing a field: shadow', async () => {
    expect(await store(shadows, fullShadow)).toEqual(fullShadow);
  });

  it('is stored without losing a field: group', async () => {
    const path = `/apis/${GROUP}/${NODE_GROUP_VERSION}/${NODE_GROUP_PLURAL}`;
    expect(await store(path, fullGroup)).toEqual(fullGroup);
  });

  it('is stored without losing a field: configuration', async () => {
    expect(await store(configs, fullConfig)).toEqual(fullConfig);
  });
});

describe('a shadow', () => {
  it.each<[string, string, unknown]>([
    ['may be Idle without a version', 'spec', { state: 'Idle', version: null }],
    ['may be reset without a version', 'spec', { state: 'ErrorReset', version: null }],
    ['may have a pre-release version with a build', 'spec.version', '1.21.0-rc.1+abcdef12'],
    ['may lose its time stamp', 'spec.state_transition_timestamp', null],
    ['may have a time stamp with nanoseconds', 'spec.state_transition_timestamp', '2022-07-09T20:09:25.123456789Z'],
    ['may have had no failure', 'status.state_transition_failure_timestamp', null],
  ])('%s', async (_, path, value) => {
    expect(await refusal('shadow', path, value)).toBe('accepted');
  });

  it.each<[string, string, unknown, string]>([
    ['a state that there is not', 'spec.state', 'Sleeping', 'Unsupported value: "Sleeping": supported values: "Idle"'],
    ['no state', 'spec.state', null, 'spec.state: Required value'],
    ['no version to update to', 'spec.version', null, 'a version is required in this state'],
    ['a version with a leading v', 'spec.version', 'v1.21.0', 'must be a semantic version such as 1.21.0'],
    ['a version of two numbers', 'spec.version', '1.21', 'must be a semantic version such as 1.21.0'],
    ['an endless version', 'spec.version', `1.21.0-${'a'.repeat(200)}`, ' than 128'],
    ['a time without a date', 'spec.state_transition_timestamp', '12:00', 'must be of type date-time'],
    ['a field that there is not', 'spec.stat', 'Idle', 'unknown field "spec.stat"'],
    ['a negative count of failures', 'status.crash_count', -1, 'should be greater than or equal to 0'],
    ['a running version that is none', 'status.current_version', 'latest', 'must be a semantic version such as 1.21.0'],
    ['an unknown operation', 'status.lastOperation.operation', 'Nap', 'supported values: "Stage", "Drain"'],
    ['an unknown state of an operation', 'status.lastOperation.state', 'Done', 'supported values: "Processing"'],
    ['an unknown error code', 'status.lastOperation.errorCode', 'Oops', 'supported values: "HostUnreachable"'],
    ['a failure without a code', 'status.lastOperation.errorCode', null, 'a failed operation must have an error code'],
    ['an operation without a start', 'status.lastOperation.startTime', null, 'lastOperation.startTime: Required value'],
    ['a condition without a reason', 'status.conditions', [{ type: 'A', status: 'True' }], 'reason: Required value'],
    [
      'two conditions of one type',
      'status.conditions',
      [...fullShadow.status.conditions, ...fullShadow.status.conditions],
      'Duplicate value: ',
    ],
  ])('is refused with %s', async (_, path, value, message) => {
    expect(await refusal('shadow', path, value)).toContain(message);
  });
});

describe('a configuration', () => {
  it.each<[string, string, unknown]>([
    ['may count nodes', 'spec.concurrency.maxUpdating', 1],
    ['may count many nodes', 'spec.concurrency.maxUpdating', 5000],
    ['may take a percentage', 'spec.concurrency.maxUpdating', '1%'],
    ['may take all nodes', 'spec.concurrency.maxUpdating', '100%'],
    ['may go on while the reason for an earlier pause is still there', 'spec.paused', false],
    ['may be empty', 'spec', { paused: null, pauseReason: null, concurrency: null }],
  ])('%s', async (_, path, value) => {
    expect(await refusal('config', path, value)).toBe('accepted');
  });

  const rule = 'must be a whole number of at least 1 (such as 3) or a percentage from "1%" to "100%"';
  it.each<[string, string, unknown, string]>([
    ['0 nodes at once', 'spec.concurrency.maxUpdating', 0, rule],
    ['less than 0 nodes at once', 'spec.concurrency.maxUpdating', -1, rule],
    ['0 %', 'spec.concurrency.maxUpdating', '0%', rule],
    ['more than 100 %', 'spec.concurrency.maxUpdating', '101%', rule],
    ['a number in quotes', 'spec.concurrency.maxUpdating', '3', rule],
    ['half a node', 'spec.concurrency.maxUpdating', 0.5, 'maxUpdating'],
    ['a word for paused', 'spec.paused', 'yes', 'must be of type boolean'],
    ['an empty reason', 'spec.pauseReason', '', 'should be at least 1 chars long'],
    ['a misspelt field', 'spec.pausedReason', 'freeze', 'unknown field "spec.pausedReason"'],
    ['a negative count of nodes', 'status.nodes.managed', -1, 'should be greater than or equal to 0'],
  ])('is refused with %s', async (_, path, value, message) => {
    expect(await refusal('config', path, value)).toContain(message);
  });

  it('is refused under another name', async () => {
    const other = { ...fullConfig, metadata: { name: 'default' } };
    await expect(cluster.api.create(`${configs}?dryRun=All`, other)).rejects.toThrow(
      'there is only one BrupopConfig, named "cluster": use that name',
    );
  });
});

it('a shadow with an explicit null for the version it must have is refused', async () => {
  const spec = { ...fullShadow.spec, version: null };
  const object = { ...fullShadow, metadata: { name: 'brs-null' }, spec };
  await expect(cluster.api.create(`${shadows}?dryRun=All`, object)).rejects.toThrow(
    'a version is required in this state',
  );
});

it('a shadow of the Rust operator stays valid, and its update can continue', async () => {
  const old = {
    apiVersion: `${GROUP}/v2`,
    kind: 'BottlerocketShadow',
    metadata: { name: 'brs-old' },
    spec: { state: 'Idle', state_transition_timestamp: null, version: null },
    status: {
      crash_count: 0,
      current_state: 'Idle',
      current_version: '1.19.5',
      state_transition_failure_timestamp: null,
      target_version: '1.20.0',
    },
  };
  const stored = (await store(shadows, old)) as typeof old;
  expect(stored).toEqual(old);
  const driven = await cluster.api.patch<typeof old>(`${shadows}/brs-old`, {
    spec: { state: 'StagedAndPerformedUpdate', version: '1.20.0' },
  });
  expect(driven.spec).toMatchObject({ state: 'StagedAndPerformedUpdate', version: '1.20.0' });
});

it('the controller can set its condition on a shadow whose agent has not reported yet', async () => {
  const condition = fullShadow.status.conditions[0];
  await cluster.api.create(shadows, { ...fullShadow, metadata: { name: 'brs-new' }, status: undefined });
  const patched = await cluster.api.patch(`${shadows}/brs-new/status`, { status: { conditions: [condition] } });
  expect(patched).toMatchObject({ status: { conditions: [condition] } });
});
