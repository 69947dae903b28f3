import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import type { BottlerocketNodeGroup } from '@brupop/shared/api/node-group';
import type { BottlerocketShadow } from '@brupop/shared/api/shadow';
import { sameVersion } from '@brupop/shared/api/version';
import { shorten } from '@brupop/shared/runtime/errors';
import { groupOf } from '../cluster/fleet.ts';
import { nodeRow } from './node.ts';

/** Characters. */
const MAX_REASON = 200;

interface Paused {
  readonly paused?: boolean | null | undefined;
  readonly pauseReason?: string | null | undefined;
}

export interface Pausing {
  readonly config: { readonly spec: Pick<BrupopConfig['spec'], keyof Paused> } | undefined;
  readonly groups: readonly Pick<BottlerocketNodeGroup, 'metadata' | 'spec'>[];
}

/** A sentence, after a space: what pauses the node, and how to end it; empty: nothing does. */
export function pauseText({ config, groups }: Pausing, shadow: BottlerocketShadow): string {
  const { node, group } = nodeRow(shadow);
  const pauses = [
    ...pauseOf(config?.spec, 'the fleet', 'kubectl brupop resume'),
    ...pauseOf(groupOf(groups, shadow)?.spec, `the group ${group}`, `kubectl brupop resume --group ${group}`),
  ];
  if (pauses.length === 0) return '';
  const found = pauses.map(({ what }) => what).join(', and ');
  return ` ${node} waits, since ${found}, until ${pauses.map(({ command }) => command).join(' and ')}.`;
}

function pauseOf({ paused, pauseReason }: Paused = {}, who: string, command: string) {
  if (paused !== true) return [];
  const reason = pauseReason == null || pauseReason === '' ? '' : ` (${shorten(pauseReason, MAX_REASON)})`;
  return [{ what: `${who} is paused${reason}`, command: `"${command}"` }];
}

export interface Freezing {
  readonly config: Pick<BrupopConfig, 'status'> | undefined;
  readonly groups: readonly Pick<BottlerocketNodeGroup, 'metadata' | 'status'>[];
}

/** A sentence, after a space: for whom the version is frozen, and how to end that; empty: for none. */
export function freezeText({ config, groups }: Freezing, shadow: BottlerocketShadow, version: string): string {
  const { node, group } = nodeRow(shadow);
  const isFrozen = (of: Freezing['config'] | Freezing['groups'][number]): boolean =>
    of?.status?.frozenVersions?.some((one) => sameVersion(one.version, version)) === true;
  const command = 'kubectl brupop resume --failures';
  if (isFrozen(config)) return ` ${node} waits, since ${version} is frozen, until "${command}".`;
  if (!isFrozen(groupOf(groups, shadow))) return '';
  return ` ${node} waits, since ${version} is frozen for the group ${group}, until "${command} --group ${group}".`;
}
