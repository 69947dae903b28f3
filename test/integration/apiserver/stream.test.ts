import { pinned } from '../../../packages/shared/src/testing/settings.ts';
import { jest } from '@jest/globals';
import type { AgentShadow } from '../../../packages/shared/src/api/agent-protocol.ts';
import { STREAM_HEARTBEAT_MS } from '../../../packages/shared/src/api/deadlines.ts';
import { type Clock, systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import type { Stream } from '../../framework/apiserver/agent-client.ts';
import { type Agent, createAgent, createAgentPod } from '../../framework/apiserver/cluster.ts';
import { ensureShadow, idleStatus, shadowPath, wantState } from '../../framework/apiserver/shadow.ts';
import { useFreshApiservers } from '../../framework/apiserver/suite.ts';
import { openWire } from '../../framework/apiserver/wire.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

describe('a shadow stream', () => {
  const suite = useFreshApiservers();
  let agent: Agent;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
  });

  const types = ({ messages }: Stream): string[] => messages.map(({ type }) => type);

  const states = ({ messages }: Stream): string[] =>
    messages.flatMap((message) => (message.type === 'shadow' ? [message.shadow.spec.state] : []));

  it('starts with the shadow and sends each change', async () => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const stream = await suite.apiserver.client.stream(agent);
    await eventually(() => expect(states(stream)).toEqual(['Idle']));
    await wantState(suite.cluster, suite.namespace, agent.node, 'StagedAndPerformedUpdate');
    await eventually(() => expect(states(stream)).toEqual(['Idle', 'StagedAndPerformedUpdate']));
    stream.close();
  });

  it('starts with a shadow that was just created', async () => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const stream = await suite.apiserver.client.stream(agent);
    await eventually(() => expect(types(stream)).toEqual(['shadow']));
    stream.close();
  });

  it('reports that there is no shadow, then the shadow, then its deletion', async () => {
    const stream = await suite.apiserver.client.stream(agent);
    await eventually(() => expect(types(stream)).toEqual(['deleted']));
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    await eventually(() => expect(types(stream)).toEqual(['deleted', 'shadow']));
    await suite.cluster.api.delete(shadowPath(suite.namespace, agent.node));
    await eventually(() => expect(types(stream)).toEqual(['deleted', 'shadow', 'deleted']));
    stream.close();
  });

  it('sends the status without the conditions, which are not the agent’s', async () => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const { body } = await suite.apiserver.client.act<AgentShadow>(agent, 'shadow');
    const stream = await suite.apiserver.client.stream(agent);
    const conditions = [
      {
        type: 'Progressing',
        status: 'False',
        reason: 'Paused',
        message: 'paused',
        lastTransitionTime: '2026-01-02T03:04:05Z',
      },
    ];
    await suite.cluster.api.patch(`${shadowPath(suite.namespace, agent.node)}/status`, { status: { conditions } });
    await suite.apiserver.client.act(agent, 'shadow/status', { shadowUID: body.uid, status: idleStatus() });
    const status = { ...idleStatus(), state_transition_failure_timestamp: null };
    await eventually(() => {
      expect(stream.messages.at(-1)).toEqual({ type: 'shadow', shadow: { ...body, status } });
    });
    stream.close();
  });

  it('includes the host settings of a spec and the limits of its steps', async () => {
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const stream = await suite.apiserver.client.stream(agent);
    const spec = {
      state: 'StagedAndPerformedUpdate',
      version: '1.21.0',
      timeoutSeconds: 900,
      settings: pinned({ versionLock: '1.21.0', ignoreWaves: true }),
    };
    await suite.cluster.api.patch(shadowPath(suite.namespace, agent.node), { spec });
    await eventually(() => expect(stream.messages.at(-1)).toMatchObject({ type: 'shadow', shadow: { spec } }));
    stream.close();
  });

  it('sends heartbeats when there is nothing else to send', async () => {
    const stream = await suite.apiserver.client.stream(agent);
    await eventually(() => expect(types(stream)).toEqual(['deleted', 'heartbeat']), {
      limitMs: STREAM_HEARTBEAT_MS + 2_000,
    });
    stream.close();
  });

  it('ends when the same pod opens another one', async () => {
    const first = await suite.apiserver.client.stream(agent);
    const second = await suite.apiserver.client.stream(agent);
    await first.closed;
    expect(types(first)).toEqual(['deleted', 'end']);
    expect(types(second)).toEqual(['deleted']);
    expect(await suite.apiserver.metrics()).toMatch(/^brupop_apiserver_streams\{agent_version=""\} 1$/m);
    second.close();
    await eventually(async () =>
      expect(await suite.apiserver.metrics()).toMatch(/^brupop_apiserver_streams\{agent_version=""\} 0$/m),
    );
  });

  it('keeps the stream of another agent pod on the node, as exists during a rollout', async () => {
    const both = ['deleted', 'shadow'];
    const successor = await createAgentPod(suite.cluster, suite.namespace, agent.node);
    const first = await suite.apiserver.client.stream(agent);
    const second = await suite.apiserver.client.stream(successor);
    await ensureShadow(suite.cluster, suite.namespace, successor.node);
    await eventually(() => expect([types(first), types(second)]).toEqual([both, both]));
    first.close();
    second.close();
  });

  it('ends when its pod is deleted', async () => {
    const stream = await suite.apiserver.client.stream(agent);
    const path = `/api/v1/namespaces/${suite.namespace}/pods/${agent.pod}`;
    await suite.cluster.api.delete(path, { gracePeriodSeconds: 0 });
    await stream.closed;
    expect(types(stream)).toEqual(['deleted', 'end']);
  });

  it('ends at once when its pod was deleted while the body of the call was on its way', async () => {
    const wire = await openWire(suite.apiserver);
    const head = [
      `GET /v1/nodes/${agent.node}/shadow/stream HTTP/1.1`,
      'host: apiserver',
      `authorization: Bearer ${agent.token}`,
      'content-type: application/json',
      'content-length: 1',
      'connection: close',
    ];
    let received = '';
    wire.socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
    wire.socket.write(`${head.join('\r\n')}\r\n\r\n`);
    await eventually(async () =>
      expect(await suite.apiserver.metrics()).toMatch(
        /^brupop_apiserver_authentications_total\{result="Reviewed"\} 1$/m,
      ),
    );
    const path = `/api/v1/namespaces/${suite.namespace}/pods/${agent.pod}`;
    await suite.cluster.api.delete(path, { gracePeriodSeconds: 0 });
    const stream = await suite.apiserver.client.stream(agent).catch(() => undefined);
    await stream?.closed;
    wire.socket.write('1');
    await wire.closed;
    expect(received).toContain('{"type":"end","reason":"the pod is deleted"}');
    expect(received).not.toContain('"type":"shadow"');
  });

  it('ends when a watch has received nothing for two minutes, and is served again once it has', async () => {
    let skippedMs = 0;
    const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + skippedMs };
    const { apiserver: cut, proxy } = await suite.startBehindProxy({ clock });
    const readiness = async (): Promise<string> =>
      await (await fetch(`http://127.0.0.1:${cut.healthPort}/readyz`)).text();
    const stream = await cut.client.stream(agent);
    await eventually(() => expect(types(stream)).toEqual(['deleted']));
    proxy.cut();
    skippedMs += 121_000;
    await stream.closed;
    expect(types(stream)).toEqual(['deleted', 'end']);
    expect(JSON.stringify(stream.messages.at(-1))).toContain(
      'is stale: not confirmed by an event, a bookmark or a check',
    );
    expect(await readiness()).toContain('is stale: not confirmed by an event, a bookmark or a check');
    expect((await cut.client.act(agent, 'restore')).code).toBe('Unavailable');
    proxy.heal();
    await eventually(async () => expect(await readiness()).toBe('ok\n'));
    const second = await cut.client.stream(agent);
    await eventually(() => expect(types(second)).toEqual(['deleted']));
    second.close();
  });

  it('ends when the apiserver shuts down, in less than 5 s', async () => {
    const stream = await suite.apiserver.client.stream(agent);
    const started = performance.now();
    const stopped = suite.apiserver.stop();
    await stream.closed;
    await stopped;
    expect(types(stream)).toEqual(['deleted', 'end']);
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it('reaches twenty agents with one watch', async () => {
    const streams = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const one = await createAgent(suite.cluster, suite.namespace);
        await ensureShadow(suite.cluster, suite.namespace, one.node);
        return { node: one.node, stream: await suite.apiserver.client.stream(one) };
      }),
    );
    await Promise.all(streams.map(({ node }) => wantState(suite.cluster, suite.namespace, node, 'MonitoringUpdate')));
    await eventually(() => {
      for (const { stream } of streams) expect(states(stream).at(-1)).toBe('MonitoringUpdate');
    });
    for (const { stream } of streams) stream.close();
  });
});
