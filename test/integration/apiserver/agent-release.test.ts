import { jest } from '@jest/globals';
import { RELEASE } from '../../../packages/shared/src/api/release.ts';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import type { AgentShadow } from '../../../packages/shared/src/api/agent-protocol.ts';
import { type Agent, createAgent } from '../../framework/apiserver/cluster.ts';
import { ensureShadow, idleStatus, shadowPath } from '../../framework/apiserver/shadow.ts';
import { useFreshApiservers } from '../../framework/apiserver/suite.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(60_000);

const TOO_NEW = '999.0.0';

describe('an agent of another release', () => {
  const suite = useFreshApiservers();
  let agent: Agent;

  beforeEach(async () => {
    agent = await createAgent(suite.cluster, suite.namespace);
    await ensureShadow(suite.cluster, suite.namespace, agent.node);
    const progressing = {
      type: 'Progressing',
      status: 'False',
      reason: 'UpToDate',
      message: 'up to date',
      lastTransitionTime: '2026-01-02T03:04:05Z',
    };
    await suite.cluster.api.patch(`${shadowPath(suite.namespace, agent.node)}/status`, {
      status: { conditions: [progressing] },
    });
  });

  const shadow = async (): Promise<BottlerocketShadow> =>
    await suite.cluster.api.get<BottlerocketShadow>(shadowPath(suite.namespace, agent.node));
  const conditions = async (): Promise<unknown> => (await shadow()).status?.conditions;
  const connect = async (release: string): Promise<void> => {
    const stream = await suite.apiserver.client.stream(agent, release);
    await eventually(() => expect(stream.messages.map(({ type }) => type)).toContain('shadow'));
    stream.close();
  };

  it('has a condition on its shadow with both releases and what to do, and is still served', async () => {
    await connect(TOO_NEW);
    const message =
      `The agent has the release ${TOO_NEW}, which is too new for the API server with ${RELEASE}: ` +
      'upgrade the Deployment brupop-apiserver to the same release';
    const supported = { type: 'AgentSupported', status: 'False', reason: 'AgentTooNew', message };
    await eventually(async () =>
      expect(await conditions()).toEqual([
        expect.objectContaining({ type: 'Progressing' }),
        expect.objectContaining(supported),
      ]),
    );
    const { body } = await suite.apiserver.client.act<AgentShadow>(agent, 'shadow');
    const report = { shadowUID: body.uid, status: idleStatus() };
    expect((await suite.apiserver.client.act(agent, 'shadow/status', report)).status).toBe(200);
    expect(await conditions()).toEqual([expect.anything(), expect.objectContaining(supported)]);
  });

  it('causes one log line, and no condition once an agent that is supported takes its place', async () => {
    await connect(TOO_NEW);
    await eventually(async () => expect(await conditions()).toHaveLength(2));
    const { resourceVersion } = (await shadow()).metadata;
    await connect(TOO_NEW);
    await connect(TOO_NEW);
    expect((await shadow()).metadata.resourceVersion).toBe(resourceVersion);
    await connect(RELEASE);
    await eventually(async () =>
      expect(await conditions()).toEqual([expect.objectContaining({ type: 'Progressing' })]),
    );
  });

  it('is supported when only the last number differs', async () => {
    const { resourceVersion } = (await shadow()).metadata;
    await connect(RELEASE.replace(/\d+$/u, '99'));
    await connect(RELEASE);
    expect((await shadow()).metadata.resourceVersion).toBe(resourceVersion);
  });
});
