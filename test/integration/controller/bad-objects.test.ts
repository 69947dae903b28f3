/** Shadows and configurations with whatever values the API server accepts: the controller continues, and reports what is wrong. */
import { jest } from '@jest/globals';
import fc from 'fast-check';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  GROUP,
  shadowName,
} from '../../../packages/shared/src/api/names.ts';
import { OPERATION_STATES, OPERATIONS, SHADOW_STATES } from '../../../packages/shared/src/api/shadow.ts';
import { ApiError } from '../../framework/control-plane/api.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { createMember, newVersion, playAgents, readShadow, shadowsPath } from '../../framework/controller/agents.ts';
import { installForController } from '../../framework/controller/installation.ts';
import { type Replica, startReplica } from '../../framework/controller/replica.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const { BRUPOP_FUZZ_SEED = '20261121' } = process.env;
const seed = Number(BRUPOP_FUZZ_SEED);
const configs = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;

const time = fc.constantFrom('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '2026-01-01t00:00:00z', 'now', 5);
const version = fc.constantFrom<unknown>('1.20.0', newVersion, '99999999999.0.0', '1.0.0-a+b', 'v1.2.3', '', 7);
const text = fc.constantFrom<unknown>('', 'x', 'y'.repeat(128), 5, null);
const some = <T>(fields: Record<string, fc.Arbitrary<T>>): fc.Arbitrary<object> =>
  fc.record(fields, { requiredKeys: [] });
const lastOperation = some<unknown>({
  operation: fc.constantFrom(...OPERATIONS),
  state: fc.constantFrom(...OPERATION_STATES),
  version,
  bootID: text,
  startTime: time,
  lastUpdateTime: time,
  errorCode: fc.constantFrom('RolledBack', 'HostUnsupported', 'Nonsense'),
  message: fc.constantFrom('', 'z'.repeat(4096), '\u0000\n\t'),
});
const status = some<unknown>({
  current_state: fc.constantFrom(...SHADOW_STATES),
  current_version: version,
  target_version: version,
  crash_count: fc.constantFrom<unknown>(0, -1, 2 ** 40, 9_007_199_254_740_991, 'many'),
  observedGeneration: fc.nat(20),
  bootID: text,
  lastOperation: fc.oneof(lastOperation, fc.constant(null)),
  conditions: fc.constantFrom<unknown>([], null, [
    { type: 'Progressing', status: 'Unknown', reason: 'x', message: '', lastTransitionTime: '0001-01-01T00:00:00Z' },
  ]),
});
const spec = some<unknown>({ state: fc.constantFrom(...SHADOW_STATES), version, state_transition_timestamp: time });
const annotations = some({
  'brupop.bottlerocket.aws/retry': fc.constantFrom('', '1.21.0', 'now', '\u0001'),
  'brupop.bottlerocket.aws/abort': fc.constantFrom('', 'true', 'no', '\u0001', 'x'.repeat(9_999)),
  'brupop.bottlerocket.aws/update-now': fc.constantFrom('', '1.21.0', 'now', '\u0001', '1'.repeat(9_999)),
  'brupop.bottlerocket.aws/unreported-attempts': fc.constantFrom('', '-5', '1e9', 'many'),
});
const edit = fc.oneof(
  fc.record({ status }),
  fc.record({ spec }),
  fc.record({ metadata: fc.record({ annotations }) }),
  fc.record({ status: fc.constant(null) }),
);
const config = fc.record({
  spec: some<unknown>({
    paused: fc.constantFrom<unknown>(true, false, 'no', null),
    pauseReason: fc.constantFrom<unknown>('because', '', 'r'.repeat(1024), 5),
    concurrency: fc.constantFrom<unknown>(
      {},
      null,
      { maxUpdating: 0 },
      { maxUpdating: '200%' },
      { maxUpdating: 9e9 },
      { maxUpdating: null },
      { maxUpdating: true },
    ),
  }),
});

let cluster: ControlPlane;
let replica: Replica;
const odd = ['odd-0', 'odd-1', 'odd-2', 'odd-3'];

beforeAll(async () => {
  cluster = await startControlPlane();
  const serviceAccountDir = await installForController(cluster);
  const named = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: 'BrupopConfig', metadata: { name: CONFIG_NAME } };
  await cluster.api.create(configs, { ...named, spec: {} });
  for (const name of odd) await createMember(cluster, name);
  replica = await startReplica(cluster, serviceAccountDir);
});

afterAll(async () => {
  await replica.stop();
  await cluster.stop();
});

/** Whether the API server accepts the write. */
async function isAccepted(write: Promise<unknown>): Promise<boolean> {
  try {
    await write;
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) return false;
    throw error;
  }
}

const setConfig = (body: object): Promise<boolean> => isAccepted(cluster.api.patch(`${configs}/${CONFIG_NAME}`, body));

/** Whether the node's condition has a message. An agent whose status contradicts its spec first gets five minutes to answer. */
async function explanation(name: string): Promise<string> {
  const { spec: wanted, status: known } = await readShadow(cluster, name);
  const said = known?.conditions?.find(({ type }) => type === 'Progressing');
  const contradicts = known?.current_state !== wanted.state;
  return contradicts || (said !== undefined && said.message !== '')
    ? 'given'
    : `missing: ${JSON.stringify({ wanted, known })}`;
}

const failedRuns = (): string[] => replica.lines.filter((line) => /reconcile failed|exiting with an error/.test(line));

it(`survives what the API server lets users write: other nodes update, and each node reports why it does not (seed ${seed})`, async () => {
  let accepted = 0;
  const names = fc.constantFrom(...odd);
  for (const [name, body] of fc.sample(fc.tuple(names, edit), { seed, numRuns: 150 })) {
    const path = `${shadowsPath}/${shadowName(name)}${'status' in body ? '/status' : ''}`;
    if (await isAccepted(cluster.api.patch(path, body))) accepted += 1;
  }
  for (const body of fc.sample(config, { seed, numRuns: 25 })) if (await setConfig(body)) accepted += 1;
  expect(accepted).toBeGreaterThan(30);

  // A node whose spec a user wrote holds an update slot until the deadline of its step.
  const monitoring = { healthyFor: '0s' };
  await setConfig({ spec: { paused: null, pauseReason: null, concurrency: { maxUpdating: 5 }, monitoring } });
  const healthy = 'healthy';
  await createMember(cluster, healthy);
  const agents = playAgents(cluster);
  try {
    await eventually(async () => {
      const { spec: wanted, status: known } = await readShadow(cluster, healthy);
      expect([wanted.state, known?.current_version]).toEqual(['Idle', newVersion]);
    });
  } finally {
    await agents.stop();
  }
  for (const name of odd)
    await eventually(async () => expect([name, await explanation(name)]).toEqual([name, 'given']));
  expect(failedRuns()).toEqual([]);
  expect(await replica.isLeader()).toBe(true);
});
