/** More of the differences in `wanted.ts`, on top of them. */
import type { Wanted } from './wanted.ts';

const UPDATING = '  get updating() {\n    return this.#fleet.updating;\n  }\n';

export const MORE_WANTED: readonly Wanted[] = [
  {
    what: 'a retry of the version that a host is offered retries the reboot for settings that goes before it',
    changes: [
      {
        find: /function isRetryRequested\(\{ metadata: \{ annotations = \{\} \} \}, version3\) \{\n {2}return ([^;]+);/u,
        replace:
          'function isRetryRequested({ metadata: { annotations = {} }, status }, version3) {\n' +
          '  return $1 || sameVersion(version3, status?.current_version) &&' +
          ' sameVersion(annotations[RETRY_ANNOTATION], status?.target_version);',
      },
    ],
  },
  {
    what: 'a request of an update now waits for a reboot for settings that goes before the update',
    changes: [
      { find: /(?<=function annotationsOf\(\{\n)(?= {2}shadow: shadow2,)/u, replace: '  spec: spec9,\n' },
      {
        find: /record9\.rollback\?\.isDone === false && sameVersion\(annotations\[name\], record9\.rollback\.failed\)/u,
        replace: '(name === UPDATE_NOW_ANNOTATION ? !sameVersion(annotations[name], spec9.version) : $&)',
      },
      {
        find: /(?<=if \(isUnderWay\(shadow2\))(?=\) return `An update to \$\{shadow2\.spec\.version\} is under way, so none)/u,
        replace: ' && shadow2.purpose !== "Settings"',
      },
    ],
  },
  {
    what: 'a change that waits for a slot is in progress only while a node that is well holds or gets one',
    changes: [
      { find: /(?<=function unconfirmedOf\(decisions, \{ waiting: waiting3 \})(?=\) \{)/u, replace: ', ofSlots' },
      { find: /(?<=map\(\(decision\) => paceOf\(decision, waiting3)(?=\)\)\);)/u, replace: ', ofSlots' },
      { find: /(?<=paceOf\(decision, waiting3)(?=\) === "stuck")/u, replace: ', ofSlots' },
      {
        find: /(?<=isMoving: paces\.has\("moves"\),\n {4}stuck)(?=\n)/u,
        replace:
          ',\n    heldUp: pending2.filter((one) => paceOf(one, waiting3, ofSlots) === "heldUp")' +
          '.map((one) => (blockOf2(one, waiting3) ?? one.progressing).message)[0]',
      },
      { find: /(?<=function paceOf\(decision, waiting3)(?=\) \{)/u, replace: ', ofSlots' },
      {
        find: /(?<=return paceWith\(reasonOf\(decision, waiting3\))(?=\);)/u,
        replace: ', ofSlots === "heldUp" && blockOf2(decision, waiting3)?.byStuck !== true ? "waits" : ofSlots',
      },
      {
        find: /(?<=\{describeStuck\(stuck\.map\([^\n]+\)\}`)(?= \};\n\}\nfunction describeStuck)/u,
        replace: ', byStuck: true',
      },
      {
        find: /(?<=blocked\(`not Ready or being deleted: \$\{down\}`)(?=\))/u,
        replace: ', others.some(({ metadata: { name } }) => busy.has(name))',
      },
      { find: /(?<=blocked\(`updating: \$\{updating2\}`)(?=\))/u, replace: ', true' },
      { find: /(?<=function blocked\(why)(?=\) \{)/u, replace: ', byStuck' },
      { find: /(?<=reason: "WaitingForControlPlane", message)(?= \})/u, replace: ', byStuck' },
      { find: /(?<=function paceWith\(reason2)(?=\) \{)/u, replace: ', ofSlots' },
      {
        find: /if \(passes === "capacity" \|\| MOVING\.has\(reason2\)\) return "moves";/u,
        replace: 'if (MOVING.has(reason2)) return "moves";\n  if (passes === "capacity") return ofSlots;',
      },
      { find: /(?<=unconfirmedOf\(members2, grants)(?=\))/u, replace: ', ofSlots' },
      { find: /(?<=unconfirmedOf\(counted, grants)(?=\))/u, replace: ', ofSlots' },
      {
        find: /(?<= {2}grants,\n)(?= {2}metadata: metadata13\n\}\) \{\n {2}const \{ groups, groupOrder)/u,
        replace: '  ofSlots,\n',
      },
      {
        find: /(?<=groupRollouts\(fleetState, counted, \{ forecast, stuckNodes, lost, grants)(?=, metadata)/u,
        replace: ', ofSlots',
      },
      {
        find: /(?<=const stuckNodes = stuck\.map\(\(\{ metadata: \{ name \} \}\) => name\);\n)(?= {2}return \{\n {4}conditions: nodeConditionsOf)/u,
        replace:
          '  const isTaken = countsOf(counted).updating + grants.granted.size > 0 ||' +
          ' fleetState.capacity.updating > stuck.length;\n' +
          '  const ofSlots = isTaken ? "moves" : stuck.length > 0 ? "heldUp" : "waits";\n',
      },
      { find: /(?= {2}reserve\(node, updating2\) \{)/u, replace: UPDATING },
      { find: /(?= {2}reserve\(member, updating2\) \{)/u, replace: UPDATING },
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
  {
    what: 'commands in texts show what they are to show: describe names the mistake of a group, and pods are in a namespace',
    changes: [
      { find: /(?<=have a mistake: \$\{namesOf\(invalid\)\}; see kubectl )get/u, replace: 'describe' },
      { find: /(?<=\(\$\{reason2\}\): \$\{namesOf\(names\)\}; see kubectl )get/u, replace: 'describe' },
      { find: /(?<=Look at their pods with kubectl get pods )(?=-o wide)/u, replace: '-n NAMESPACE ' },
    ],
  },
  {
    what: 'the text about a pod and its disruption budget is a sentence',
    changes: [
      {
        find: /its (?<budget>disruption budget \$\{budget\.metadata\.name\}) (?=cannot be read)/u,
        replace: 'is protected by its $<budget>, which ',
      },
      {
        find: /its (?<budget>disruption budget \$\{budget\.metadata\.name\}) (?=allows no disruption)/u,
        replace: 'is protected by its $<budget>, which ',
      },
    ],
  },
  {
    what: 'a node whose pods block it gives way while they are listed again',
    changes: [
      {
        find: /(?=function admit\(candidates, fleetState)/u,
        replace:
          'function isKeptByPods(input, again) {\n' +
          '  const { block, mayOpen } = input.drain();\n' +
          '  if (block !== void 0 && !mayOpen) return true;\n' +
          '  return !input.isRollback && podsHealthy({ ...input, capacity: again }) !== void 0;\n}\n',
      },
      {
        find: /(?<=if \(blocked3 === void 0 \|\| )keepsPosition \|\| blocked3\.isUnknown === true(?=\) reserve\()/u,
        replace:
          '!(blocked3.lookUp === true && isKeptByPods(input, blocked3)) &&' +
          ' (keepsPosition || blocked3.isUnknown === true)',
      },
    ],
  },
  {
    what: 'the record of a reboot for other settings than those that are granted ends, unless they have failed',
    changes: [
      {
        find: /(?<=isGrant \? provedAtGrant\(shadow2, requestedOf\(\{ spec \}\)\) : provedAtChange\(shadow2\))(?= \};)/u,
        replace:
          ', ...isGrant && ![hashOfSettings(requestedOf({ spec })), shadow2.record.settingsFailed?.hash]' +
          '.includes(shadow2.record.settingsRebooted?.hash) && { settingsRebooted: void 0 }',
      },
    ],
  },
  {
    what: 'a group with a mistake keeps its drain settings, unless the mistake is in these',
    changes: [
      {
        find: /(?<=return \{ \.\.\.config, )(?=maintenance, calendar, versions, paused: paused3)/u,
        replace:
          '...readDrainSettings(readable2.source).problems.length === 0 &&' +
          ' { drain: readable2.drain, drainMs: readable2.drainMs }, ',
      },
    ],
  },
  {
    what: 'a workload counts as a failure of its node only if a later list shows it, or it was counted before',
    changes: [
      {
        find: /(?<=const failed2 = failedNodes\(snapshot, \{ )(?=selected: selected2, versions, isHealthUnknown)/u,
        replace: 'stillFails: (one) => observation.stillFails(one), ',
      },
      {
        find: /(?= {2}const failed2 = failedNodes\(snapshot, )/u,
        replace: '  const observation = new Observation(snapshot, asked, now);\n',
      },
      { find: / {4}observation: new Observation\(snapshot, asked, now\),/u, replace: '    observation,' },
      { find: /(?<=function failedNodes\([^\n]+ isHealthUnknown, )(?=now \}\))/u, replace: 'stillFails, ' },
      {
        find: /(?<=const input = \{ view, isHealthUnknown, )(?=ownNamespace, fleet: policy, now \};)/u,
        replace: 'stillFails, ',
      },
      { find: /(?<=\?\? failureOfWorkloads\(managedNode, )(?=input\);)/u, replace: 'known, ' },
      {
        find: /(?<=function failureOfWorkloads\(managedNode, )\{ ownNamespace, fleet, now \}/u,
        replace: 'known, { ownNamespace, fleet, stillFails, now }',
      },
      {
        find: /const found = (suspectsOf\(managedNode, now, fleet\)\.)find\(\n {4}(?<counts>\(\{ workload, at: at2 \}\) => [^\n]+)\n {2}\);/u,
        replace:
          'const isKnown = (one) => known.some((other) => isSame3(other, { name, version: one.version }));\n' +
          '  const found = $1filter($<counts>).find((one) => stillFails(one) ?? isKnown(one));',
      },
      {
        find: /(?= {2}\/\*\* What is to be recorded\. All pods are listed before a suspect is recorded\. \*\/)/u,
        replace:
          '  stillFails({ node, workload, at }) {\n' +
          '    const { suspects, listedAt = [] } = this.#observed.find(({ pair }) => pair.name === node) ?? {};\n' +
          '    if (suspects === void 0 || (listedAt.at(-1) ?? 0) < at + 1e3) return void 0;\n' +
          '    return suspects.some((one) => one.workload === workload);\n  }\n',
      },
    ],
  },
  {
    what: 'while the pods on a node are listed once more after its update, its health is not known',
    changes: [
      {
        find: /(?<=!isRecent\(seenAt, now\) \? \{ lookUp: true)(?= \} : \{ healthyAt \};)/u,
        replace: ', isUnknown: true',
      },
    ],
  },
  {
    what: 'a host that is asked to reboot has no more time than for that, whatever its drain has left',
    changes: [
      {
        find: /return (\(drainStart > since && drainStart < since \+ limit \? drainStart : since\) \+ limit);/u,
        replace:
          'const ended = drainEnd(shadow2);\n' +
          '  const asked = ended === void 0 ? void 0 : latestTime([parseTime(rebootOf(shadow2)?.startTime)], now);\n' +
          '  if (asked === void 0) return $1;\n' +
          '  return Math.min($1, Math.max(asked, ended, suspendedUntil) + returnLimitMs(shadow2.spec, policy));',
      },
      {
        find: /(?=function drainingSince\()/u,
        replace:
          'function returnLimitMs(spec, { timeouts }) {\n' +
          '  return (spec.timeoutSeconds == null ? timeouts.rebootMs : spec.timeoutSeconds * 1e3) + 3e5;\n}\n',
      },
      {
        find: /const minutes2 = Math\.round\(limitMs\(shadow2\.spec, policy\) \/ MINUTE_MS\);/u,
        replace:
          'const isReboot2 = rebootOf(shadow2) !== void 0 && drainEnd(shadow2) !== void 0;\n' +
          '  const limit2 = isReboot2 ? returnLimitMs(shadow2.spec, policy) : limitMs(shadow2.spec, policy);\n' +
          '  const minutes2 = Math.round(limit2 / MINUTE_MS);',
      },
      {
        find: /The drain and reboot into (?=\$\{version3\} had no result)/u,
        replace: 'The ${isReboot2 ? "reboot" : "drain and reboot"} into ',
      },
    ],
  },
  {
    what: 'no comma follows the command to describe a Job',
    changes: [{ find: /(kubectl describe job [^,`]+), and its logs/u, replace: 'its logs and $1' }],
  },
  {
    what: 'former values whose grant has ended, before they were restored after a failure, get another one',
    changes: [
      {
        find: /(?<=function afterFailure\(input, hash2, at2\) \{\n {2}return \{\n {4}state: "failed",)(?=\n)/u,
        replace:
          '\n    ...answers(input.shadow) && needsMore(input.shadow) &&' +
          ' allowedAtReboot(reportedOf(input.shadow)) === "None" && { isWithheld: true },',
      },
      { find: /(?<=function grantable\(\{ state: state2, pending: pending2)(?= \}\))/u, replace: ', isWithheld' },
      { find: /(?<=if \()state2 !== "classified"(?= \|\| classes\.has\("Refused"\)\))/u, replace: '$& && !isWithheld' },
    ],
  },
];
