import type { Connection } from '../control-plane/connection.ts';
import { connectSharedControlPlane } from '../control-plane/shared.ts';
import { installNamespace } from './cluster.ts';
import type { Installation } from './cluster.ts';
import { startProxy } from './proxy.ts';
import type { Proxy } from './proxy.ts';
import { startApiserver } from './server.ts';
import type { ApiserverSettings, RunningApiserver } from './server.ts';

/** What a suite works on; there from the first test on. */
export interface Suite {
  readonly cluster: Connection;
  readonly installation: Installation;
  readonly namespace: string;
  /** The one that most tests call. */
  readonly apiserver: RunningApiserver;
  /** Starts another one; it is stopped after the test, whatever comes of it. */
  start(settings?: ApiserverSettings): Promise<RunningApiserver>;
  /** As `start`, with a way to the Kubernetes API that can be cut. */
  startBehindProxy(settings?: ApiserverSettings): Promise<{ apiserver: RunningApiserver; proxy: Proxy }>;
}

type Changing = { -readonly [Key in keyof Suite]: Suite[Key] };

/** Gives a suite an installation of its own on the shared control plane, with one apiserver for all of its tests. */
export function useApiserver(settings: ApiserverSettings = {}): Suite {
  const suite = useInstallation();
  beforeAll(async () => {
    suite.apiserver = await startApiserver(suite.cluster, suite.installation, settings);
  });
  afterAll(async () => await suite.apiserver.stop());
  return suite;
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

function useInstallation(): Changing {
  const ends: (() => Promise<void>)[] = [];
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
    suite.cluster = connectSharedControlPlane();
    suite.installation = await installNamespace(suite.cluster);
    suite.namespace = suite.installation.namespace;
  });
  afterAll(async () => await suite.cluster.close());
  return suite;
}
