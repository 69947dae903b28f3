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
    what: 'the defaults of spec.silences are recorded with the others (docs/adr/0076)',
    changes: [
      {
        find: /var DEFAULT_SPEC = defaultsOf\(SPEC\);/u,
        replace:
          "var DEFAULT_SPEC = { ...defaultsOf(SPEC), silences: { addresses: [], allowHTTP: false, labels: [{ name: 'node' }], matchers: [] } };",
      },
    ],
  },
  {
    what: 'whether there are more specs than one reconcile writes depends on the time that they take (docs/adr/0080)',
    changes: [{ find: /,\n {4}moreSpecs\n/u, replace: '\n' }],
  },
  {
    what: 'the text of a freeze says that older versions are held as well only if they are',
    changes: [
      { find: /(?<=: \$\{describeFrozen\(own2)\.version/u, replace: '' },
      { find: /(?<=FailureBudgetExceeded", describeFrozen\(first)\.version/u, replace: '' },
      { find: /(?<=message: describeFrozen\(found)\.version/u, replace: '' },
      { find: /(?<=function describeFrozen\()version3/u, replace: '{ version: version3, holdsOlder }' },
      {
        find: /(?<=No update to \$\{version3\}) or an older version/u,
        replace: "${holdsOlder ? ' or an older version' : ''}",
      },
    ],
  },
];
