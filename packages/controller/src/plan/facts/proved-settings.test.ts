/** What is set again when settings fail. */
import { aManagedNode, aShadow } from '../../testing/objects.ts';
import { provedAtChange, restored } from './proved-settings.ts';

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
