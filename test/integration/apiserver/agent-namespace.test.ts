import { jest } from '@jest/globals';
import { type Agent, createAgent, createAgentPod, installNamespace } from '../../framework/apiserver/cluster.ts';
import { type RunningApiserver, startApiserver } from '../../framework/apiserver/server.ts';
import { useApiserver } from '../../framework/apiserver/suite.ts';

jest.setTimeout(60_000);

describe('an apiserver whose agents have a namespace of their own', () => {
  /** Its apiserver has the agents in its own namespace. */
  const suite = useApiserver();
  let agents = '';
  let apiserver: RunningApiserver;
  let agent: Agent;

  beforeAll(async () => {
    agents = (await installNamespace(suite.cluster)).namespace;
    apiserver = await startApiserver(suite.cluster, suite.installation, { agentNamespace: agents });
    agent = await createAgent(suite.cluster, agents);
  });
  afterAll(async () => await apiserver.stop());

  const attempt = async (to: RunningApiserver, { node, token }: Agent): Promise<[number, string | undefined]> => {
    const { status, code } = await to.client.call('POST', `/v1/nodes/${node}/restore`, { token });
    return [status, code];
  };

  const reviews = async (): Promise<number> => {
    const found = (await apiserver.metrics()).matchAll(/^brupop_apiserver_token_reviews_total\{.*\} (\d+)$/gmu);
    return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
  };

  it('accepts an agent from there', async () => {
    expect(await attempt(apiserver, agent)).toEqual([200, undefined]);
  });

  it('rejects an agent of its own namespace and of any other, without a review', async () => {
    const third = await installNamespace(suite.cluster);
    const before = await reviews();
    for (const namespace of [suite.namespace, third.namespace]) {
      const impostor = await createAgentPod(suite.cluster, namespace, agent.node);
      expect(await attempt(apiserver, impostor)).toEqual([403, 'Forbidden']);
    }
    expect(await reviews()).toBe(before);
  });

  it('is the only one that accepts it', async () => {
    expect(await attempt(suite.apiserver, agent)).toEqual([403, 'Forbidden']);
  });
});
