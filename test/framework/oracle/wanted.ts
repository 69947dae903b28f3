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
    what: 'the advice after WindowTooShort names the one annotation that is left',
    changes: [
      {
        find: /remove the annotations update-seconds and deferred-after-seconds \(brupop\.bottlerocket\.aws\/\) from their BottlerocketShadows/u,
        replace:
          'remove the annotation brupop.bottlerocket.aws/record from their BottlerocketShadows while these nodes are at rest',
      },
    ],
  },
  {
    what: 'a pin to an older version has canaries and approvals',
    changes: [
      {
        find: /function runs\(\{ shadow: shadow2 \}, version2\) \{[^}]*\}/u,
        replace: `function runs({ shadow: shadow2, policy }, version2) {
          const running = shadow2.status?.current_version;
          return running === void 0 || isAtOrBeyond(running, version2, policy.versions);
        }
        function isAtOrBeyond(running, version2, { pin }) {
          return sameVersion(running, version2) || isLater(running, version2) && !sameVersion(pin, version2);
        }`,
      },
      {
        find: /if \(needed === 0\)\s+return `(spec\.rollout\.canary\.nodeSelector of BrupopConfig "cluster" selects no node [^`]*)`;/u,
        replace:
          'if (needed === 0) return hasSelector ? `$1` : `No node can be a canary for ${version2}, so no node starts`;',
      },
    ],
  },
  {
    what: 'a reboot for settings is no canary, and no success of a version',
    changes: [
      {
        find: /if \(isRollingBack\(shadow2\)\) return succeeded2;/u,
        replace: 'if (isRollingBack(shadow2) || isReboot(shadow2)) return succeeded2;',
      },
      {
        find: /function success\(\{ metadata: \{ annotations = \{\} \} \}\) \{[^}]*?\.split\("="\);/u,
        replace: `function latestUpdate({ metadata: { annotations = {} } }) {
          const succeeded = annotations[UPDATE_SUCCEEDED_ANNOTATION];
          const at = (text) => (text ?? "").split("=")[1];
          const isOfSettings = succeeded === void 0 || at(annotations[SETTINGS_REBOOTED_ANNOTATION]) === at(succeeded);
          return isOfSettings ? annotations["updated"] : succeeded;
        }
        function anySuccess({ metadata: { annotations = {} } }) {
          const [version2 = "", time2] = (annotations[UPDATE_SUCCEEDED_ANNOTATION] ?? "").split("=");
          const at2 = parseTime(time2);
          return at2 === void 0 ? void 0 : { version: version2, at: at2 };
        }
        function success(shadow2) {
          const [version2 = "", time2] = (latestUpdate(shadow2) ?? "").split("=");`,
      },
      {
        find: /\.\.\.without2\(shadow2, UPDATE_SUCCEEDED_ANNOTATION\)\n\s+\};\n\}\nfunction endedByConfig2/u,
        replace: `...without2(shadow2, UPDATE_SUCCEEDED_ANNOTATION),
          ...sameVersion(shadow2.status?.current_version, spec.version) && latestUpdate(shadow2) !== void 0
            ? { updated: latestUpdate(shadow2) } : without2(shadow2, "updated"),
          ...sameVersion(shadow2.status?.current_version, spec.version) && shadow2.metadata.annotations?.[FAILED_VERSION_ANNOTATION] !== void 0
            && { hidden: shadow2.metadata.annotations[FAILED_VERSION_ANNOTATION] },
          ...!sameVersion(shadow2.status?.current_version, spec.version)
            && sameVersion((shadow2.metadata.annotations?.[FAILED_VERSION_ANNOTATION] ?? "").split("=")[0], spec.version)
            && without2(shadow2, "hidden")
        };
        }
        function endedByConfig2`,
      },
      { find: /shadow2 && success\(shadow2\)/u, replace: 'shadow2 && anySuccess(shadow2)' },
      { find: /var ANNOTATIONS2 = \[\n\s+BLOCKED_DRAINS_ANNOTATION,/u, replace: '$& "updated", "hidden",' },
      {
        find: /const ended = UNTIL_REVERTED\.filter\(\(name\) => name !== FAILED_ATTEMPTS_ANNOTATION \|\| !isOther\);/u,
        replace: `const kept = [FAILED_ATTEMPTS_ANNOTATION, UNSUCCESSFUL_ATTEMPTS_ANNOTATION];
          const hasCount = shadow2.metadata.annotations?.[FAILED_ATTEMPTS_ANNOTATION] !== void 0;
          const ended = UNTIL_REVERTED.filter((name) => !(isOther && hasCount && kept.includes(name)));`,
      },
    ],
  },
  {
    what: 'a node that did not boot a version does not try it again after a reboot for settings',
    changes: [
      {
        find: /if \(failures\(shadow2\) === 0\) return undone\(input\);/u,
        replace: 'if (failures(shadow2) === 0) return neverAgain(input) ?? undone(input);',
      },
      {
        find: /const forGood = blocked2\(input, recovery2\);/u,
        replace: 'const forGood = blocked2(input, recovery2) ?? neverAgain(input);',
      },
      {
        find: /var notRolledBack = /u,
        replace: `function neverAgain({ name, shadow: shadow2, version: version2 }) {
          const failed = recordedFailure(name, shadow2);
          const { hidden, [FAILED_VERSION_ANNOTATION]: known } = shadow2.metadata.annotations ?? {};
          if (failed === void 0 || hidden !== known) return void 0;
          if (!sameVersion(failed.version, version2) || failed.code !== "RolledBack") return void 0;
          const found = \`The node failed with \${version2} (\${failed.code}, at \${rfc3339(failed.since)}), and does not try it again by itself\`;
          return { reason: "ManualRetryRequired", message: \`\${found}. \${howToRetry(shadow2, version2)}\` };
        }
        var notRolledBack = `,
      },
    ],
  },
  {
    what: 'a canary is healthy by the rules of its group',
    changes: [
      {
        find: /of\.push\(\{ node: pair\.node, role \}\);/u,
        replace: 'of.push({ node: pair.node, policy: pair.policy, role });',
      },
      {
        find: /\.map\(\(\{ node \}\) => \(\{ name: node\.metadata\.name, from: healthyFrom\(node, policy\) \}\)\)/u,
        replace: '.map((one) => ({ name: one.node.metadata.name, from: healthyFrom(one.node, one.policy) }))',
      },
      {
        find: /\.\.\.soakOf\(before, \{ areHealthy, isAwaited \}, input\)/u,
        replace:
          '...soakOf(before, { areHealthy, isAwaited, policies: new Set(succeeded2.map((one) => one.policy)) }, input)',
      },
      {
        find: /function soakOf\(before, \{ areHealthy, isAwaited \}, /u,
        replace: 'function soakOf(before, { areHealthy, isAwaited, policies }, ',
      },
      {
        find: /checks3\.all\(probesOf\(policy, "After"\)\);\n\s+const failedCheck/u,
        replace: 'checks3.all([...policies].flatMap((one) => probesOf(one, "After")));\n  const failedCheck',
      },
    ],
  },
  {
    what: 'failures with an older version that is pinned count until no node has to be updated to it',
    changes: [
      {
        find: /isLeftBehind\(one, versions\)\) return false;\n\s+return !isDeleted\(one\) \|\| !runsEverywhere\(one, versions\);/u,
        replace: `isLeftBehind(one, versions, selectedOf(managedNodes, policy))) return false;
          return !isDeleted(one) || !runsEverywhere(one, selectedOf(managedNodes, policy));`,
      },
      {
        find: /function runsEverywhere\(\{ version: version2 \}, versions\) \{[^}]*\}\nfunction isLeftBehind\(\{ version: version2 \}, versions\) \{[^}]*\}/u,
        replace: `function selectedOf(managedNodes, policy) {
          return managedNodes.filter(({ node }) => node !== void 0 && isSelected(node, policy));
        }
        function runsEverywhere({ version: version2 }, selected2) {
          const running = selected2.flatMap(({ shadow: shadow2, policy }) => {
            const current = shadow2?.status?.current_version ?? "";
            return current === "" ? [] : [{ current, versions: policy.versions }];
          });
          return running.length > 0 && running.every((one) => isAtOrBeyond(one.current, version2, one.versions));
        }
        function isLeftBehind({ version: version2 }, versions, selected2) {
          if (versions.length === 0 || !versions.every((one) => isLater(one.version, version2))) return false;
          return !selected2.some(({ policy }) => sameVersion(policy.versions.pin, version2));
        }`,
      },
      {
        find: /isLeftBehind\(known, versions\) \?/u,
        replace: 'isLeftBehind(known, versions, selectedOf(managedNodes, policy)) ?',
      },
    ],
  },
  {
    what: 'a node that was rebooted for settings is not said to update',
    changes: [
      {
        find: /if \(shadow2\.spec\.state === "MonitoringUpdate"\) return monitored\(version2, hasReached\(shadow2\) \? unhealthy : void 0\);/u,
        replace: `if (shadow2.spec.state === "MonitoringUpdate") {
          const problem = hasReached(shadow2) ? unhealthy : void 0;
          return problem === void 0 && isReboot(shadow2) ? rebooting() : monitored(version2, problem);
        }`,
      },
    ],
  },
  {
    what: 'the list of a quorum is kept until the status has its count',
    changes: [
      {
        find: /constructor\(\{ policy, nodes, managedNodes, memberPods \}, slots, now\) \{\n/u,
        replace: `constructor({ policy, nodes, managedNodes, memberPods, config }, slots, now) {
          this.shown = config && (config.status?.quorums ?? []);
        `,
      },
      {
        find: /\.some\(isAway2\)\);/u,
        replace: '.some(isAway2) || !this.isShown(this.counts.find(({ name }) => name === quorum2.name)));',
      },
      {
        find: /\/\*\* Names of the sets that have, or may have, a member on the node\. \*\/\n/u,
        replace: `isShown(count) {
          if (count === void 0 || this.shown === void 0) return true;
          return this.shown.some((one) => one.name === count.name && one.members === count.members
            && one.ready === count.ready && (one.message ?? "") === printable(count.message));
        }
        `,
      },
    ],
  },
  {
    what: 'what needs a user is Stalled and a Warning: a lost node, an agent that never connected, but no check that is retried',
    changes: [
      {
        find: /\{ \.\.\.condition2\.progressing, message: found\.message \} \}/u,
        replace: '{ ...condition2.progressing, message: found.message, waitingFor: "NodeLost" }, health: "Stalled" }',
      },
      {
        find: /function healthOf2\(\{ status, reason: reason2 \}, neverConnected\) \{/u,
        replace: `function healthOf2({ status, reason: reason2, waitingFor: waitingFor2 }, neverConnected) {
          if (reason2 === "CheckFailed" && waitingFor2 !== reason2) return "Reconciling";`,
      },
      {
        find: /warning: begins && traitsOf\(reason2\)\.needsAttention === true,/u,
        replace: 'warning: begins && (traitsOf(reason2).needsAttention === true || reason2 === "AgentNotConnected"),',
      },
    ],
  },
  {
    what: 'a node that goes back is held by no limit, and counts for none',
    changes: [
      {
        find: /const capacity2 = fleetState\.capacity\.check\(candidate\);/u,
        replace: 'const capacity2 = isRollback ? void 0 : fleetState.capacity.check(candidate);',
      },
      {
        find: /nodesOverLimit\(\[\.\.\.slots\.keys\(\)\], limitsOf2\(unavailable\)\)/u,
        replace: `nodesOverLimit([...slots.keys()].filter(({ name, shadow: shadow2 }) => {
          if (shadow2 === void 0 || !isUnderWay(shadow2)) return true;
          return !isRollingBack(shadow2) && !(isReboot(shadow2) && settings2.get(name)?.rebootFailedAt !== void 0);
        }), limitsOf2(unavailable))`,
      },
    ],
  },
  {
    what: 'a canary that is not offered the version, or is off, is named',
    changes: [
      {
        find: /const needsEach = needed >= eligible\.length;/u,
        replace: `const needsEach = needed >= eligible.length;
          const known2 = new Set(members2.map(({ node }) => node));
          const others = eligible.filter(({ node }) => !known2.has(node))
            .map(({ name, node }) => name + (isDown(node) ? " (not Ready)" : " (not offered it)"));`,
      },
      { find: /\.\.\.ofRole\("waiting"\)\] : \[\]\],/u, replace: '...ofRole("waiting"), ...others] : []],' },
    ],
  },
  {
    what: 'the configuration does not end an attempt by a check, and a loss of connectivity is no time of an update',
    changes: [
      {
        find: /traitsOf\(because\.reason\)\.fleetWide === true;/u,
        replace: 'traitsOf(because.reason).fleetWide === true && because.reason !== "CheckNotPassed";',
      },
      {
        find: /function deferredAfter\(\{ spec, because \}, shadow2\) \{\n\s+const seconds = secondsSoFar\(shadow2, spec\);/u,
        replace: `function deferredAfter({ spec, because, wasSuspended }, shadow2) {
          const seconds = wasSuspended === true ? void 0 : secondsSoFar(shadow2, spec);`,
      },
      {
        find: /return \{ \.\.\.idle\(input, "Deferred"\), \.\.\.blockedBy !== void 0 && \{ because: blockedBy \} \};/u,
        replace: `const suspended2 = (policy.deadlinesFrom ?? 0) > (startedAt(shadow2) ?? 0);
          return { ...idle(input, "Deferred"), ...suspended2 && { wasSuspended: true }, ...blockedBy !== void 0 && { because: blockedBy } };`,
      },
    ],
  },
  {
    what: 'capacity on other nodes is not checked',
    changes: [
      { find: /room: field\(\s+oneOf\(\["Required", "Ignored"\]\),[^)]*?always\("Ignored"\)\s+\),?/u, replace: '' },
      { find: /if \(policy\.health\.room === "Ignored"\) return void 0;/u, replace: 'return void 0;' },
    ],
  },
];
