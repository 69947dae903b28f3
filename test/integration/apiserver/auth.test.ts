import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { jest } from '@jest/globals';
import {
  type Agent,
  agentToken,
  createAgent,
  createAgentPod,
  createWorkload,
  installNamespace,
  ownerReference,
  requestToken,
  uniqueName,
} from '../../framework/apiserver/cluster.ts';
import { useFreshApiservers } from '../../framework/apiserver/suite.ts';
import { auditPosition, operatorRequests } from '../../framework/audit.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

describe('an apiserver that authenticates callers', () => {
  const suite = useFreshApiservers();
  let agent: Agent;
  let other: Agent;

  beforeAll(async () => {
    [agent, other] = await Promise.all([
      createAgent(suite.cluster, suite.namespace),
      createAgent(suite.cluster, suite.namespace),
    ]);
  });

  /** Status and code of a restore with this token, and how many TokenReviews it cost. */
  const attempt = async (
    token: string | undefined,
    node = agent.node,
  ): Promise<[number, string | undefined, number]> => {
    const before = await reviews();
    const { status, code } = await suite.apiserver.client.call('POST', `/v1/nodes/${node}/restore`, { token });
    return [status, code, (await reviews()) - before];
  };

  const reviews = async (): Promise<number> => {
    const found = (await suite.apiserver.metrics()).matchAll(/^brupop_apiserver_token_reviews_total\{.*\} (\d+)$/gm);
    return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
  };

  const fresh = (spec = {}): Promise<string> => agentToken(suite.cluster, suite.namespace, agent, spec);

  const accountToken = async (account: string, boundObjectRef?: object): Promise<string> => {
    const spec = { audiences: ['brupop-apiserver'], ...(boundObjectRef === undefined ? {} : { boundObjectRef }) };
    return (await requestToken(suite.cluster, suite.namespace, account, spec)).status.token;
  };

  it('accepts the token of an agent for its own node, with one review per minute', async () => {
    expect(await attempt(agent.token)).toEqual([200, undefined, 1]);
    expect(await attempt(agent.token)).toEqual([200, undefined, 0]);
  });

  it('shares one review among simultaneous calls', async () => {
    const before = await reviews();
    const answers = await Promise.all(Array.from({ length: 10 }, () => suite.apiserver.client.act(agent, 'restore')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect((await reviews()) - before).toBe(1);
  });

  it('rejects a caller without a token', async () => {
    expect(await attempt(undefined)).toEqual([401, 'Unauthenticated', 0]);
  });

  it('rejects a text that is no token', async () => {
    expect(await attempt('not-a-token')).toEqual([401, 'Unauthenticated', 0]);
  });

  it('rejects the token of another node without a review', async () => {
    expect(await attempt(agent.token, other.node)).toEqual([403, 'Forbidden', 0]);
  });

  it('rejects a token for another audience without a review', async () => {
    expect(await attempt(await fresh({ audiences: [suite.cluster.issuer] }))).toEqual([401, 'Unauthenticated', 0]);
  });

  it('rejects another service account without a review', async () => {
    expect(await attempt(await accountToken('brupop-other'))).toEqual([403, 'Forbidden', 0]);
  });

  it('rejects an agent token that is bound to no pod without a review', async () => {
    expect(await attempt(await accountToken('brupop-agent'))).toEqual([403, 'Forbidden', 0]);
  });

  it('rejects a token of the same names in another namespace without a review', async () => {
    const elsewhere = await installNamespace(suite.cluster);
    const stranger = await createAgentPod(suite.cluster, elsewhere.namespace, agent.node);
    expect(await attempt(stranger.token)).toEqual([403, 'Forbidden', 0]);
  });

  it.each([
    ['without a controller', undefined],
    ['of another DaemonSet', 'brupop-other'],
  ])('rejects the token of a pod %s that has the label and the service account of an agent', async (_what, owner) => {
    if (owner !== undefined) await createWorkload(suite.cluster, suite.namespace, 'DaemonSet', owner);
    const ownerReferences =
      owner === undefined ? [] : [await ownerReference(suite.cluster, suite.namespace, 'DaemonSet', owner)];
    const name = uniqueName('brupop-agent');
    const pod = await createAgentPod(suite.cluster, suite.namespace, agent.node, name, { ownerReferences });
    expect((await attempt(pod.token)).slice(0, 2)).toEqual([403, 'Forbidden']);
  });

  it.each([
    ['with a changed claim', (token: string) => withClaims(token, { iat: 1 })],
    ['with another signature', (token: string) => resigned(token)],
    ['without a signature (alg none)', (token: string) => unsigned(token)],
    ['signed with a public text (alg HS256)', (token: string) => symmetric(token)],
    ['of more than 4,096 characters', (token: string) => token.padEnd(4_097, 'A')],
  ])('rejects a token %s without a review', async (_how, forge) => {
    expect(await attempt(forge(agent.token))).toEqual([401, 'Unauthenticated', 0]);
  });

  it('rejects the token of a pod that was deleted, at once, although it has accepted it before', async () => {
    const passing = await createAgentPod(suite.cluster, suite.namespace, agent.node);
    expect(await attempt(passing.token)).toEqual([200, undefined, 1]);
    const path = `/api/v1/namespaces/${suite.namespace}/pods/${passing.pod}`;
    await suite.cluster.api.delete(path, { gracePeriodSeconds: 0 });
    await eventually(async () => expect((await attempt(passing.token)).slice(0, 2)).toEqual([401, 'Unauthenticated']), {
      limitMs: 3_000,
    });
    expect(await attempt(passing.token)).toEqual([401, 'Unauthenticated', 0]);
  });

  it('answers 429 to an address with many rejected tokens, but accepts every valid one from it', async () => {
    expect(await attempt(agent.token)).toEqual([200, undefined, 1]);
    const codes = new Set<string | undefined>();
    for (let number = 0; number < 45; number += 1) codes.add((await attempt(`a.b.${number}`))[1]);
    expect(codes).toEqual(new Set(['Unauthenticated', 'TooManyRequests']));
    expect(await attempt(agent.token)).toEqual([200, undefined, 0]);
    expect(await attempt(await fresh())).toEqual([200, undefined, 1]);
  });

  it('sends no request to the Kubernetes API without a call, and never logs a token', async () => {
    await attempt(agent.token);
    await attempt(unsigned(agent.token));
    const position = await auditPosition(suite.cluster.auditLogPath);
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    expect(await operatorRequests(suite.cluster.auditLogPath, suite.namespace, position)).toEqual([]);
    const [, payload = ''] = agent.token.split('.');
    expect(suite.apiserver.lines.join('')).toContain('request rejected');
    expect(suite.apiserver.lines.join('')).not.toContain(payload.slice(0, 40));
  });
});

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function decode(part = ''): Record<string, unknown> {
  return JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>;
}

function withClaims(token: string, claims: object): string {
  const [header, payload, signature] = token.split('.');
  return `${header}.${encode({ ...decode(payload), ...claims })}.${signature}`;
}

function resigned(token: string): string {
  const [header, payload] = token.split('.');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const signature = sign('sha256', Buffer.from(`${header}.${payload}`), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  return `${header}.${payload}.${signature.toString('base64url')}`;
}

function unsigned(token: string): string {
  const [header, payload] = token.split('.');
  return `${encode({ ...decode(header), alg: 'none' })}.${payload}.`;
}

function symmetric(token: string): string {
  const [header, payload] = token.split('.');
  const text = `${encode({ ...decode(header), alg: 'HS256' })}.${payload}`;
  return `${text}.${createHmac('sha256', 'public').update(text).digest('base64url')}`;
}
