import { messageOf } from '@brupop/shared/runtime/errors';
import { checkRequest, plannerSkewText, type Request, skewText } from './skew.ts';

const reported = (release?: string) => ({
  status: { observedGeneration: 1, ...(release !== undefined && { release }) },
});
const OLD = 'the operator is older than 0.1.0, which is too old for kubectl brupop 1.5.2: upgrade the operator';

it.each([
  ['1.3.9', 'which is too old for kubectl brupop 1.5.2: upgrade the operator, or install kubectl brupop 1.3.9'],
  ['0.9.0', 'which is too old for kubectl brupop 1.5.2: upgrade the operator, or install kubectl brupop 0.9.0'],
  ['1.7.0', 'which is too new for kubectl brupop 1.5.2: install kubectl brupop 1.7.0'],
  ['2.0.0', 'which is too new for kubectl brupop 1.5.2: install kubectl brupop 2.0.0'],
])('of an operator with %s, one sentence has both releases and what to do', (release, rest) => {
  expect(skewText(reported(release), '1.5.2')).toBe(`the operator has the release ${release}, ${rest}`);
});

it.each(['1.4.0', '1.5.0', '1.5.2', '1.5.9-rc.1', '1.6.3+build'])('an operator with %s works with 1.5.2', (release) => {
  expect(skewText(reported(release), '1.5.2')).toBeUndefined();
  for (const request of ['retry', 'abort', 'update-now'] as const)
    expect(() => checkRequest(reported(release), request, '1.5.2')).not.toThrow();
});

it.each([[undefined], ['soon'], ['']])(
  'an operator with the release %j is from before releases were reported',
  (found) => {
    expect(skewText(reported(found), '1.5.2')).toBe(OLD);
    expect(plannerSkewText(reported(found), '1.5.2')).toBe(OLD);
  },
);

it.each([
  ['no BrupopConfig', undefined],
  ['a BrupopConfig without a status', {}],
  ['a BrupopConfig that no controller has seen', { status: { observedGeneration: 0 } }],
])('nothing is known of the operator with %s', (_, config) => {
  expect([skewText(config), plannerSkewText(config)]).toEqual([undefined, undefined]);
  expect(() => checkRequest(config, 'retry')).not.toThrow();
  expect(() => checkRequest(config, 'abort')).toThrow('"abort" was not sent: no controller has reported');
});

const refusal = (request: Request, release: string | undefined): string | undefined => {
  try {
    checkRequest(reported(release), request, '1.5.2');
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
};

it.each<[Request, string | undefined, string]>([
  ['abort', undefined, OLD],
  ['update-now', undefined, OLD],
  ['abort', '1.3.0', 'the operator has the release 1.3.0, which is too old'],
  ['retry', '1.3.0', 'the operator has the release 1.3.0, which is too old'],
  ['update-now', '1.7.0', 'the operator has the release 1.7.0, which is too new'],
  ['retry', '2.5.0', 'the operator has the release 2.5.0, which is too new'],
])('the request %s to an operator with %s is refused: %s', (request, release, expected) => {
  expect(refusal(request, release)).toContain(`"${request}" was not sent: ${expected}`);
});

it('the request retry is sent to an operator without a release, as each one follows it', () => {
  expect(refusal('retry', undefined)).toBeUndefined();
});

it('the planner may differ from that of any other release', () => {
  expect(plannerSkewText(reported('1.5.2+build'), '1.5.2')).toBeUndefined();
  expect(plannerSkewText(reported('1.5.3'), '1.5.2')).toBe(
    'the operator has the release 1.5.3 and may plan otherwise than kubectl brupop 1.5.2: install kubectl brupop 1.5.3',
  );
  expect(plannerSkewText(reported('1.7.0'), '1.5.2')).toBe(skewText(reported('1.7.0'), '1.5.2'));
});
