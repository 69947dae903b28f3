import { ago, aManagedNode, MINUTE, NOW } from '../../testing/objects.ts';
import { isPair } from '../../cluster/snapshot.ts';
import { isProved } from './settings.ts';
import { Moment } from './moment.ts';

/** A host that confirms what was granted four minutes ago. */
function isProvedIf(seen: { settingsSince?: number }, readySince = ago(60 * MINUTE)): boolean {
  const spec = { settings: { leaves: [], allow: 'Live' as const }, state_transition_timestamp: ago(4 * MINUTE) };
  const found = { ...aManagedNode('a', { readySince }, { spec }), ...seen };
  if (!isPair(found)) throw new Error('expected a Node and its shadow');
  return isProved({ ...found, now: new Moment(NOW) });
}

describe('a change of settings is proved a minute after', () => {
  it.each([
    [59, false],
    [60, true],
  ])('the settings were seen in force: %s s', (seconds, expected) => {
    expect(isProvedIf({ settingsSince: NOW - seconds * 1_000 })).toBe(expected);
  });

  it.each([
    [59, false],
    [60, true],
  ])('the node became Ready: %s s', (seconds, expected) => {
    expect(isProvedIf({}, ago(seconds * 1_000))).toBe(expected);
  });
});
