import { AGENT } from '@brupop/shared/api/names';
import { serveHealth } from '@brupop/shared/runtime/health';
import { run } from '@brupop/shared/runtime/run';
import { Agent } from './agent.ts';
import { HttpApiserverClient } from './apiserver/client.ts';
import { readConfig } from './config.ts';
import { HostSocket } from './host/host-socket.ts';

run(AGENT, async ({ signal, log, clock, env }) => {
  const config = readConfig(env);
  const { node, apiserver, checkIntervalMs, podIP, healthPort } = config;
  const host = new HostSocket({ socketPath: config.hostSocket, bootIDFile: config.bootIDFile, clock });
  const api = new HttpApiserverClient({ node, apiserver, clock });
  const agent = new Agent({ host, api, clock, log: log.with({ node }), checkIntervalMs });
  const checks = { live: () => agent.live(), ready: () => agent.ready() };
  await serveHealth({ host: podIP, port: healthPort, ...checks, signal });
  await agent.run(signal);
});
