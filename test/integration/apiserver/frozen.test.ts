import { setTimeout as sleep } from 'node:timers/promises';
import { jest } from '@jest/globals';
import type { BottlerocketShadow } from '../../../packages/shared/src/api/shadow.ts';
import { connectAgent } from '../../framework/apiserver/agent-client.ts';
import { type Agent, createAgent } from '../../framework/apiserver/cluster.ts';
import { spawnApiserver } from '../../framework/apiserver/process.ts';
import { ensureShadow, idleStatus, shadowPath, wantState } from '../../framework/apiserver/shadow.ts';
import { useApiserver } from '../../framework/apiserver/suite.ts';
import { eventually } from '../../framework/eventually.ts';

jest.setTimeout(120_000);

const AGENTS = 12;
/** Agents wait longer before they give up; to the replica that looks the same. */
const FROZEN_MS = 7_000;

describe('an API server that was frozen', () => {
  const suite = useApiserver();

  const agentWithShadow = async (): Promise<{ agent: Agent; uid: string }> => {
    const agent = await createAgent(suite.cluster, suite.namespace);
    return { agent, uid: await ensureShadow(suite.cluster, suite.namespace, agent.node) };
  };

  it('writes no report that its agent has given up and replaced with another replica', async () => {
    const frozen = await spawnApiserver(suite.cluster, suite.installation);
    try {
      const found = await Promise.all(Array.from({ length: AGENTS }, agentWithShadow));
      const agents = found.map((one) => ({ ...one, client: connectAgent(frozen.port, frozen.ca) }));
      const report = (shadowUID: string, version: string) => ({
        shadowUID,
        status: idleStatus({ target_version: version }),
      });
      for (const { agent, uid, client } of agents)
        expect((await client.act(agent, 'shadow/status', report(uid, '1.21.0'))).status).toBe(200);
      const { agent: other } = await agentWithShadow();
      frozen.signal('SIGSTOP');
      // So the watch has something to be read before the reports.
      await wantState(suite.cluster, suite.namespace, other.node, 'MonitoringUpdate');
      const givenUp = agents.map(({ agent, uid, client }) => client.act(agent, 'shadow/status', report(uid, '1.22.0')));
      await sleep(1_000);
      await Promise.all(agents.map(({ client }) => client.destroy()));
      await Promise.allSettled(givenUp);
      for (const { agent, uid } of agents)
        expect((await suite.apiserver.client.act(agent, 'shadow/status', report(uid, '1.23.0'))).status).toBe(200);
      await sleep(FROZEN_MS);
      frozen.signal('SIGCONT');
      const again = connectAgent(frozen.port, frozen.ca);
      await eventually(async () => expect((await again.act(other, 'restore')).status).toBe(200));
      await again.close();
      const shadows = await Promise.all(
        agents.map(({ agent }) => suite.cluster.api.get<BottlerocketShadow>(shadowPath(suite.namespace, agent.node))),
      );
      expect(new Set(shadows.map(({ status }) => status?.target_version))).toEqual(new Set(['1.23.0']));
    } finally {
      frozen.signal('SIGCONT');
      await frozen.stop();
    }
  });
});
