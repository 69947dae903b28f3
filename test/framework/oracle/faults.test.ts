/** What the comparison is worth: faults planted in the frozen planner, each in another mechanism, are all found. */
import fc from 'fast-check';
import { firstDifference, frozenFleet } from './comparison.ts';
import type { Fault } from './wanted.ts';
import { storyOf, type Theme } from './events.ts';

/** Of the theme; most faults show in one of the first three. */
const STORIES = 40;
const Frozen = frozenFleet();

const FAULTS: readonly (readonly [what: string, theme: Theme, fault: Fault])[] = [
  [
    'a change of settings is proved at once',
    'nothing',
    { find: /var PROVING_MS = 6e4;/u, replace: 'var PROVING_MS = 0;' },
  ],
  [
    'canaries that start are not counted',
    'canaries',
    { find: /fleetState\.canaries\.reserve\(candidate, /u, replace: 'void (' },
  ],
  [
    'a soak is a minute too short',
    'canaries',
    { find: /(phase\d*\.since \+ rollout\d*\.soakMs)/u, replace: '$1 - 6e4' },
  ],
  [
    'one failure more is allowed',
    'failures',
    { find: /(isStopped: failures\d* >) (nodesAtOnce\(rollout\d*\.failureBudget)/u, replace: '$1 1 + $2' },
  ],
  ['a version may start a minute too early', 'versions', { find: /(= since \+ minimumAgeMs);/u, replace: '$1 - 6e4;' }],
  [
    'one node of a zone more may be unavailable',
    'limits',
    { find: /(zone\.unavailable - [^>]+) >= (\(this\.#concurrency\.maxPerZone)/u, replace: '$1 > $2' },
  ],
  [
    'a leader goes with the other members',
    'quorums',
    { find: /isLast: \(node\) => [^,]+,/u, replace: 'isLast: () => false,' },
  ],
  [
    'nodes that wait for canaries are tainted',
    'taints',
    { find: /(WaitingForCanary: \{ [^}]+), withoutTaint: true/u, replace: '$1' },
  ],
  [
    'a shadow without a Node is kept',
    'nothing',
    { find: /GARBAGE_COLLECTION_MS = 6e4/u, replace: 'GARBAGE_COLLECTION_MS = 6e9' },
  ],
  ['a wait for a user has no Event', 'quorums', { find: /\?\? waits;/u, replace: ';' }],
  [
    'a hook after the update does not run',
    'checks',
    { find: /(const runs\d* = hooks\d*\.after)\.map\(/u, replace: '$1.slice(1).map(' },
  ],
  [
    'a lost node is never out of service',
    'lostNodes',
    { find: /since \+ policy\.lostNode\.afterMs/u, replace: 'Infinity' },
  ],
  [
    'a pause interrupts nothing',
    'pauses',
    { find: /interrupt: paused\d* && pauseMode\d* === "Interrupt"/u, replace: 'interrupt: false' },
  ],
];

it.each(FAULTS)('%s', (_what, theme, fault) => {
  const Faulty = frozenFleet(fault);
  const told = fc.sample(storyOf(theme), { seed: 20_261_126, numRuns: STORIES });
  const index = told.findIndex((story) => firstDifference(story, new Frozen(), new Faulty()) !== undefined);
  expect(index).not.toBe(-1);
});
