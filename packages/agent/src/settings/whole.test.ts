import { completed, neededWith } from './whole.ts';

const LIMIT = 'settings.oci-defaults.resource-limits.max-open-files';

it('names what the host needs with a setting, once', () => {
  expect(neededWith([`${LIMIT}.hard-limit`, `${LIMIT}.soft-limit`, 'settings.motd'])).toEqual([
    `${LIMIT}.hard-limit`,
    `${LIMIT}.soft-limit`,
  ]);
  expect(neededWith(['settings.kernel.hugepages.static."1Gi".count'])).toEqual([
    'settings.kernel.hugepages.static.essential',
  ]);
});

it('needs nothing with another setting, nor with the whole object as one value', () => {
  expect(neededWith(['settings.kernel.hugepages.transparent.enabled', LIMIT])).toEqual([]);
});

it('completes changes with the values of the host, and none of them with another one', () => {
  const live = new Map([
    [`${LIMIT}.hard-limit`, '1'],
    [`${LIMIT}.soft-limit`, '2'],
    ['settings.motd', '"a"'],
  ]);
  const changes = new Map([[`${LIMIT}.hard-limit`, '3']]);
  expect(Object.fromEntries(completed(changes, live))).toEqual({
    [`${LIMIT}.hard-limit`]: '3',
    [`${LIMIT}.soft-limit`]: '2',
  });
  expect(completed(changes, new Map())).toEqual(changes);
});
