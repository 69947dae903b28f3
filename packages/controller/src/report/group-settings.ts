/** What the settings of a group have come to on its nodes: the condition SettingsApplied, and what is left to do. */
import { namesOf } from '@brupop/shared/runtime/errors';
import type { ConditionReport } from '@brupop/shared/api/meta';
import { SKIP_ANNOTATION } from '@brupop/shared/api/names';
import type { NodeGroupStatus } from '@brupop/shared/api/node-group';
import type { SettingClass } from '@brupop/shared/api/settings';
import type { Decision } from '../plan/assess.ts';
import { allowedAtReboot, type SettingsFacts } from '../plan/facts/settings.ts';
import { ofParts, type Parts } from '../kept/parts.ts';
import type { Blocked } from '../plan/facts/reasons.ts';
import type { Grants } from '../plan/gates/without-update.ts';

export interface GroupSettings {
  /** The nodes to which each of these applies, by name. */
  readonly nodes: Readonly<
    Record<
      'inForce' | 'failed' | 'conflicts' | 'cannotUnset' | 'rebooted' | 'skipped' | SettingClass,
      readonly string[]
    >
  >;
  /** The nodes that have any settings, or are to have some. */
  readonly members: number;
  readonly left: NonNullable<NodeGroupStatus['settings']>;
  /** Why the first of those that could change theirs, and are not skipped, does not. */
  readonly waitsFor: string | undefined;
}

const MAX_LEFT = 100;

interface Known {
  readonly name: string;
  readonly facts: SettingsFacts;
  /** Why its update or its reboot does not start. */
  readonly blocked: Blocked | undefined;
}

export function groupSettingsOf(members: Parts<Decision>, { waiting }: Grants): GroupSettings {
  const known = knownIn(members).flat();
  const named = (applies: (facts: SettingsFacts) => boolean): string[] =>
    known.filter(({ facts }) => applies(facts)).map(({ name }) => name);
  const withClass = (wanted: SettingClass): string[] =>
    named(({ pending }) => pending.some((one) => one.class === wanted));
  const waits = waitsOf(known, waiting);
  const messages = known.flatMap(({ facts }) => facts.message ?? []);
  const skipped = waits.filter(({ blocked }) => blocked.reason === 'Skipped').map(({ name }) => name);
  return {
    nodes: {
      inForce: named(({ state }) => state === 'inForce'),
      failed: named(({ state }) => state === 'failed'),
      conflicts: named(({ conflicts }) => conflicts.length > 0),
      cannotUnset: named(({ cannotUnset }) => cannotUnset.length > 0),
      rebooted: named((facts) => facts.isRebooted && allowedAtReboot(facts) === 'NeedsReboot'),
      skipped,
      Live: withClass('Live'),
      RestartsService: withClass('RestartsService'),
      NeedsReboot: withClass('NeedsReboot'),
      Refused: withClass('Refused'),
    },
    members: known.length,
    left: leftOf(known.map(({ facts }) => facts)),
    waitsFor: waits.find(({ name }) => !skipped.includes(name))?.blocked.message ?? messages[0],
  };
}

const knownIn = ofParts((part: readonly Decision[]) =>
  part.flatMap(({ managedNode: { name }, settings: facts, blocked }): Known[] =>
    facts === undefined || facts.state === 'none' ? [] : [{ name, facts, blocked }],
  ),
);

interface Waiting {
  readonly name: string;
  readonly blocked: Blocked;
}

/** Those that need a reboot wait with the update or the reboot that brings them. */
function waitsOf(known: readonly Known[], waiting: Grants['waiting']): Waiting[] {
  const named = (found: (one: Known) => Blocked | undefined): Waiting[] =>
    known.flatMap((one) => {
      const blocked = found(one);
      return blocked === undefined ? [] : [{ name: one.name, blocked }];
    });
  return [
    ...named(({ name }) => waiting.get(name)),
    ...named(({ facts, blocked }) => (allowedAtReboot(facts) === 'NeedsReboot' ? blocked : undefined)),
  ];
}

/** Hosts of different versions may tell different classes. */
function leftOf(all: readonly SettingsFacts[]): GroupSettings['left'] {
  const pending = all.flatMap((facts) => facts.pending);
  const byText = Map.groupBy(pending, ({ key, class: found, reason }) => JSON.stringify([key, found, reason]));
  return [...byText.values()]
    .flatMap((same) => same.slice(0, 1).map((one) => ({ ...one, nodes: same.length })))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .slice(0, MAX_LEFT);
}

/** Reasons of the condition SettingsApplied. `docs/runbook.md` explains each. */
export const SETTINGS_REASONS = [
  'NoSettings',
  'SettingsInForce',
  'SettingsFailed',
  'SettingsRefused',
  'SettingsConflict',
  'ChangingSettings',
  'RebootPending',
  'CannotUnset',
] as const;

type Evaluation = ConditionReport<(typeof SETTINGS_REASONS)[number]>;

/** What needs a user comes first. */
export function evaluateSettings({ nodes, members, left, waitsFor }: GroupSettings): Evaluation {
  const isFalse = (reason: Evaluation['reason'], message: string): Evaluation => ({ status: 'False', reason, message });
  const { inForce, failed, conflicts, cannotUnset, rebooted, Refused, NeedsReboot } = nodes;
  const refused = left.find((one) => one.class === 'Refused');
  const others = members - inForce.length;
  const why = whyOthersWait(nodes.skipped, waitsFor);
  if (members === 0) return { status: 'True', reason: 'NoSettings', message: 'The group sets nothing on its hosts' };
  if (failed.length > 0) return isFalse('SettingsFailed', describeFailed(failed, cannotUnset));
  if (refused !== undefined)
    return isFalse(
      'SettingsRefused',
      `${refused.key} cannot be set on ${namesOf(Refused)}, so none is: ${refused.reason}`,
    );
  if (conflicts.length > 0) {
    const next = 'remove them there, or set spec.settingsConflicts to Force';
    return isFalse('SettingsConflict', `Users have set other values on ${namesOf(conflicts)}: ${next}`);
  }
  if (others > 0) {
    return isFalse('ChangingSettings', `${inForce.length} of ${members} hosts have the settings${why}`);
  }
  if (rebooted.length > 0) {
    const next =
      'change spec.settings, or set spec.rollout.resume of the BrupopConfig to the current time to reboot again';
    return isFalse(
      'RebootPending',
      `${namesOf(rebooted)} rebooted for settings that their hosts still report as pending; ${next}`,
    );
  }
  if (NeedsReboot.length > 0)
    return isFalse('RebootPending', `Some settings need a drain and a reboot of ${namesOf(NeedsReboot)}${why}`);
  if (cannotUnset.length > 0) {
    const why = 'their former value is unset or unknown, and the host API cannot remove a setting';
    const message = `Settings that are no longer requested stay on ${namesOf(cannotUnset)}: ${why}`;
    return { status: 'True', reason: 'CannotUnset', message };
  }
  return { status: 'True', reason: 'SettingsInForce', message: `All ${members} hosts have the settings` };
}

function describeFailed(failed: readonly string[], cannotUnset: readonly string[]): string {
  const isLost = failed.some((name) => cannotUnset.includes(name));
  const lost = isLost ? ', except for what had no value before' : '';
  const next = 'change spec.settings, or set spec.rollout.resume of the BrupopConfig to the current time to try again';
  return `The settings failed on ${namesOf(failed)}, of which the former ones are requested again${lost}; ${next}`;
}

function whyOthersWait(skipped: readonly string[], waitsFor: string | undefined): string {
  const others = waitsFor === undefined ? '' : `; the next one waits: ${waitsFor}`;
  if (skipped.length === 0) return others;
  return `${others}; skipped until a user removes the annotation ${SKIP_ANNOTATION}: ${namesOf(skipped)}`;
}

/** What needs a user. */
export function describeSettings(settings: GroupSettings): string[] {
  const { reason, message } = evaluateSettings(settings);
  return reason === 'SettingsFailed' || reason === 'SettingsRefused' ? [message] : [];
}
