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
];
