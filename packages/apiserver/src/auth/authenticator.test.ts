import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { caught } from '../../../../test/framework/caught.ts';
import { ApiError } from '../errors.ts';
import type { AgentPod } from './agent-pods.ts';
import {
  type AuthenticationResult,
  Authenticator,
  type AuthenticatorOptions,
  bearerToken,
  identityOf,
} from './authenticator.ts';
import type { TokenReviewStatus } from './token-review.ts';
import type { AgentToken } from './token.ts';

const agentPod = (uid = 'p', nodeName = 'node-1'): AgentPod => ({
  metadata: { name: 'agent', namespace: 'brupop', uid, resourceVersion: '1' },
  nodeName,
  isAgent: true,
  controllerUID: 'daemon-set',
  addresses: [],
});

const accepted: TokenReviewStatus = {
  authenticated: true,
  audiences: ['brupop-apiserver'],
  user: {
    username: 'system:serviceaccount:brupop:brupop-agent',
    extra: { 'authentication.kubernetes.io/node-name': ['node-1'], 'authentication.kubernetes.io/pod-uid': ['p'] },
  },
};

interface World {
  answer: TokenReviewStatus | Error;
  pod: AgentPod | undefined;
  /** False: signed by a key that the cluster does not list. */
  verified: boolean;
  podUID: string;
  /** False before the first token of a pod that the watch has. */
  isDaemonSetRead: boolean;
}

interface SetUp {
  readonly call: (token?: string, node?: string) => Promise<unknown>;
  readonly clock: FakeClock;
  readonly world: World;
  readonly reviews: () => number;
  readonly counted: readonly AuthenticationResult[];
}

/** An authenticator of a cluster that a test can change. */
function setUp(lifeMs = 600_000): SetUp {
  const clock = new FakeClock();
  const expiresAt = clock.now() + lifeMs;
  const world: World = { answer: accepted, pod: agentPod(), verified: true, podUID: 'p', isDaemonSetRead: true };
  let reviews = 0;
  const counted: AuthenticationResult[] = [];
  const known = (_name: string, uid: string): AgentPod | undefined =>
    world.pod?.metadata.uid === uid ? world.pod : undefined;
  const options: AuthenticatorOptions = {
    verifier: {
      verify: async (): Promise<AgentToken> => {
        const { verified, podUID } = world;
        if (clock.now() >= expiresAt) throw new ApiError('Unauthenticated', 'expired');
        return { podName: 'agent', podUID, expiresAt, verified };
      },
    },
    review: async () => {
      reviews += 1;
      if (world.answer instanceof Error) throw world.answer;
      return world.answer;
    },
    pods: {
      isWatched: (name, uid) => known(name, uid) !== undefined,
      known: (name, uid) => (world.isDaemonSetRead ? known(name, uid) : undefined),
      find: async (name, uid) => {
        const pod = known(name, uid);
        world.isDaemonSetRead = true;
        if (pod === undefined) throw new ApiError('Unauthenticated', 'gone');
        return pod;
      },
    },
    namespace: 'brupop',
    clock,
    count: (result) => void counted.push(result),
  };
  const authenticator = new Authenticator(options);
  const call = (token = 'a.b.c', node = 'node-1'): Promise<unknown> =>
    authenticator.authenticate({ authorization: `Bearer ${token}`, address: '10.0.0.1', node });
  return { call, clock, world, reviews: () => reviews, counted };
}

const failing = (code: string): unknown => expect.objectContaining({ code }) as unknown;

it('counts how each call was authenticated', async () => {
  const { call, world, counted } = setUp();
  await call();
  await call();
  await expect(call('a.b.c', 'node-2')).rejects.toEqual(failing('Forbidden'));
  world.answer = new ApiError('Unavailable', 'no answer');
  await expect(call('a.b.d')).rejects.toEqual(failing('Unavailable'));
  world.verified = false;
  for (let n = 0; n < 6; n += 1) await call(`a.b.${n}`).catch(() => undefined);
  expect([...new Set(counted)]).toEqual(['Reviewed', 'Cached', 'Rejected', 'Unavailable', 'Throttled']);
  expect(counted.filter((one) => one === 'Throttled')).toHaveLength(1);
});

describe('an accepted token', () => {
  it('is reviewed again after a minute', async () => {
    const { call, clock, reviews } = setUp();
    await call();
    await clock.advance(59_999);
    await call();
    expect(reviews()).toBe(1);
    await clock.advance(1);
    await call();
    expect(reviews()).toBe(2);
  });

  it('is not accepted past its expiry', async () => {
    const { call, clock } = setUp(20_000);
    await call();
    await clock.advance(20_000);
    await expect(call()).rejects.toEqual(failing('Unauthenticated'));
  });

  it('is not accepted once its pod is deleted or replaced', async () => {
    const { call, world } = setUp();
    await call();
    world.pod = agentPod('another');
    await expect(call()).rejects.toEqual(failing('Unauthenticated'));
  });

  it('is accepted for its own node only, also from the cache', async () => {
    const { call } = setUp();
    await expect(call('a.b.c', 'node-2')).rejects.toEqual(failing('Forbidden'));
    await call();
    await expect(call('a.b.c', 'node-2')).rejects.toEqual(failing('Forbidden'));
  });

  it('is bound to the node of its pod where the cluster names none', async () => {
    const { call, world } = setUp();
    const username = 'system:serviceaccount:brupop:brupop-agent';
    world.answer = { ...accepted, user: { username } };
    expect(await call()).toMatchObject({ node: 'node-1' });
    await expect(call('a.b.d', 'node-2')).rejects.toEqual(failing('Forbidden'));
  });
});

describe('a rejected token', () => {
  it('is not reviewed again for ten seconds', async () => {
    const { call, clock, world, reviews } = setUp();
    world.answer = { authenticated: false, error: 'invalid' };
    await expect(call()).rejects.toEqual(failing('Unauthenticated'));
    await expect(call()).rejects.toEqual(failing('Unauthenticated'));
    expect(reviews()).toBe(1);
    world.answer = accepted;
    await clock.advance(10_000);
    expect(await call()).toMatchObject({ node: 'node-1' });
  });

  it.each([
    ['for another audience', { ...accepted, audiences: ['other'] }, 'Unauthenticated'],
    ['without audiences', { authenticated: true, user: accepted.user ?? {} }, 'Unauthenticated'],
    ['without an answer', {}, 'Unauthenticated'],
    ['of another user', { ...accepted, user: { username: 'system:serviceaccount:x:brupop-agent' } }, 'Forbidden'],
    ['of a pod on another node', accepted, 'Forbidden', agentPod('p', 'node-2')],
  ])('is one %s', async (_what, answer, code, pod = agentPod()) => {
    const { call, world } = setUp();
    world.answer = answer;
    world.pod = pod;
    await expect(call()).rejects.toEqual(failing(code));
  });
});

describe('an address with many rejected tokens', () => {
  it('gets 429 for bad tokens, while every good token from it is accepted', async () => {
    const { call } = setUp();
    const rejections = Array.from({ length: 31 }, () =>
      call('no-token').catch((error: unknown) => (error as ApiError).code),
    );
    expect((await Promise.all(rejections)).slice(-2)).toEqual(['Unauthenticated', 'TooManyRequests']);
    expect(await call()).toMatchObject({ node: 'node-1' });
  });
});

describe('a token whose key the cluster does not list', () => {
  const forged: TokenReviewStatus = { authenticated: false, error: 'invalid' };

  const codes = async (call: SetUp['call'], count: number): Promise<unknown[]> => {
    const calls = Array.from({ length: count }, (_, number) =>
      call(`a.b.${number}`).then(
        () => 'accepted',
        (error: unknown) => (error as ApiError).code,
      ),
    );
    return Promise.all(calls);
  };

  it('is accepted when TokenReview accepts it, and then good for a minute', async () => {
    const { call, world, reviews } = setUp();
    world.verified = false;
    expect(await call()).toMatchObject({ node: 'node-1', podUID: 'p' });
    await call();
    expect(reviews()).toBe(1);
  });

  it('is rejected when TokenReview rejects it', async () => {
    const { call, world } = setUp();
    Object.assign(world, { verified: false, answer: forged });
    await expect(call()).rejects.toEqual(failing('Unauthenticated'));
  });

  it('is reviewed a few times per pod and no more, while tokens with listed keys do not wait', async () => {
    const { call, clock, world, reviews } = setUp();
    Object.assign(world, { verified: false, answer: forged });
    const found = await codes(call, 25);
    expect(found.slice(4, 6)).toEqual(['Unauthenticated', 'TooManyRequests']);
    expect([reviews(), found.at(-1)]).toEqual([5, 'TooManyRequests']);
    Object.assign(world, { verified: true, answer: accepted });
    expect(await call('a.b.0', 'node-1').catch((error: unknown) => (error as ApiError).code)).toBe('Unauthenticated');
    expect(await call('good.good.good')).toMatchObject({ node: 'node-1' });
    world.verified = false;
    await clock.advance(5_000);
    expect(await call('late.late.late')).toMatchObject({ node: 'node-1' });
  });

  it('of another pod does not wait for them, and all pods that the watch does not know share one rate', async () => {
    const { call, world, reviews } = setUp();
    Object.assign(world, { verified: false, answer: forged });
    const found: unknown[] = [];
    for (let number = 0; number < 20; number += 1) {
      world.podUID = `invented-${number}`;
      found.push(await call(`a.b.${number}`).catch((error: unknown) => (error as ApiError).code));
    }
    expect([reviews(), found.at(-1)]).toEqual([5, 'TooManyRequests']);
    Object.assign(world, { podUID: 'p', answer: accepted, isDaemonSetRead: false });
    expect(await call('good.good.good')).toMatchObject({ node: 'node-1' });
  });
});

describe('a token of a pod that the watch knows on another node', () => {
  it('is rejected without a review', async () => {
    const { call, world, reviews } = setUp();
    world.pod = agentPod('p', 'node-2');
    await expect(call()).rejects.toEqual(failing('Forbidden'));
    expect(reviews()).toBe(0);
  });
});

describe('a token that cannot be reviewed', () => {
  it('is neither accepted nor cached as rejected', async () => {
    const { call, world } = setUp();
    world.answer = new ApiError('Unavailable', 'no answer');
    await expect(call()).rejects.toEqual(failing('Unavailable'));
    world.answer = accepted;
    expect(await call()).toMatchObject({ node: 'node-1' });
  });
});

describe('an Authorization header', () => {
  it.each([undefined, '', 'Bearer', 'Bearer ', 'Basic YTpi', 'Bearer a.b', 'Bearer a.b.c d', 'Bearer a.b.ü'])(
    'such as %p has no token',
    (header) => {
      expect(caught(() => bearerToken(header))).toMatchObject({ code: 'Unauthenticated' });
    },
  );

  it('names its scheme in any case (RFC 7235)', () => {
    expect(bearerToken('bearer a.b.c')).toBe('a.b.c');
  });
});

describe('an identity', () => {
  it('needs a pod that has a node', () => {
    const { nodeName: _, ...unscheduled } = agentPod();
    const noBinding = { podUID: undefined, nodeName: undefined, nodeUID: undefined };
    const claims = { podName: 'agent', podUID: 'p', expiresAt: 1 };
    expect(caught(() => identityOf(claims, noBinding, unscheduled))).toMatchObject({ code: 'Forbidden' });
  });
});
