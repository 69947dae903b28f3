import type { Connection } from '../control-plane/connection.ts';
import { connectSharedControlPlane } from '../control-plane/shared.ts';
import { installNamespace } from './cluster.ts';
import type { Installation } from './cluster.ts';
import { startApiserver } from './server.ts';
import type { ApiserverSettings, RunningApiserver } from './server.ts';

/** What a suite works on; there from the first test on. */
export interface Suite {
  readonly cluster: Connection;
  readonly installation: Installation;
  readonly namespace: string;
  apiserver: RunningApiserver;
}

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

function useInstallation(): Suite {
  const suite = {} as { -readonly [Key in keyof Suite]: Suite[Key] };
  beforeAll(async () => {
    suite.cluster = connectSharedControlPlane();
    suite.installation = await installNamespace(suite.cluster);
    suite.namespace = suite.installation.namespace;
  });
  afterAll(async () => await suite.cluster.close());
  return suite;
}
