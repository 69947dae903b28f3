import { isPair } from '../../cluster/snapshot.ts';
import { ago, aManagedNode, aShadow, MINUTE, NOW } from '../../testing/objects.ts';
import { Moment } from '../../kept/moment.ts';
import { isProved, provedAtChange, restored } from './settings.ts';

const PODS = 'settings.kubernetes.max-pods';
const owner = 'BottlerocketNodeGroup/gpu';

it('what was proved is requested again, unless it is what has failed', () => {
  const policy = { ...aManagedNode('a').policy, settings: [{ key: PODS, value: '110', owner }] };
  const restoredWith = (value: string) =>
    restored(policy, aShadow({ record: { settingsProved: [[PODS, value]] } })).settings;
  expect(restoredWith('90')).toEqual([{ key: PODS, value: '90', owner }]);
  expect(restoredWith('110')).toEqual([]);
});

it('what a user has replaced since the group dropped it ends with the next settings, what is still to be restored stays', () => {
  const [motd, pods] = [
    { key: 'settings.motd', value: '"a"', owner },
    { key: PODS, value: '90', owner },
  ];
  const proved = [pods, motd].map((one): [string, string] => [one.key, one.value]);
  const record = { settingsProved: proved };
  const spec = { settings: { leaves: [motd], allow: 'None' as const } };
  const replaced = aShadow({ record, spec, status: { settings: { records: [motd] } } });
  expect(provedAtChange(replaced)).toEqual([['settings.motd', '"a"']]);
  const whole = aShadow({ record, spec, status: { settings: { records: [motd, pods] } } });
  expect(provedAtChange(whole)).toEqual(proved);
});

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
