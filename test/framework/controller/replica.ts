import { NO_CHECKS } from '../../../packages/controller/src/testing/checks.ts';
import type { ControllerConfig } from '../../../packages/controller/src/config.ts';
import { serve } from '../../../packages/controller/src/main.ts';
import { systemClock } from '../../../packages/shared/src/runtime/clock.ts';
import { releaseNamespace } from '../chart.ts';
import type { Connection } from '../control-plane/connection.ts';
import { freePorts } from '../control-plane/ports.ts';
import { eventually } from '../eventually.ts';
import { recordingLogger } from '../recording-logger.ts';

/** A controller in this process. */
export interface Replica {
  /** Log lines. */
  readonly lines: readonly string[];
  metrics(): Promise<string>;
  isLeader(): Promise<boolean>;
  /** Shuts it down as SIGTERM does; resolves when it has stopped. */
  stop(): Promise<void>;
}

/**
 * Starts a controller as the chart's service account and waits until it is ready.
 * @param release - the controller of another release; by default the sources
 */
export async function startReplica(
  { url }: Pick<Connection, 'url'>,
  serviceAccountDir: string,
  settings: Partial<ControllerConfig> = {},
  release: { readonly serve: typeof serve } = { serve },
): Promise<Replica> {
  const { log, lines } = recordingLogger();
  const stopping = new AbortController();
  const [healthPort = 0] = await freePorts(1);
  const { hostname, port } = new URL(url);
  const podName = `brupop-controller-${healthPort}`;
  const config: ControllerConfig = {
    access: { host: hostname, port: Number(port), serviceAccountDir },
    namespace: releaseNamespace,
    agentNamespace: releaseNamespace,
    nodeName: 'node-of-the-replica',
    podName,
    identity: `${podName}_uid`,
    host: '127.0.0.1',
    healthPort,
    tlsMode: 'provided',
    tlsSecret: 'brupop-apiserver-tls',
    caConfigMap: 'brupop-ca',
    checks: NO_CHECKS,
    mayForce: true,
    recoveryNamespaces: [],
    notificationSecrets: [],
    proxies: { http: '', https: '', no: '' },
    dependents: [],
    restoresDependents: false,
    ...settings,
  };
  const ended = release.serve(config, { signal: stopping.signal, log, clock: systemClock });
  const ask = async (path: string): Promise<Response> => await fetch(`http://127.0.0.1:${healthPort}${path}`);
  const ready = eventually(async () => {
    const { status } = await ask('/readyz');
    if (status !== 200) throw new Error(`the controller is not ready: ${lines.join('')}`);
  });
  await Promise.race([ready, ended]);
  const metrics = async (): Promise<string> => await (await ask('/metrics')).text();
  return {
    lines,
    metrics,
    isLeader: async () => /^brupop_controller_leader 1$/m.test(await metrics()),
    stop: async () => {
      stopping.abort(new Error('the test is over'));
      await ended;
    },
  };
}
