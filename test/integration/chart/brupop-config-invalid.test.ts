import { jest } from '@jest/globals';
import fc from 'fast-check';
import { CONFIG_PLURAL, CONFIG_VERSION, GROUP } from '@brupop/shared/api/names';
import { invalidSpecs } from '../../framework/configs/invalid-configs.ts';
import { anyValidSpec, validSpecs } from '../../framework/configs/valid-configs.ts';
import { type ControlPlane, startControlPlane } from '../../framework/control-plane/start.ts';
import { installCrds } from '../../framework/crds.ts';

jest.setTimeout(120_000);

const configs = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;
const named = { apiVersion: `${GROUP}/${CONFIG_VERSION}`, kind: 'BrupopConfig', metadata: { name: 'cluster' } };

let cluster: ControlPlane;

beforeAll(async () => {
  cluster = await startControlPlane();
  await installCrds(cluster);
});

afterAll(async () => await cluster.stop());

/** The error message of the API server for an object. */
async function answerTo(object: object): Promise<string> {
  const answer = cluster.api.create(`${configs}?dryRun=All&fieldValidation=Strict`, object);
  return await answer.then(
    () => 'accepted',
    (error: unknown) => String(error),
  );
}

describe('the API server rejects a configuration unless', () => {
  it.each(Object.entries(invalidSpecs))('%s', async (_, { spec, field, message }) => {
    const answer = await answerTo({ ...named, spec });
    expect(answer).toContain(field);
    expect(answer).toMatch(message);
  });

  it.each<[string, object, RegExp]>([
    ['there is a spec', named, /spec: Required value/u],
    ['a spec is no text', { ...named, spec: 'paused' }, /spec in body must be of type object/u],
    ['a spec is no list', { ...named, spec: [] }, /spec in body must be of type object/u],
    [
      'its name is cluster',
      { ...named, metadata: { name: 'default' }, spec: {} },
      /there is only one BrupopConfig, named "cluster": use that name/u,
    ],
  ])('%s', async (_, object, message) => {
    expect(await answerTo(object)).toMatch(message);
  });
});

describe('the API server accepts a configuration because', () => {
  it.each(Object.entries(validSpecs))('%s', async (_, spec) => {
    expect(await answerTo({ ...named, spec })).toBe('accepted');
  });
});

it('the API server accepts what the controller is shown to find no problem in', async () => {
  const answers = await Promise.all(
    fc.sample(anyValidSpec, 100).map(async (spec) => ({ spec, answer: await answerTo({ ...named, spec }) })),
  );
  expect(answers.filter(({ answer }) => answer !== 'accepted')).toEqual([]);
});
