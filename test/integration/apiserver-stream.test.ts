import { jest } from '@jest/globals';

import type { AgentShadow } from '../../packages/shared/src/operator-api.ts';
import { STREAM_HEARTBEAT_MS } from '../../packages/shared/src/operator-api.ts';
import { createAgent, createAgentPod, installNamespace } from '../support/apiserver/cluster.ts';
import type { Agent, Installation } from '../support/apiserver/cluster.ts';
import type { Stream } from '../support/apiserver/agent-client.ts';
import { startApiserver } from '../support/apiserver/server.ts';
import type { RunningApiserver } from '../support/apiserver/server.ts';
import { idleStatus, shadowPath, wantState } from '../support/apiserver/shadow.ts';
import type { Connection } from '../support/control-plane/connection.ts';
import { connectSharedControlPlane } from '../support/control-plane/shared.ts';
import { eventually } from '../support/eventually.ts';

jest.setTimeout(60_000);

describe('a shadow stream', () => {
  let cluster: Connection;
  let installation: Installation;
  let apiserver: RunningApiserver;
  let agent: Agent;

  beforeAll(async () => {
    cluster = connectSharedControlPlane();
    installation = await installNamespace(cluster);
  });

  beforeEach(async () => {
    apiserver = await startApiserver(cluster, installation);
    agent = await createAgent(cluster, installation.namespace);
  });

  afterEach(async () => {
    await apiserver.stop();
  });

  afterAll(async () => {
    await cluster.close();
  });

  const types = ({ messages }: Stream): string[] => messages.map(({ type }) => type);

  const states = ({ messages }: Stream): string[] =>
    messages.flatMap((message) => (message.type === 'shadow' ? [message.shadow.spec.state] : []));

  it('begins with the shadow and tells each change', async () => {
    await apiserver.client.act(agent, 'shadow');
    const stream = await apiserver.client.stream(agent);
    await eventually(() => expect(states(stream)).toEqual(['Idle']));
    await wantState(cluster, installation.namespace, agent.node, 'StagedAndPerformedUpdate');
    await eventually(() => expect(states(stream)).toEqual(['Idle', 'StagedAndPerformedUpdate']));
    stream.close();
  });

  it('begins with the shadow that was made a moment ago, on a replica that did not make it', async () => {
    const second = await startApiserver(cluster, installation);
    await second.client.act(agent, 'shadow');
    const stream = await apiserver.client.stream(agent);
    await eventually(() => expect(types(stream)).toEqual(['shadow']));
    stream.close();
    await second.stop();
  });

  it('says that there is no shadow, then that there is, then that it is gone', async () => {
    const stream = await apiserver.client.stream(agent);
    await eventually(() => expect(types(stream)).toEqual(['deleted']));
    await apiserver.client.act(agent, 'shadow');
    await eventually(() => expect(types(stream)).toEqual(['deleted', 'shadow']));
    await cluster.api.delete(shadowPath(installation.namespace, agent.node));
    await eventually(() => expect(types(stream)).toEqual(['deleted', 'shadow', 'deleted']));
    stream.close();
  });

  it('echoes the status but not conditions, which are not the agent’s', async () => {
    const { body } = await apiserver.client.act<AgentShadow>(agent, 'shadow');
    const stream = await apiserver.client.stream(agent);
    const conditions = [
      {
        type: 'Progressing',
        status: 'False',
        reason: 'Paused',
        message: 'paused',
        lastTransitionTime: '2026-01-02T03:04:05Z',
      },
    ];
    await cluster.api.patch(`${shadowPath(installation.namespace, agent.node)}/status`, { status: { conditions } });
    await apiserver.client.act(agent, 'shadow/status', { shadowUID: body.uid, status: idleStatus() });
    const status = { ...idleStatus(), state_transition_failure_timestamp: null };
    await eventually(() => {
      expect(stream.messages.at(-1)).toEqual({ type: 'shadow', shadow: { ...body, status } });
    });
    stream.close();
  });

  it('shows that it is alive when there is nothing to say', async () => {
    const stream = await apiserver.client.stream(agent);
    await eventually(() => expect(types(stream)).toEqual(['deleted', 'heartbeat']), {
      limitMs: STREAM_HEARTBEAT_MS + 2_000,
    });
    stream.close();
  });

  it('ends when the same pod opens another one', async () => {
    const first = await apiserver.client.stream(agent);
    const second = await apiserver.client.stream(agent);
    await first.closed;
    expect(types(first)).toEqual(['deleted', 'end']);
    expect(types(second)).toEqual(['deleted']);
    expect(await apiserver.metrics()).toMatch(/^brupop_apiserver_streams 1$/m);
    second.close();
    await eventually(async () => expect(await apiserver.metrics()).toMatch(/^brupop_apiserver_streams 0$/m));
  });

  it('leaves the stream of the node’s other agent pod alone, as there is one during a rollout', async () => {
    const both = ['deleted', 'shadow'];
    const successor = await createAgentPod(cluster, installation.namespace, agent.node);
    const first = await apiserver.client.stream(agent);
    const second = await apiserver.client.stream(successor);
    await apiserver.client.act(successor, 'shadow');
    await eventually(() => expect([types(first), types(second)]).toEqual([both, both]));
    first.close();
    second.close();
  });

  it('ends when its pod is deleted', async () => {
    const stream = await apiserver.client.stream(agent);
    const path = `/api/v1/namespaces/${installation.namespace}/pods/${agent.pod}`;
    await cluster.api.delete(path, { gracePeriodSeconds: 0 });
    await stream.closed;
    expect(types(stream)).toEqual(['deleted', 'end']);
  });

  it('ends when the apiserver stops, which takes no 5 s with a stream open', async () => {
    const stream = await apiserver.client.stream(agent);
    const began = performance.now();
    const stopped = apiserver.stop();
    await stream.closed;
    await stopped;
    expect(types(stream)).toEqual(['deleted', 'end']);
    expect(performance.now() - began).toBeLessThan(5_000);
    apiserver = await startApiserver(cluster, installation);
  });

  it('reaches twenty agents with one watch', async () => {
    const streams = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const one = await createAgent(cluster, installation.namespace);
        await apiserver.client.act(one, 'shadow');
        return { node: one.node, stream: await apiserver.client.stream(one) };
      }),
    );
    await Promise.all(streams.map(({ node }) => wantState(cluster, installation.namespace, node, 'MonitoringUpdate')));
    await eventually(() => {
      for (const { stream } of streams) expect(states(stream).at(-1)).toBe('MonitoringUpdate');
    });
    for (const { stream } of streams) stream.close();
  });
});
