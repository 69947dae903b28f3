/** The latest of the differences in `wanted.ts`, on top of those in `more-wanted.ts`. */
import type { Wanted } from './wanted.ts';

export const LATEST_WANTED: readonly Wanted[] = [
  {
    what: 'former values that get another grant remain those that the node has proved',
    changes: [
      {
        find: /(?<=change: )grant\(\{ policy, now: fleetState\.moment \}, allow\)(?=, pending: true \};)/u,
        replace: '{ ...$&, restores: decision.settings?.state === "failed" }',
      },
      { find: /(?<=function lostSettings\(\{ spec)(?= \}, shadow2\))/u, replace: ', restores = false' },
      {
        find: /(?<=\{ settingsProved: isGrant \? )(?=provedAtGrant\(shadow2, requestedOf\(\{ spec \}\)\))/u,
        replace: 'restores ? shadow2.record.settingsProved : ',
      },
    ],
  },
  {
    what: 'a loss of connectivity revives no failure that a user had accepted',
    changes: [
      {
        find: /(?<=function deadlineOf\(shadow2, policy, now\) \{\n)(?= {2}const limit = )/u,
        replace:
          '  const { deadlinesFrom = 0, ...rules } = policy;\n' +
          '  const first = deadlinesFrom === 0 ? Infinity : deadlineOf(shadow2, rules, now);\n' +
          '  if (policy.resumes.some((one) => first <= one && one <= deadlinesFrom)) return first;\n',
      },
    ],
  },
  {
    what: 'the age of a pod on an updated node is that by the clock of kube-apiserver',
    changes: [
      { find: /(?<=observedOf\(pair, )known\.observed(?=, before, now\) \?\? \[\])/u, replace: 'known' },
      { find: /(?<=const found = )known\.get(?=\(pair\.name\);\n {2}const isOfNode)/u, replace: 'known.observed.get' },
      {
        find: /(?<=\{ \.\.\.listedOn\(pair, since\), version: version3, pods: found\.pods, listedAt: last)(?= \},)/u,
        replace: ', skewMs: known.clockSkewMs',
      },
      {
        find: /(?<=const \{ node, version: version3, listedAt, known)(?= \} = listed;)/u,
        replace: ', skewMs = 0',
      },
      {
        find: /const createdAt = (parseTime\(pod\.metadata\.creationTimestamp\)) \?\? listedAt;/u,
        replace:
          'const aheadMs = Math.abs(skewMs) > 3e3 ? Math.round(skewMs) : 0;\n' +
          '    const createdAt = ($1 ?? listedAt - aheadMs) + aheadMs;',
      },
      { find: /(?<=Math\.max\(createdAt, )pod\.readyChanged \?\? 0(?=\) \+ limitMs2)/u, replace: '($&) + aheadMs' },
    ],
  },
  {
    what: 'the time for which a staged node waits for workloads is no part of its update',
    changes: [
      {
        find: /(?<=\.\.\.idle\(input, "Deferred"\), \.\.\.)suspension\(input\)(?=, \.\.\.blockedBy2)/u,
        replace: '(STAYS.includes(shadow2.progressing?.reason) ? { wasSuspended: true } : $&)',
      },
    ],
  },
  {
    what: 'a node that waits for unhealthy pods does so in one of its monthly windows only',
    changes: [{ find: /(?<=var WAITED_MS = )8(?= \* 24 \* 60 \* 6e4;)/u, replace: '36' }],
  },
  {
    what: 'an expected time that no window has any more is not kept',
    changes: [
      {
        find: /(?<=steady\(known, endOf2\(one, fleetState\), now)(?=\);)/u,
        replace: ', [one.candidate.policy.calendar]',
      },
      {
        find: /(?<=latest2\(endsOf\(scopes, isExpected, fleetState\)\), now)(?=\),\n)/u,
        replace: ', waiting3.map(({ candidate }) => candidate.policy.calendar)',
      },
      { find: /(?<=function steady\(before, at2, now)(?=\) \{)/u, replace: ', calendars' },
      {
        find: /(?<=const stays = )(?=known !== void 0 && known > now)/u,
        replace: '(known === void 0 || isOpen(known) || !isOpen(at2)) && ',
      },
      {
        find: /(?<=const known = parseTime\(before\);\n)(?= {2}const stays = )/u,
        replace: '  const isOpen = (time9) => calendars.some((one) => one.nextFit(time9 - 1, 1, now) === time9 - 1);\n',
      },
    ],
  },
  {
    what: 'a group with a mistake keeps its hooks, health and checks, unless the mistake is in these',
    changes: [
      {
        find: /(?<=readConfigSpec\(both\)\.problems\.length === 0 \? merged3 : withoutMistakes\(config, merged3)(?=\);)/u,
        replace: ', readConfigSpec(both).problems',
      },
      { find: /(?<=function withoutMistakes\(config, readable2)(?=\) \{)/u, replace: ', mistakes' },
      {
        find: /(?<=return \{ \.\.\.config, )(?=\.\.\.readDrainSettings\(readable2\.source\))/u,
        replace:
          '...Object.fromEntries(["monitoring", "health", "hooks"]' +
          '.filter((name) => !mistakes.some((one) => one.startsWith(`spec.${name}`)))' +
          '.map((name) => [name, readable2[name]])), ',
      },
    ],
  },
];
