/** What the API server accepts as a BottlerocketNodeGroup, and what it says of the rest. */
import { jest } from '@jest/globals';
import { OVERRIDES } from '@brupop/shared/api/config-spec';
import { GROUP, NODE_GROUP_KIND, NODE_GROUP_PLURAL, NODE_GROUP_VERSION } from '@brupop/shared/api/names';
import { invalidSpecs } from '../../framework/configs/invalid-configs.ts';
import { validSpecs } from '../../framework/configs/valid-configs.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';

jest.setTimeout(120_000);

const groups = `/apis/${GROUP}/${NODE_GROUP_VERSION}/${NODE_GROUP_PLURAL}`;
const nodeSelector = { matchLabels: { pool: 'gpu' } };

const IDENTITY = [
  'kubernetes.io/hostname',
  'kubernetes.io/arch',
  'node.kubernetes.io/instance-type',
  'topology.kubernetes.io/zone',
  'beta.kubernetes.io/os',
  'node.k8s.io/a',
  'bottlerocket.aws/updater-interface-version',
  'brupop.bottlerocket.aws/cordoned',
  'karpenter.sh/do-not-disrupt',
];
const wrongKey = /each key must be of a domain in domains/u;
const wrongDomain = /must be a domain such as example.com that neither Kubernetes nor the operator owns/u;
const TAINT = { key: 'example.com/a', effect: 'NoExecute' };

let cluster: ControlPlane;

beforeAll(async () => {
  cluster = await startControlPlane();
  await installCrds(cluster);
});

afterAll(async () => await cluster.stop());

/** The error message of the API server for a group. */
async function answerTo(spec: object, name = 'gpu'): Promise<string> {
  const object = { apiVersion: `${GROUP}/${NODE_GROUP_VERSION}`, kind: NODE_GROUP_KIND, metadata: { name }, spec };
  const answer = cluster.api.create(`${groups}?dryRun=All&fieldValidation=Strict`, object);
  return await answer.then(
    () => 'accepted',
    (error: unknown) => String(error),
  );
}

const isOverride = (spec: object): boolean => Object.keys(spec).every((name) => Object.hasOwn(OVERRIDES, name));
/** The other one of backoff and maxBackoff may be that of the configuration, which has the quorums of hooks. */
const isOfBoth = (field: string): boolean => field === 'spec.retry.maxBackoff' || field === 'spec.hooks';
const shared = Object.entries(invalidSpecs).filter(([, { spec, field }]) => isOverride(spec) && !isOfBoth(field));
it('overrides nearly as many fields as a configuration has', () => {
  expect(shared.length).toBeGreaterThan(60);
});

describe('the API server rejects a group unless', () => {
  it.each(shared)('%s', async (_, { spec, field, message }) => {
    const answer = await answerTo({ nodeSelector, ...spec });
    expect(answer).toContain(field);
    expect(answer).toMatch(message);
  });

  it.each<[string, object, RegExp]>([
    ['it has a selector', {}, /spec.nodeSelector: Required value/u],
    ['its selector is one', { nodeSelector: { matchLabels: { pool: null } } }, /each label must have a value/u],
    ['its precedence is from 0', { nodeSelector, precedence: -1 }, /spec.precedence.*greater than or equal to 0/u],
    ['it waits for groups with names', { nodeSelector, after: ['Web pool'] }, /spec.after\[0\].*should match/u],
    ['it waits for each of them once', { nodeSelector, after: ['web', 'web'] }, /Duplicate value/u],
    [
      'its waits are in order',
      { nodeSelector, retry: { backoff: '2h', maxBackoff: '1h' } },
      /must not be less than backoff/u,
    ],
    ['its soak is a duration', { nodeSelector, soak: '2 days' }, /spec.soak.*must be a duration/u],
    ['it leaves the fleet alone', { nodeSelector, connectivity: {} }, /unknown field "spec.connectivity"/u],
    ['it has no quorums of its own', { nodeSelector, quorums: [] }, /unknown field "spec.quorums"/u],
  ])('%s', async (_, spec, message) => {
    expect(await answerTo(spec)).toMatch(message);
  });

  it.each(IDENTITY)('leaves %s to others', async (key) => {
    expect(await answerTo({ nodeSelector, nodeMetadata: { labels: { [key]: 'a' } } })).toMatch(wrongKey);
    expect(await answerTo({ nodeSelector, nodeMetadata: { annotations: { [key]: 'a' } } })).toMatch(wrongKey);
    expect(await answerTo({ nodeSelector, nodeMetadata: { taints: [{ key, effect: 'NoSchedule' }] } })).toMatch(
      wrongKey,
    );
    expect(await answerTo({ nodeSelector, nodeMetadata: { domains: [key.split('/')[0]] } })).toMatch(wrongDomain);
  });

  it.each<[string, object, RegExp]>([
    ['labels are of its domains', { labels: { 'example.org/a': 'b' }, domains: ['example.com'] }, wrongKey],
    ['labels have keys', { labels: { 'node pool': 'b' } }, /each key must be the key of a label/u],
    ['labels have values', { labels: { 'node-role.kubernetes.io/a': 'b c' } }, /must be the value of a label/u],
    ['annotations have texts', { annotations: { 'node-role.kubernetes.io/a': true } }, /must be of type string/u],
    [
      'taints that evict pods are confirmed',
      { taints: [TAINT], domains: ['example.com'] },
      /confirmNoExecute.*must be true/u,
    ],
    [
      'taints differ',
      { taints: [TAINT, TAINT], confirmNoExecute: true, domains: ['example.com'] },
      /must have one taint of each key and effect/u,
    ],
    ['taints have an effect of Kubernetes', { taints: [{ key: 'a', effect: 'Evict' }] }, /Unsupported value: "Evict"/u],
    ['conflicts are respected or forced', { conflicts: 'Ignore' }, /Unsupported value: "Ignore"/u],
  ])('its %s', async (_, nodeMetadata, message) => {
    expect(await answerTo({ nodeSelector, nodeMetadata })).toMatch(message);
  });

  it('its name fits into the status of a shadow', async () => {
    expect(await answerTo({ nodeSelector }, 'a'.repeat(64))).toMatch(/the name must have at most 63 characters/u);
  });
});

describe('the API server accepts a group because', () => {
  it.each(Object.entries(validSpecs).filter(([, spec]) => isOverride(spec)))('%s', async (_, spec) => {
    expect(await answerTo({ nodeSelector, ...spec })).toBe('accepted');
  });

  it.each<[string, object]>([
    ['all nodes may be in it', { nodeSelector: {} }],
    ['the longest wait may be that of the configuration', { nodeSelector, retry: { maxBackoff: '1m' } }],
    ['it may give nothing to Nodes', { nodeSelector, nodeMetadata: {} }],
    [
      'it may give Nodes labels, annotations and taints',
      {
        nodeSelector,
        nodeMetadata: {
          labels: { 'node-role.kubernetes.io/gpu': '', 'example.com/a': 'b', pool: 'gpu' },
          annotations: { 'node-restriction.kubernetes.io/a': 'any text, of any length' },
          taints: [TAINT, { key: 'pool', value: 'gpu', effect: 'PreferNoSchedule' }],
          domains: ['example.com', 'pool'],
          conflicts: 'Force',
          confirmNoExecute: true,
        },
      },
    ],
    ['it may wait for others', { nodeSelector, precedence: 10, after: ['web', 'db'], soak: '24h' }],
  ])('%s', async (_, spec) => {
    expect(await answerTo(spec)).toBe('accepted');
  });
});
