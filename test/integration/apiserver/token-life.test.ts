/** Tokens that expire, are renewed, or outlive their pod or Node while they are used. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import { HttpApiserverClient } from '../../../packages/agent/src/apiserver/client.ts';
import type { AgentShadow, StreamMessage } from '../../../packages/shared/src/api/agent-protocol.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { type Agent, agentToken, createAgent, createAgentPod } from '../../framework/apiserver/cluster.ts';
import { sumOf } from '../../framework/apiserver/process.ts';
import type { RunningApiserver } from '../../framework/apiserver/server.ts';
import { ensureShadow, idleStatus, shadowPath, wantState } from '../../framework/apiserver/shadow.ts';
import { useApiserver } from '../../framework/apiserver/suite.ts';
import { clusterKey, type Json, partsOf, signed } from '../../framework/apiserver/tokens.ts';
import { createNode } from '../../framework/control-plane/nodes.ts';
import { eventually } from '../../framework/eventually.ts';
import { recordingLogger } from '../../framework/recording-logger.ts';

jest.setTimeout(60_000);

describe('a token in use', () => {
  const suite = useApiserver();
  const ends: (() => void)[] = [];
  let agent: Agent;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
  });

  afterEach(() => {
    for (const end of ends.splice(0)) end();
  });

  /** The agent's token with this lifetime in seconds, shorter than the Kubernetes API grants. */
  const lasting = (seconds: number): string => {
    const { header, claims } = partsOf(agent.token);
    const exp = Math.floor(Date.now() / 1000) + seconds;
    return signed(header, { ...claims, exp }, clusterKey(suite.cluster).privateKey);
  };

  /** The agent's own client, and a function that replaces its token as a kubelet does. */
  const agentClient = (token: string): { client: HttpApiserverClient; renew: (token: string) => void } => {
    const dir = mkdtempSync(join(tmpdir(), 'brupop-token-'));
    const files = { tokenFile: join(dir, 'token'), caFile: join(dir, 'ca.crt') };
    const renew = (text: string): void => writeFileSync(files.tokenFile, text);
    renew(token);
    writeFileSync(files.caFile, suite.apiserver.ca);
    ends.push(() => rmSync(dir, { recursive: true }));
    const apiserver = { host: '127.0.0.1', port: suite.apiserver.port, serverName: 'brupop-apiserver', ...files };
    const { log } = recordingLogger();
    return { client: new HttpApiserverClient({ node: agent.node, apiserver, clock: systemClock, log }), renew };
  };

  it('that expires between two calls is rejected from that moment on, and a renewed one is read from its file at once', async () => {
    const { signal } = new AbortController();
    const exp = Math.floor(Date.now() / 1000) + 3;
    const { client, renew } = agentClient(lasting(3));
    const late: string[] = [];
    while (Date.now() < exp * 1000 + 1_500) {
      const sent = Date.now();
      const outcome = await client.restore(signal).then(
        () => 'served',
        (error: unknown) => (error as { code?: string }).code,
      );
      const expected = sent > exp * 1000 ? 'Unauthenticated' : 'served';
      if (outcome !== expected && (sent > exp * 1000 || Date.now() < exp * 1000))
        late.push(`${outcome} ${sent - exp * 1000} ms after the expiry`);
      await sleep(100);
    }
    expect(late).toEqual([]);
    renew(agent.token);
    await client.restore(signal);
  });

  it('that expires on an open stream ends it in time, and the agent continues with the renewed one', async () => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const stop = new AbortController();
    ends.push(() => stop.abort());
    const { client, renew } = agentClient(lasting(13));
    const started = performance.now();
    const messages = await all(client.stream(stop.signal));
    expect(messages.at(-1)).toEqual({ type: 'end', reason: 'the token expires; connect with a new one' });
    expect(performance.now() - started).toBeLessThan(13_000);
    renew(agent.token);
    const again = client.stream(stop.signal)[Symbol.asyncIterator]();
    expect((await again.next()).value).toMatchObject({ type: 'shadow' });
  });

  it('that is renewed while it is valid interrupts neither calls nor streams', async () => {
    const { signal } = new AbortController();
    const { client, renew } = agentClient(agent.token);
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    await client.read(signal);
    const stream = await suite.apiserver.client.stream(agent);
    for (let number = 0; number < 5; number += 1) {
      await client.restore(signal);
      renew(await agentToken(suite.cluster, suite.namespace, agent));
    }
    await wantState(suite.cluster, suite.namespace, agent.node, 'StagedAndPerformedUpdate');
    await eventually(() => expect(stream.messages).toHaveLength(2));
    stream.close();
  });

  /** The answers to every call of an agent, for the current shadow. */
  const attempts = async (stale: Agent): Promise<string[]> => {
    const { metadata } = await suite.cluster.api.get<{ metadata: { uid: string; generation: number } }>(
      shadowPath(suite.namespace, stale.node),
    );
    const reference = { shadowUID: metadata.uid, generation: metadata.generation };
    const report = { shadowUID: metadata.uid, status: idleStatus({ current_version: '9.9.9' }) };
    const { client } = suite.apiserver;
    const answers = [
      await client.act(stale, 'shadow'),
      await client.act(stale, 'shadow/status', report),
      await client.act(stale, 'load-balancer-exclusion', reference),
      await client.act(stale, 'drain', reference),
      await client.act(stale, 'restore'),
    ];
    return answers.map(({ status, code }) => `${status} ${code}`);
  };

  /** The Node and its shadow in the cluster. */
  const state = async (node: string): Promise<unknown> => {
    const shadow = await suite.cluster.api.get<{ metadata: { resourceVersion: string } }>(
      shadowPath(suite.namespace, node),
    );
    const { spec, metadata } = await suite.cluster.api.get<{ spec: Json; metadata: Json }>(`/api/v1/nodes/${node}`);
    return { shadow, unschedulable: spec['unschedulable'], uid: metadata['uid'] };
  };

  const removePod = async ({ pod }: Agent): Promise<void> => {
    await suite.cluster.api.delete(`/api/v1/namespaces/${suite.namespace}/pods/${pod}`, { gracePeriodSeconds: 0 });
  };

  /** Deletes the Node and creates another of that name, whose spec calls for a reboot. */
  const replaceNode = async (): Promise<Agent> => {
    const { node } = agent;
    await suite.cluster.api.delete(`/api/v1/nodes/${node}`);
    const labels = { 'bottlerocket.aws/updater-interface-version': '2.0.0' };
    await eventually(async () => await createNode(suite.cluster, { name: node, labels }));
    const successor = await createAgentPod(suite.cluster, suite.namespace, node);
    await ensureShadow(suite.cluster, suite.namespace, node);
    await eventually(async () =>
      expect((await suite.apiserver.client.act<AgentShadow>(successor, 'shadow')).status).toBeLessThan(300),
    );
    await wantState(suite.cluster, suite.namespace, node, 'RebootedIntoUpdate');
    return successor;
  };

  it('of a deleted pod is rejected by every call and does not change the node of its successor', async () => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const successor = await createAgentPod(suite.cluster, suite.namespace, agent.node);
    await wantState(suite.cluster, suite.namespace, agent.node, 'RebootedIntoUpdate');
    await removePod(agent);
    await eventually(async () => expect((await suite.apiserver.client.act(agent, 'restore')).status).toBe(401));
    const before = await state(agent.node);
    expect(await attempts(agent)).toEqual(Array.from({ length: 5 }, () => '401 Unauthenticated'));
    expect(await state(agent.node)).toEqual(before);
    expect((await suite.apiserver.client.act(successor, 'restore')).status).toBe(200);
  });

  it('for an earlier Node of that name is rejected by every call, learns nothing and does not change its successor', async () => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const stream = await suite.apiserver.client.stream(agent);
    const successor = await replaceNode();
    const before = await state(agent.node);
    const refusals = ['403 Forbidden', '409 SpecChanged', '409 SpecChanged', '409 SpecChanged', '403 Forbidden'];
    // Once its pod is deleted, the token is not valid at all.
    expect([refusals, refusals.map(() => '401 Unauthenticated')]).toContainEqual(await attempts(agent));
    expect(await state(agent.node)).toEqual(before);
    const told = stream.messages.flatMap((message) => (message.type === 'shadow' ? [message.shadow.spec.state] : []));
    expect(new Set(told)).toEqual(new Set(['Idle']));
    expect((await suite.apiserver.client.act(successor, 'restore')).status).toBe(200);
    stream.close();
  });

  /** Waits until a replica has the agent, its pod and its shadow in its caches. */
  const untilWatched = async (replica: RunningApiserver): Promise<void> => {
    const { client } = replica;
    const first = await client.stream(agent);
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    await eventually(() => expect(first.messages.at(-1)?.type).toBe('shadow'));
    first.close();
    const reviews = async (): Promise<number> => sumOf(await replica.metrics(), 'brupop_apiserver_token_reviews_total');
    await eventually(async () => {
      const before = await reviews();
      (await client.stream(agent)).close();
      expect(await reviews()).toBe(before);
    });
  };

  it('cannot be reviewed while the Kubernetes API hangs: 503 in time for a new one, and a cached one is good for a minute', async () => {
    let aheadMs = 0;
    const clock: Clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
    const { apiserver, proxy } = await suite.startBehindProxy({ clock });
    await untilWatched(apiserver);
    const unknown = { ...agent, token: await agentToken(suite.cluster, suite.namespace, agent) };
    proxy.freeze();
    const started = performance.now();
    const waiting = Promise.all(Array.from({ length: 5 }, () => apiserver.client.act(unknown, 'restore')));
    const known = await apiserver.client.stream(agent);
    expect(known.status).toBe(200);
    known.close();
    aheadMs = 60_000;
    const lapsed = apiserver.client.act(agent, 'restore');
    for (const { status, code } of [...(await waiting), await lapsed])
      expect([status, code]).toEqual([503, 'Unavailable']);
    expect(performance.now() - started).toBeLessThan(14_000);
    proxy.heal();
    await eventually(async () => expect((await apiserver.client.act(unknown, 'restore')).status).toBe(200));
  });
});

async function all(stream: AsyncIterable<StreamMessage>): Promise<StreamMessage[]> {
  const messages: StreamMessage[] = [];
  for await (const message of stream) messages.push(message);
  return messages;
}
