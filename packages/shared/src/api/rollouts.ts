/** The last rollouts in the status of the BrupopConfig: what was updated when, and who changed the configuration meanwhile. */
import * as v from 'valibot';
import { MAX_FIELD, MAX_FIELDS, MAX_MANAGER } from './edits.ts';
import { count, described, type Infer, is, object, optional, statusList, text, time } from './schema.ts';

export const MAX_ROLLOUTS = 20;
/** Of each rollout. */
export const MAX_CHANGES = 10;

const rollout = object({
  version: described(text(128), 'The Bottlerocket version.'),
  group: optional(text(63), 'The BottlerocketNodeGroup of its nodes. Absent: those without one.'),
  startTime: described(time(), 'When its first node started.'),
  endTime: optional(time(), 'Since when no node updates to it or waits for it. Absent while one does.'),
  nodes: described(count(), 'How many nodes have updated to it since startTime.'),
  failures: described(count(), 'How many nodes have failed with it since startTime, at most at the same time.'),
  changes: statusList(
    {
      object: described(text(300), 'What was changed, such as BrupopConfig "cluster".'),
      manager: described(text(MAX_MANAGER), 'The field manager that changed it, as metadata.managedFields has it.'),
      time: described(time(), 'When it last wrote one of the fields.'),
      fields: described(
        v.array(text(MAX_FIELD)),
        `Fields of the spec that it has set, such as paused or rollout.approvedVersion, at most ${MAX_FIELDS}.`,
        { maxItems: MAX_FIELDS, 'x-kubernetes-list-type': 'atomic' },
      ),
    },
    `Who has written the spec of the configuration or of the group since ten minutes before startTime, the latest first, at most ${MAX_CHANGES}.`,
    MAX_CHANGES,
  ),
});
export type RolloutStatus = Infer<typeof rollout>;

/** @param since - what `since` of a version says */
export function datedVersions(since: string, description: string) {
  const entries = { version: described(text(128), 'The Bottlerocket version.'), since: described(time(), since) };
  return statusList(entries, description, 20);
}

/** Of the status of the BrupopConfig. */
export const ROLLOUTS = {
  rollouts: optional(v.array(rollout), `The latest rollouts, at most ${MAX_ROLLOUTS}, the latest first.`, {
    maxItems: MAX_ROLLOUTS,
    'x-kubernetes-list-type': 'atomic',
  }),
  heldVersions: datedVersions(
    'When it was held first. It may be held for an hour from here.',
    'The versions that have been held because workloads fail on them. The condition Held says whether one is held now.',
  ),
};

/** Without those that are not as expected: a user may have edited the status. */
export function readRollouts(found: unknown): RolloutStatus[] {
  return Array.isArray(found) ? found.filter((one): one is RolloutStatus => is(rollout, one)) : [];
}
