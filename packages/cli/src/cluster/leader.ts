/** Whether a controller leads. Without one, what the operator has reported is of the past, and nothing is followed. */
import { CONTROLLER } from '@brupop/shared/api/names';
import { leasePath } from '@brupop/shared/kube/paths';
import { parseTime, rfc3339 } from '@brupop/shared/runtime/clock';
import type { Client } from './client.ts';
import { type Fleet, namespacesText, readIfAllowed } from './fleet.ts';

/** Much longer than a change of the leader takes, and than its Lease holds. */
const SILENT_MS = 60_000;

interface Lease {
  readonly metadata?: { readonly managedFields?: readonly { readonly time?: string }[] };
  readonly spec?: { readonly renewTime?: string };
}

/**
 * Returns one sentence, without its capital and its period, when no controller leads; undefined when one does, or when
 * that is not known, as for a user who may not read its Lease. Throws KubeError.
 */
export async function leaderText(client: Client, fleet: Fleet): Promise<string | undefined> {
  const { namespace } = fleet.shadows[0]?.metadata ?? {};
  if (namespace === undefined || namespacesText(fleet) !== undefined) return undefined;
  const path = leasePath({ namespace, name: CONTROLLER });
  const renewedAt = renewedAtOf((await readIfAllowed<Lease>(client, path)) ?? {});
  if (renewedAt === undefined) return undefined;
  const now = await client.time(path);
  if (now === undefined || now < renewedAt + SILENT_MS) return undefined;
  return (
    `no controller has led since ${rfc3339(renewedAt)}: reports are from before, no update starts and no request is ` +
    `followed; see whether the pods of the Deployment ${CONTROLLER} run`
  );
}

/** By the clock of the API server, as `now` is, if it has recorded that: the clock of a leader may be minutes wrong. */
function renewedAtOf({ metadata, spec }: Lease): number | undefined {
  const writtenAt = (metadata?.managedFields ?? []).flatMap(({ time }) => parseTime(time) ?? []);
  return writtenAt.length > 0 ? Math.max(...writtenAt) : parseTime(spec?.renewTime);
}
