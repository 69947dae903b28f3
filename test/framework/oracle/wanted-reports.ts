/** Differences from the frozen planner that are wanted of what it reports: more of those in `wanted.ts`. */
import type { Wanted } from './wanted.ts';

export const WANTED_REPORTS: readonly Wanted[] = [
  {
    what: 'a change that waits for a slot of a node that needs a user is not in progress',
    changes: [
      { find: /(?<=function unconfirmedOf\(decisions, \{ waiting: waiting3 \})(?=\) \{)/u, replace: ', areSlotsStuck' },
      {
        find: /(?=const paces = new Set\(pending2\.map)/u,
        replace:
          'const isHeldUp = (one) => areSlotsStuck && one.change === void 0 && one.phase !== "updating" &&' +
          ' blockOf2(one, waiting3)?.isUnknown !== true && reasonOf(one, waiting3) !== void 0 &&' +
          ' traitsOf(reasonOf(one, waiting3)).passes === "capacity";\n  ',
      },
      {
        find: /(?<=const paces = new Set\(pending2)(?=\.map)/u,
        replace: '.filter((one) => !isHeldUp(one))',
      },
      {
        find: /(?<=isMoving: paces\.has\("moves"\),\n {4}stuck)(?=\n)/u,
        replace:
          ',\n    heldUp: pending2.filter(isHeldUp).map((one) => (blockOf2(one, waiting3) ?? one.progressing).message)[0]',
      },
      { find: /(?<=unconfirmedOf\(members2, grants)(?=\))/u, replace: ', areSlotsStuck' },
      { find: /(?<=unconfirmedOf\(counted, grants)(?=\))/u, replace: ', areSlotsStuck' },
      {
        find: /(?<= {2}grants,\n)(?= {2}metadata: metadata13\n\}\) \{\n {2}const \{ groups, groupOrder)/u,
        replace: '  areSlotsStuck,\n',
      },
      {
        find: /(?<=groupRollouts\(fleetState, counted, \{ forecast, stuckNodes, lost, grants)(?=, metadata)/u,
        replace: ', areSlotsStuck',
      },
      {
        find: /(?<=const stuckNodes = stuck\.map\(\(\{ metadata: \{ name \} \}\) => name\);\n)(?= {2}return \{\n {4}conditions: nodeConditionsOf)/u,
        replace:
          '  const areSlotsStuck = stuck.length > 0 && fleetState.slots.size <= stuck.length &&' +
          ' countsOf(counted).updating + grants.granted.size === 0;\n',
      },
      {
        find: /(?<=function reconciliationOf\(\{ unconfirmed: unconfirmed2, isMoving, stuck)(?= \})/u,
        replace: ', heldUp',
      },
      {
        find: /(?=if \(isMoving \|\| !isWritten && stuck\.size === 0\))/u,
        replace: 'const isHeldUp = stuck.size === 0 && heldUp !== void 0;\n  ',
      },
      { find: /(?<=if \(isMoving \|\| !isWritten && stuck\.size === 0)(?=\))/u, replace: ' && !isHeldUp' },
      { find: /if \(stuck\.size === 0\) return \{\};/u, replace: 'if (stuck.size === 0 && !isHeldUp) return {};' },
      {
        find: /(?<=const why = )(?=`\$\{message\}, of which need attention)/u,
        replace: 'isHeldUp ? `${message}: ${heldUp}` : ',
      },
    ],
  },
];
