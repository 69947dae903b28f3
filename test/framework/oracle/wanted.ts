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
  {
    what: 'a pin ends a rollback as well, and one that is not wanted any more ends where its version is pinned',
    changes: [
      { find: /(?<=\n {4}policy: policyFor\(pair, now\),)(?=\n {4}drain)/u, replace: '\n    rules: pair.policy,' },
      { find: /(?<=purpose === "Rollback" && !isRollbackWanted\(shadow2, )policy/u, replace: 'input.rules' },
      {
        find: /(?<=putBack\(input, input\.settings\.failure\);)(?=\n {2}if \(sameSettings)/u,
        replace:
          '\n  const { rules, node, now } = input;' +
          '\n  const endsRollback = shadow2.record.rollback?.isDone === false &&' +
          ' (!isManaged(node) || pendingRollback(shadow2, rules, now) === undefined);',
      },
      {
        find: /return isProved\(input\) \? (\{ \.\.\.idle\(input, "Configured"\), proves: true) \} : void 0;/u,
        replace:
          'return isProved(input) ? $1, endsRollback } :' +
          ' endsRollback ? { ...redated(shadow2.spec, now), outcome: "Configured", endsRollback } : void 0;',
      },
      {
        find: /const configured = idle\(input, "Configured"\);/u,
        replace: 'const configured = { ...idle(input, "Configured"), endsRollback };',
      },
      { find: /(?<=function endedRollback\(\{ )spec(?= \})/u, replace: 'endsRollback' },
      {
        find: /const \{ failed: failed2, previous, isDone = true \}( = shadow2\.record\.rollback \?\? \{\};\n {2}if \()isDone [^\n]+ previous\)/u,
        replace: 'const { failed: failed2 }$1!endsRollback)',
      },
      { find: /(?<=function describeSettings\(\{ spec)(?= \}, before)/u, replace: ', endsRollback' },
      {
        find: /(?= {2}const allow = [^\n]+\n {2}if \(allow === "None"\) return "The settings)/u,
        replace: '  if (endsRollback) return "The node no longer goes back to " + before.record.rollback?.previous;\n',
      },
    ],
  },
  {
    what: 'a reboot for settings of a group goes on when only settings of spec.versions change',
    changes: [
      {
        find: /(?<=purpose === "Settings" && !sameSettings\()requestedOf\(shadow2\), policy\.settings(?=\))/u,
        replace: 'ownSettings(requestedOf(shadow2)), ownSettings(policy.settings)',
      },
    ],
  },
  {
    what: 'a node that starts to go back to its previous version keeps the request to retry the one that failed',
    changes: [
      {
        find: /(?<=\(FOLLOWED\[outcome\] \?\? \[\]\)\.filter\(\(name\) => annotations\[name\] !== void 0)(?=\))/u,
        replace: ' && !(record9.rollback?.isDone === false && sameVersion(annotations[name], record9.rollback.failed))',
      },
    ],
  },
  {
    what: 'a success ends a failure with the version, whenever the clock said that it failed',
    changes: [
      { find: /(?<=function hasRecovered\(\{ code, since)(?= \}, shadow2\))/u, replace: ', version: version3' },
      {
        find: /(?<=\(shadow2\.updated\?\.at \?\? 0\) >= since)(?=\);)/u,
        replace: ' || shadow2.record.failed === undefined && sameVersion(shadow2.updated?.version, version3)',
      },
    ],
  },
  {
    what: 'Events say who pauses, whether a spec is Idle again, whether a host may have rebooted, and that a rollback ends',
    changes: [
      {
        find: /return policy\.interrupt && !mayHaveRebooted\(input\) \? (idle\(input, "Interrupted"\)) : void 0;/u,
        replace:
          'return policy.interrupt && !mayHaveRebooted(input) ?' +
          ' { ...$1, because: { reason: "Paused", message: describePause(policy, input.group) } } : void 0;',
      },
      { find: /(?<=Interrupted: \()(?=\) => \(\{)/u, replace: '{ because }' },
      {
        find: /'BrupopConfig "cluster" interrupts updates: [^']+'/u,
        replace: '"A pause interrupts this update, which is undone and starts again afterwards. " + because.message',
      },
      { find: /(?<=Repaired: \()_, \{ spec \}/u, replace: 'next, { spec }' },
      {
        find: /(?=`The spec of the shadow \(\$\{spec\.state\}\) was not written)/u,
        replace:
          'next.spec.state === spec.state ? "The spec of the shadow (" + spec.state + ") had no time, ' +
          'or one that is unreadable or still to come: it has the present one" : ',
      },
      { find: /(?<=Released: \()(?=\) => \(\{)/u, replace: '_, { state: state2 }' },
      {
        find: /(?="The node is no longer managed: the update ends before its reboot")/u,
        replace:
          'state2 === "Away" || state2 === "Proving" ? ' +
          '"The node is no longer managed: the update ends, and its host may have rebooted" : ',
      },
      {
        find: /(?=`The configuration no longer allows \$\{before)/u,
        replace:
          'before.purpose === "Rollback" ? ' +
          '"The configuration no longer asks for the return to " + before.spec.version + ": it is undone" : ',
      },
    ],
  },
  {
    what: 'the Job of a check after the update is not shown as NodeUnhealthy',
    changes: [
      {
        find: /return stopped\((?=`Runs \$\{version3\}, and is not healthy yet)/u,
        replace:
          'if (/^the check \\S+ (?:\\(Job|needs Jobs)/u.test(problem)) return stopped(`Runs ${version3}; ${problem}`, "Job");' +
          '\n  return stopped(',
      },
    ],
  },
  {
    what: 'a drain that waits on a Node that is not Ready is shown as that',
    changes: [
      {
        find: /(?<=function blockedDrain2\(found, block2)\) \{\n {2}if \(block2 === void 0\) return found;\n {2}(const [^\n]+)/u,
        replace:
          ', node) {\n  if (block2 === void 0) return found;\n  $1\n' +
          '  if (!node.ready) return stopped(`${found.message}. The Node is not Ready; its drain last waited for ' +
          'the pod ${pod} (${reason2}); status.drain lists all`, "NodeNotReady");',
      },
      { find: /(?<=updatingCondition\(input, problem, lookUp\), block2)(?=\);)/u, replace: ', input.node' },
    ],
  },
  {
    what: 'the pods of an updated node are listed at the end of watchFor in any case, and again when one is not Ready then',
    changes: [
      {
        find: /return last >= end \|\| listedAt\.length > 1 \? Infinity : Math\.min\(end, nextAt\);/u,
        replace:
          'const late = listedAt.filter((one) => one >= end);\n' +
          '  if ((late.length > 0 ? late : listedAt).length === 1 && Number.isFinite(nextAt)) return nextAt;\n' +
          '  return late.length > 0 ? Infinity : end;',
      },
    ],
  },
  {
    what: 'settings whose grant ended early prove nothing at once, and those that broke a Node can be corrected',
    changes: [
      { find: /state: restingState\(shadow2\)(?= \})/u, replace: '...settingsAtRest(input)' },
      {
        find: /function restingState\(shadow2\) \{\n {2}(const [^\n]+)\n {2}return (.+) \? "classified" : "inForce";\n\}/u,
        replace:
          'function settingsAtRest(input) {\n  const { node, shadow: shadow2, now } = input;\n  $1\n' +
          '  if ($2) return { state: "classified" };\n' +
          '  const at2 = Math.max(input.settingsSince ?? 0, node.readySince ?? 0) + PROVING_MS;\n' +
          '  if (unprovedIn(shadow2).length === 0 || node.ready && now.reached(at2)) return { state: "inForce" };\n' +
          '  return { state: "inForce", isUnproved: true, ...node.ready && { changesAt: at2 } };\n}\n' +
          'function unprovedIn({ status, record }) {\n  const proved = new Map(record.settingsProved ?? []);\n' +
          '  const isProved = ({ key, value }) => UPDATER_SETTINGS.includes(key) || proved.get(key) === value;\n' +
          '  return (status?.settings?.records ?? []).filter((one) => !isProved(one));\n}\n' +
          'function replacesUnproved({ status, record }) {\n  const { pending = [] } = status?.settings ?? {};\n' +
          '  return unprovedIn({ status, record }).some(({ key }) => pending.some((one) => one.key === key));\n}\n' +
          'function repairs(shadow2, facts) {\n  return facts?.state !== "failed" && replacesUnproved(shadow2);\n}',
      },
      {
        find: /(?<=state: state2, conflicts) \} \}\) => \(state2 === "inForce" \|\| state2 === "none"\)/u,
        replace: ', isUnproved } }) => (state2 === "none" || state2 === "inForce" && isUnproved !== true)',
      },
      {
        find: /(?<=due)(?=\.toSorted\()/u,
        replace: '.toSorted((a, b) => Number(b.node.ready) - Number(a.node.ready))',
      },
      {
        find: /function ready\(\{ node \}\) \{\n {2}return node\.ready(?= \?)/u,
        replace: 'function ready({ node, shadow: shadow2 }) {\n  return node.ready || replacesUnproved(shadow2)',
      },
      { find: /(?<=agentCurrent\(input\) \?\? \(node\.ready)(?= \?)/u, replace: ' || input.isRepair === true' },
      {
        find: /(?<=version: version3, isReboot,)(?= isRollback, isRequested)/u,
        replace: ' isRepair: isReboot && repairs(shadow2, settings2),',
      },
      {
        find: /(?<=isReboot: purpose === "Settings",)/u,
        replace: ' isRepair: purpose === "Settings" && repairs(pair.shadow, fleetState.settings.get(pair.name)),',
      },
    ],
  },
  {
    what: 'settings that an agent sets late fail with a Node that goes down then',
    changes: [
      { find: /(?<=function failureOf2\(\{ node, shadow: shadow2,)(?= now)/u, replace: ' settingsSince = 0,' },
      { find: /(?<=downSince\(node\) <= )grantedAt(?= \+)/u, replace: 'Math.max(grantedAt, settingsSince)' },
    ],
  },
  {
    what: 'a Node that is unavailable already does not count against itself',
    changes: [
      { find: /(?<=var Capacity = class \{\n)/u, replace: '  #counted = new Set();\n' },
      {
        find: /this\.#count\(node, 1, updating2\);/u,
        replace: 'this.#count(node, this.#counted.has(node) ? 0 : 1, updating2 ? 1 : 0);\n    this.#counted.add(node);',
      },
      {
        find: /this\.#count\(node, -1, true\);/u,
        replace: 'this.#count(node, -1, -1);\n    this.#counted.delete(node);',
      },
      {
        find: /(?<=if \(this\.#fleet\.unavailable)(?= >= this\.#maxUnavailable)/u,
        replace: ' - (this.#counted.has(node) ? 1 : 0)',
      },
      { find: /(?<=if \(zone\.unavailable)(?= >= )/u, replace: ' - (this.#counted.has(node) ? 1 : 0)' },
      { find: /if \(updating2\) count2\.updating \+= by;/u, replace: 'count2.updating += updating2;' },
    ],
  },
  {
    what: 'a rollout goes on while its nodes have to confirm a spec',
    changes: [
      {
        find: /(?<=if \(!counted\.some\(needsUpdate\))(?=\) return void 0;)/u,
        replace:
          ' && !(before?.progress !== void 0 && counted.some((one) => one.phase === "waiting" && one.pending === true &&' +
          ' one.progressing === void 0))',
      },
    ],
  },
  {
    what: 'the field of spec.drain that keeps a pod may be one of the group of the node',
    changes: [
      {
        find: /BrupopConfig "cluster" says Block in spec\.drain\.\$\{setting2\}/u,
        replace: 'spec.drain.${setting2} is Block',
      },
    ],
  },
  {
    what: 'a Node that other settings may repair is rebooted for them before an update, and does not wait for its pods',
    changes: [
      {
        find: /(?<=phase: phase2, \.\.\.startOf\(input, \{ change, status, version: )version3(?= \}\))/u,
        replace: 'isMendedFirst(input) ? running : version3',
      },
      {
        find: /(?=function problemOf5\()/u,
        replace:
          'function isMendedFirst({ node, shadow: shadow2, policy, settings: settings2, now }) {\n' +
          '  const mayStay = isWanted(shadow2.status?.current_version ?? "", policy.versions);\n' +
          '  if (node.ready || !mayStay || pendingRollback(shadow2, policy, now) !== void 0) return false;\n' +
          '  return needsReboot(settings2) && repairs(shadow2, settings2);\n}\n',
      },
      {
        find: /(?<=if \()(?=podsBefore === "Ignored" \|\| unhealthyNodes !== "Wait")/u,
        replace: 'input.isRepair === true && !input.node.ready || ',
      },
    ],
  },
  {
    what: 'a wrong clock adds nothing to the time without progress',
    changes: [
      {
        find: /const \{ now \} = fleetState;(?=\n {2}const \{ before, policy, groups, counted \})/u,
        replace:
          'const { clockSkewMs = 0 } = fleetState;\n' +
          '  const now = isClockWrong(clockSkewMs) ? fleetState.now - clockSkewMs : fleetState.now;',
      },
    ],
  },
];
