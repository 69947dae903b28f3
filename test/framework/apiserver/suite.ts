import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP } from '../../../packages/shared/src/api/names.ts';
import type { Connection } from '../control-plane/connection.ts';
import { connectSharedControlPlane } from '../control-plane/shared.ts';
import type { ControlPlaneOptions } from '../control-plane/arguments.ts';
import { type Components, startControlPlane } from '../control-plane/start.ts';
import { installCrds } from '../crds.ts';
import { type Installation, installNamespace } from './cluster.ts';
import { type Proxy, startProxy } from './proxy.ts';
import { type ApiserverSettings, type RunningApiserver, startApiserver } from './server.ts';

/** The fixture of a suite; available in its tests. */
export interface Suite {
  readonly cluster: Connection;
  readonly installation: Installation;
  readonly namespace: string;
  /** The apiserver that most tests call. */
  readonly apiserver: RunningApiserver;
  /** Starts another apiserver, which is stopped after the test. */
  start(settings?: ApiserverSettings): Promise<RunningApiserver>;
  /** As `start`, with a proxy to the Kubernetes API that can be cut. */
  startBehindProxy(settings?: ApiserverSettings): Promise<{ apiserver: RunningApiserver; proxy: Proxy }>;
}

type Changing = { -readonly [Key in keyof Suite]: Suite[Key] };

/**
 * Gives a suite its own installation on the shared control plane, with one apiserver for all of its
 * tests.
 */
export function useApiserver(settings: ApiserverSettings = {}): Suite {
  const suite = useInstallation();
  beforeAll(async () => {
    suite.apiserver = await startApiserver(suite.cluster, suite.installation, settings);
  });
  afterAll(async () => await suite.apiserver.stop());
  return suite;
}

/**
 * As `useApiserver`, on a control plane of its own that has this BrupopConfig: there is only one in
 * a cluster.
 * @param values - of the chart, such as `drain.allowForce=true`; they decide what is granted
 */
export function useConfiguredApiserver(
  spec: BrupopConfigSpec,
  values: readonly string[] = [],
): Suite & { configure: typeof configure; components: () => Components } {
  let components: Components | undefined;
  const suite = useInstallation(async () => {
    const own = await startControlPlane();
    components = own.components;
    await installCrds(own);
    await configure(own, spec);
    return { cluster: own, end: async () => await own.stop() };
  }, values);
  beforeAll(async () => {
    suite.apiserver = await startApiserver(suite.cluster, suite.installation);
  });
  afterAll(async () => await suite.apiserver.stop());
  const running = (): Components => {
    if (components === undefined) throw new Error('the control plane has not been started yet');
    return components;
  };
  return Object.assign(suite, { configure, components: running });
}

/** As `useApiserver`, on a control plane of its own. */
export function useApiserverOn(options: ControlPlaneOptions): Suite {
  const suite = useInstallation(async () => {
    const own = await startControlPlane(options);
    await installCrds(own);
    return { cluster: own, end: async () => await own.stop() };
  });
  beforeAll(async () => {
    suite.apiserver = await startApiserver(suite.cluster, suite.installation);
  });
  afterAll(async () => await suite.apiserver.stop());
  return suite;
}

/**
 * Replaces the BrupopConfig. An apiserver that is started after this follows it from its first call
 * on.
 */
async function configure(cluster: Connection, spec: BrupopConfigSpec): Promise<void> {
  const path = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}`;
  await cluster.api.delete(`${path}/${CONFIG_NAME}`);
  await cluster.api.create(path, {
    apiVersion: `${GROUP}/${CONFIG_VERSION}`,
    kind: 'BrupopConfig',
    metadata: { name: CONFIG_NAME },
    spec,
  });
}

/** As `useApiserver`, with a fresh apiserver for each test. */
export function useFreshApiservers(): Suite {
  const suite = useInstallation();
  beforeEach(async () => {
    suite.apiserver = await startApiserver(suite.cluster, suite.installation);
  });
  afterEach(async () => await suite.apiserver.stop());
  return suite;
}

type Connect = () => Promise<{ readonly cluster: Connection; readonly end: () => Promise<void> }>;

const connectShared: Connect = () => {
  const cluster = connectSharedControlPlane();
  return Promise.resolve({ cluster, end: async () => await cluster.close() });
};

function useInstallation(connect = connectShared, values: readonly string[] = []): Changing {
  const ends: (() => Promise<void>)[] = [];
  let disconnect: (() => Promise<void>) | undefined;
  const start = async (cluster: Connection, settings?: ApiserverSettings): Promise<RunningApiserver> => {
    const apiserver = await startApiserver(cluster, suite.installation, settings);
    ends.push(apiserver.stop);
    return apiserver;
  };
  const startBehindProxy: Suite['startBehindProxy'] = async (settings) => {
    const proxy = await startProxy(Number(new URL(suite.cluster.url).port));
    ends.push(proxy.close);
    const url = `https://127.0.0.1:${proxy.port}`;
    return { proxy, apiserver: await start({ ...suite.cluster, url }, settings) };
  };
  const suite = { start: (settings) => start(suite.cluster, settings), startBehindProxy } as Changing;
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  });
  beforeAll(async () => {
    const { cluster, end } = await connect();
    suite.cluster = cluster;
    disconnect = end;
    suite.installation = await installNamespace(suite.cluster, values);
    suite.namespace = suite.installation.namespace;
  });
  afterAll(async () => await disconnect?.());
  return suite;
}
