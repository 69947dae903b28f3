import { APISERVER } from '@brupop/shared/constants';
import { createKubeClient } from '@brupop/shared/kube';
import { createRegistry } from '@brupop/shared/metrics';
import { run } from '@brupop/shared/run';

import { runApiserver } from './apiserver.ts';
import { readConfig } from './config.ts';

run(
  APISERVER,
  async ({ signal, log, clock, env }) => {
    const config = readConfig(env);
    const client = await createKubeClient({ userAgent: APISERVER, clock, log, access: config.access });
    try {
      await runApiserver({ config, client, clock, log, registry: createRegistry(APISERVER), signal });
    } finally {
      await client.close();
    }
  },
  { stopLimitMs: 5_000 },
);
