/** Differences from the frozen planner that are wanted, each as a change of its text. */

/** A change of the text of the planner that was frozen. */
export interface Fault {
  readonly find: RegExp;
  readonly replace: string;
}

/** A difference that is wanted, and what it changes in the text of the planner. */
export interface Wanted {
  readonly what: string;
  readonly changes: readonly Fault[];
}

/** What has changed on purpose since the planner was frozen. */
export const WANTED: readonly Wanted[] = [
  {
    what: 'groups have the conditions Paused and Frozen',
    changes: [
      {
        find: /Ready: groupReady,\n/u,
        replace: `Ready: groupReady,
  Paused: ({ policy: { paused: is, pauseReason: why } }) => is
    ? isTrue("Paused", 'BrupopConfig "cluster" pauses all updates' + (why === void 0 ? "" : ": " + why))
    : isFalse("NotPaused", "Updates may start"),
  Frozen: ({ fleetFrozen: [one] }) => one
    ? isTrue("FailureBudgetExceeded", "Too many nodes failed with " + one.version + '; see the condition Frozen of BrupopConfig "cluster"')
    : isFalse("NotFrozen", "No version failed on too many nodes"),
`,
      },
      {
        find: /group: group2,\n {6}awaits: groupOrder/u,
        replace: 'group: group2,\n      fleetFrozen: fleetState.frozen,\n      awaits: groupOrder',
      },
    ],
  },
];
