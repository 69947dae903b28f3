/** The BrupopConfig of a test, as a user applies it. */
import type { BrupopConfig } from '../../../packages/shared/src/api/brupop-config.ts';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import { CONFIG_NAME, CONFIG_PLURAL, CONFIG_VERSION, GROUP } from '../../../packages/shared/src/api/names.ts';
import type { Connection } from '../control-plane/connection.ts';

export const CONFIG_PATH = `/apis/${GROUP}/${CONFIG_VERSION}/${CONFIG_PLURAL}/${CONFIG_NAME}`;

/** Part of a spec with which updates succeed as soon as their node is healthy. */
export const HEALTHY_AT_ONCE = { monitoring: { healthyFor: '0s' } } as const;

/** Creates or replaces it. */
export async function configure({ api }: Pick<Connection, 'api'>, spec: BrupopConfigSpec): Promise<void> {
  const body = {
    apiVersion: `${GROUP}/${CONFIG_VERSION}`,
    kind: 'BrupopConfig',
    metadata: { name: CONFIG_NAME },
    spec,
  };
  await api.request('PATCH', `${CONFIG_PATH}?fieldManager=user&force=true`, body, 'application/apply-patch+yaml');
}

export async function readBrupopConfig({ api }: Pick<Connection, 'api'>): Promise<BrupopConfig> {
  return await api.get<BrupopConfig>(CONFIG_PATH);
}
