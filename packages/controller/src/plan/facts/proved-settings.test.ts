/** What is set again when settings fail. */
import { secretHash } from '@brupop/shared/api/secret-settings';
import type { Setting } from '@brupop/shared/api/shadow';
import { aManagedNode, aShadow } from '../../testing/objects.ts';
import { provedAtChange, restored } from './proved-settings.ts';

const [PODS, KEY] = ['settings.kubernetes.max-pods', 'settings.aws.config'];
const owner = 'BottlerocketNodeGroup/gpu';
const secretKeyRef = { name: 'registry', key: 'config' };

it('a secret that was proved stays, with the Secret that has its value, if one does', () => {
  const failed = [
    { key: PODS, value: '110', owner },
    { key: KEY, value: secretHash(KEY, '"1"'), secretKeyRef, owner },
  ];
  const policy = { ...aManagedNode('a').policy, settings: failed };
  const provedWith = (secret: string): readonly Setting[] => {
    const settingsProved: [string, string][] = [
      [PODS, '90'],
      [KEY, secretHash(KEY, secret)],
    ];
    return restored(policy, aShadow({ record: { settingsProved } })).settings;
  };
  expect(provedWith('"1"')).toEqual([
    { key: PODS, value: '90', owner },
    { key: KEY, value: secretHash(KEY, '"1"'), secretKeyRef, owner },
  ]);
  expect(provedWith('"0"')[1]).toEqual({ key: KEY, value: secretHash(KEY, '"0"'), owner });
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
