/** Reads the configuration and the shadows. */
import { type BrupopConfig, readBrupopConfig } from '@brupop/shared/api/brupop-config';
import {
  CONFIG_NAME,
  CONFIG_PLURAL,
  CONFIG_VERSION,
  SHADOW_PLURAL,
  SHADOW_VERSION,
  shadowName,
} from '@brupop/shared/api/names';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { crPath } from '@brupop/shared/kube/paths';
import { readList } from '@brupop/shared/kube/list';
import type { Client } from './client.ts';
import { UsageError } from './errors.ts';

export interface Fleet {
  readonly config: BrupopConfig | undefined;
  readonly shadows: readonly BottlerocketShadow[];
}

export const CONFIG_PATH = crPath(CONFIG_PLURAL, { version: CONFIG_VERSION, name: CONFIG_NAME });

/** Throws KubeError. */
export async function readFleet(client: Client): Promise<Fleet> {
  // One after the other, so that the same failure gives the same message each time.
  const configs = await readList(client, {
    path: crPath(CONFIG_PLURAL, { version: CONFIG_VERSION }),
    slim: readBrupopConfig,
    isNarrow: true,
  });
  const shadows = await readList(client, {
    path: crPath(SHADOW_PLURAL, { version: SHADOW_VERSION }),
    slim: (raw) => raw as BottlerocketShadow,
  });
  const byName = shadows.items.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  return { config: configs.items.find(({ metadata }) => metadata.name === CONFIG_NAME), shadows: byName };
}

/** Throws UsageError when the node is not managed, and KubeError. */
export function shadowOf({ shadows }: Fleet, node: string): BottlerocketShadow {
  const shadow = shadows.find(({ metadata }) => metadata.name === shadowName(node));
  if (shadow !== undefined) return shadow;
  throw new UsageError(`node ${node}: expected a BottlerocketShadow ${shadowName(node)}, found none: is it managed?`);
}
