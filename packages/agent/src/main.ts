import { HostCalls } from '@brupop/shared/api/host-calls';
import { AGENT } from '@brupop/shared/api/names';
import { serveHealth } from '@brupop/shared/runtime/health';
import { run, type RunContext } from '@brupop/shared/runtime/run';
import { Agent } from './agent.ts';
import { HttpApiserverClient } from './apiserver/client.ts';
import { type AgentConfig, readConfig } from './config.ts';
import { HostSocket } from './host/host-socket.ts';
import { endAfterRelease, STOP_LIMIT_MS } from './release.ts';

run(AGENT, (context) => serve(readConfig(context.env), context), {
  stopLimitMs: STOP_LIMIT_MS,
  fields: ({ NODE_NAME: node }) => ({ node }),
});

async function serve(config: AgentConfig, { signal, log, clock }: Omit<RunContext, 'env'>): Promise<void> {
  const { node, apiserver, hostSocket: socketPath, bootIDFile, checkIntervalMs, host, healthPort } = config;
  const hostCalls = new HostCalls();
  const agent: Agent = new Agent({
    host: new HostSocket({ socketPath, bootIDFile, clock, calls: hostCalls }),
    api: new HttpApiserverClient({
      node,
      apiserver,
      clock,
      log: log.with(() => ({ attempt: agent.attempt })),
      hostCalls,
    }),
    clock,
    log,
    checkIntervalMs,
  });
  await serveHealth({ host, port: healthPort, signal, live: () => agent.live(), ready: () => agent.ready() });
  await agent.run(endAfterRelease(signal, clock, () => agent.shadow()));
}
