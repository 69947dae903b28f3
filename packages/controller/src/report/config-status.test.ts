import { MINUTE, NOW } from '../testing/objects.ts';
import type { FrozenVersion } from '../plan/facts/freezes.ts';
import { laneOf } from './config-status.ts';

function recordedOf(frozen: readonly FrozenVersion[]): string[] {
  const { frozenVersions = [] } = laneOf({ frozen, canaries: [], progress: undefined });
  return frozenVersions.map(({ version }) => version);
}

test('of too many frozen versions those are recorded first that nodes know which did not fail, then the earliest', () => {
  const real = { version: '1.21.0', holdsOlder: true, since: NOW };
  const invented = Array.from({ length: 25 }, (_, at) => ({
    version: `9.${at}.0`,
    holdsOlder: false,
    since: NOW - (25 - at) * MINUTE,
  }));
  const recorded = recordedOf([...invented.toReversed(), real]);
  const earliest = Array.from({ length: 19 }, (_, at) => `9.${18 - at}.0`);
  expect(recorded).toEqual([...earliest, '1.21.0']);
  expect(recordedOf([invented[1], real, invented[0]].flatMap((one) => one ?? []))).toEqual([
    '9.1.0',
    '1.21.0',
    '9.0.0',
  ]);
});
