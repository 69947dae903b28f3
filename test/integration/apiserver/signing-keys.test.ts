/**
 * Keys of service-account tokens that differ from the usual: other curves, and keys that the key
 * set does not list.
 */
import { generateKeyPairSync } from 'node:crypto';
import { jest } from '@jest/globals';
import { type Agent, agentToken, createAgent } from '../../framework/apiserver/cluster.ts';
import { sumOf } from '../../framework/apiserver/process.ts';
import type { RunningApiserver } from '../../framework/apiserver/server.ts';
import { useApiserver, useApiserverOn } from '../../framework/apiserver/suite.ts';
import { partsOf, signed } from '../../framework/apiserver/tokens.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

describe.each([
  ['ES384', 'P-384'],
  ['ES512', 'P-521'],
] as const)('tokens that kube-apiserver signs with %s', (alg, signingCurve) => {
  const suite = useApiserverOn({ signingCurve });

  it('are accepted', async () => {
    const agent = await createAgent(suite.cluster, suite.namespace);
    expect(partsOf(agent.token).header['alg']).toBe(alg);
    expect((await suite.apiserver.client.act(agent, 'restore')).status).toBe(200);
  });
});

describe('tokens whose key the key set does not list', () => {
  const suite = useApiserver();
  const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  let apiserver: RunningApiserver;
  let agent: Agent;

  beforeEach(async () => {
    const jwk = { ...stranger.publicKey.export({ format: 'jwk' }), kid: 'another', alg: 'ES256', use: 'sig' };
    apiserver = await suite.start({ jwks: { keys: [jwk] } });
    agent = await createAgent(suite.cluster, suite.namespace);
    // Known to the watch, so that the agent has a rate of its own.
    await eventually(async () => {
      const { status } = await apiserver.client.act(agent, 'restore');
      if (status !== 200) throw new Error(`restore: ${status}`);
    });
  });

  const reviews = async (result: string): Promise<number> =>
    sumOf(await apiserver.metrics(), 'brupop_apiserver_token_reviews_total', `result="${result}"`);

  const forged = (jti: number): string => {
    const { header, claims } = partsOf(agent.token);
    return signed(header, { ...claims, jti }, stranger.privateKey);
  };

  it('are accepted when TokenReview accepts them', async () => {
    const accepted = await reviews('accepted');
    const token = await agentToken(suite.cluster, suite.namespace, agent);
    expect((await apiserver.client.act({ ...agent, token }, 'restore')).status).toBe(200);
    expect((await apiserver.client.act({ ...agent, token }, 'restore')).status).toBe(200);
    expect(await reviews('accepted')).toBe(accepted + 1);
  });

  it('are rejected when TokenReview rejects them, with few reviews for many forgeries in the name of a pod', async () => {
    const other = await createAgent(suite.cluster, suite.namespace);
    const answers = await Promise.all(
      Array.from({ length: 25 }, (_, jti) => apiserver.client.act({ ...agent, token: forged(jti) }, 'restore')),
    );
    const codes = new Set(answers.map(({ code }) => code));
    expect(codes).toEqual(new Set(['Unauthenticated', 'TooManyRequests']));
    expect(await reviews('rejected')).toBeLessThanOrEqual(6);
    expect((await apiserver.client.act(other, 'restore')).status).toBe(200);
    expect((await apiserver.client.act(agent, 'restore')).status).toBe(200);
  });
});
