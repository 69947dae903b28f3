/** What is set again when settings fail. */
import { SETTINGS_PROVED_ANNOTATION } from '@brupop/shared/api/names';
import { secretHash } from '@brupop/shared/api/secret-settings';
import type { Setting } from '@brupop/shared/api/shadow';
import { aManagedNode, aShadow } from '../../testing/objects.ts';
import { restored } from './proved-settings.ts';

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
    const record = JSON.stringify([
      [PODS, '90'],
      [KEY, secretHash(KEY, secret)],
    ]);
    return restored(policy, aShadow({ annotations: { [SETTINGS_PROVED_ANNOTATION]: record } })).settings;
  };
  expect(provedWith('"1"')).toEqual([
    { key: PODS, value: '90', owner },
    { key: KEY, value: secretHash(KEY, '"1"'), secretKeyRef, owner },
  ]);
  expect(provedWith('"0"')[1]).toEqual({ key: KEY, value: secretHash(KEY, '"0"'), owner });
});
