/** Those of what users ask for with annotations, on top of the others. */
export const WANTED_OF_REQUESTS = [
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
];
