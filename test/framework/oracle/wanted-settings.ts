/** What has changed on purpose, since the planner was frozen, about the settings of hosts. */
import type { Wanted } from './wanted.ts';

export const WANTED_OF_SETTINGS: readonly Wanted[] = [
  {
    what: 'what was proved and what has failed stay on record while settings are restored, which is tried once',
    changes: [
      {
        find: /\.\.\.lostSettings\(transition2, shadow2\),\n\s+\.\.\.transition2\.isBlocked/u,
        replace: `...transition2.restores !== true && lostSettings(transition2, shadow2),
          ...transition2.isBlocked`,
      },
      {
        find: /group: group2\?\.name, isBlocked \};/u,
        replace: 'group: group2?.name, isBlocked, restores: settings2?.state === "failed" };',
      },
      {
        find: /SettingsFailed: \(transition2, shadow2\) => /u,
        replace: '$&isReboot(shadow2) ? failedReboot(transition2, shadow2) : ',
      },
      {
        find: /(function failedReboot\(transition2, shadow2\) \{\n\s+const settings2 = requestedOf\(shadow2\);)/u,
        replace: `$1
          const hash2 = hashOfSettings(settings2);
          const { [SETTINGS_PROVED_ANNOTATION]: proved2 } = shadow2.metadata.annotations ?? {};
          const isProved2 = ownSettings(settings2).length > 0 && hash2 === hashOf([...readProved(proved2)]);
          if (transition2.restores === true || isProved2)
            return { [SETTINGS_REBOOTED_ANNOTATION]: \`\${hash2}=\${transition2.spec.state_transition_timestamp ?? ""}\` };`,
      },
    ],
  },
  {
    what: 'a restore is known at its end, and what it restores stays requested',
    changes: [
      {
        find: /return isEnd \? \{ \.\.\.next, jobs: recordsAtEnd\(input\) \} : next;/u,
        replace: `return isEnd
          ? { ...next, jobs: recordsAtEnd(input), restores: input.settings?.state === "failed" } : next;`,
      },
      {
        find: /spec: idleSpec\(restored\(input\.policy, input\.shadow\), input\.now\) \}/u,
        replace: `spec: idleSpec(
          input.settings?.state === "failed" ? input.policy : restored(input.policy, input.shadow), input.now) }`,
      },
    ],
  },
  {
    what: 'a node that awaits a restore does not wait for an update, nor for a refresh',
    changes: [
      {
        find: /if \(problem !== void 0 && sameVersion\(running, offered\)\) \{/u,
        replace: 'if (problem !== void 0 && sameVersion(running, offered) && !awaitsRestore(input.settings)) {',
      },
      {
        find: /const version2 = wantedVersion\(offered, policy\.versions\);\n\s+const problem/u,
        replace: `const version2 = awaitsRestore(input.settings) ? running : wantedVersion(offered, policy.versions);
          const problem`,
      },
    ],
  },
  {
    what: 'a restore is not superseded by the versions that are allowed',
    changes: [
      {
        find: /const isAllowed = isWanted\(shadow2\.spec\.version \?\? "", policy\.versions\) && !isEnded && !isOther;/u,
        replace: `const isRestore = isReboot(shadow2) && input.settings?.rebootFailedAt !== void 0;
          const isAllowed = (isRestore || isWanted(shadow2.spec.version ?? "", policy.versions)) && !isEnded && !isOther;`,
      },
    ],
  },
  {
    what: 'a node on which all settings wait, or with a user value of one that waits elsewhere, proves none',
    changes: [
      {
        find: /facts\.state === "inForce" \|\| facts\.state === "none"\);/u,
        replace: `(facts.state === "inForce" || facts.state === "none")
          && !facts.conflicts.some((key2) => nodes.some((one) => one.facts.pending.some((it) => it.key === key2))));`,
      },
      {
        find: /isProved: inForce\.length > 0,/u,
        replace: `isProved: inForce.some(({ managedNode: { shadow: shadow2 }, facts }) => {
          const own = ownSettings(requestedOf(shadow2));
          return own.length === 0 || own.some(({ key: key2 }) =>
            !facts.conflicts.includes(key2) && !facts.pending.some((one) => one.key === key2));
        }),`,
      },
    ],
  },
  {
    what: 'no update brings settings that have failed on too many nodes',
    changes: [
      {
        find: /startSpec\(candidate\.version, policy, fleetState\.now, settings2\)/u,
        replace: `startSpec(candidate.version, policy, fleetState.now,
          fleetState.settingsRollouts.areStopped(candidate) ? void 0 : settings2)`,
      },
      {
        find: /\/\*\* Returns why a node may not be rebooted for its settings yet\. \*\//u,
        replace: `areStopped(node) {
          const rollout = this.#of(node);
          if (rollout === void 0 || rollout.failed.includes(node.name)) return false;
          const isTrial = !rollout.isBooted && rollout.failed.length + rollout.late > 0;
          return isTrial || tooManyFailed(node, rollout) !== void 0;
        }`,
      },
    ],
  },
  {
    what: 'the hosts of a group with a mistake follow spec.versions',
    changes: [
      {
        find: /return group2\?\.problem === void 0 \? policy : \{ \.\.\.policy, settings: requestedOf\(shadow2\) \};/u,
        replace: `if (group2?.problem === void 0) return policy;
          const known = requestedOf(shadow2);
          if (group2.problem.startsWith("spec.versions")) return { ...policy, settings: known };
          return { ...policy, settings: [...settingsOfVersions(policy.versions), ...ownSettings(known)] };`,
      },
    ],
  },
  {
    what: 'a node away in its reboot is late past its deadline, and the grant of former settings ends in time',
    changes: [
      {
        find: /late: nodes\.filter\(\(\{ facts \}\) => facts\.isLate === true && facts\.hash !== NOTHING\)\.length/u,
        replace: `late: nodes.filter(({ managedNode: { shadow: shadow2, policy }, facts }) => {
          if (facts.hash === NOTHING) return false;
          if (!isUnderWay(shadow2)) return facts.isLate === true;
          if (!isReboot(shadow2) || facts.state === "failed" || facts.state === "requested") return false;
          const deadline = deadlineOf(shadow2, policy, now);
          return now >= deadline && !isAccepted(deadline, policy, now);
        }).length`,
      },
      {
        find: /rebooting: nodes\.filter\(\(\{ managedNode: \{ shadow: shadow2 \} \}\) => shadow2 !== void 0 && isReboot\(shadow2\)\)/u,
        replace: `rebooting: nodes.filter(({ managedNode: { shadow: shadow2, policy }, facts }) =>
          shadow2 !== void 0 && isUnderWay(shadow2) && isReboot(shadow2) && facts.rebootFailedAt === void 0
            && now < deadlineOf(shadow2, policy, now))`,
      },
      { find: /function rolloutOf\(nodes\) \{/u, replace: 'function rolloutOf(nodes, now) {' },
      { find: /\[key2, rolloutOf\(nodes\)\]/u, replace: '[key2, rolloutOf(nodes, now)]' },
      {
        find: /(var SettingsRollouts = class \{\n\s+#settings;\n\s+#rollouts;\n\s+constructor\(managedNodes, settings2)/u,
        replace: '$1, now',
      },
      {
        find: /new SettingsRollouts\(managedNodes, settings2\)/u,
        replace: 'new SettingsRollouts(managedNodes, settings2, now)',
      },
      {
        find: /\.\.\.wasRebooted\(input, hash2\) && \{ rebootFailedAt: failed2 \} \};/u,
        replace: `...wasRebooted(input, hash2) && { rebootFailedAt: failed2 },
          ...isGranted(shadow2) && { changesAt: provesAt(input) } };`,
      },
    ],
  },
];
