import type { BrupopConfig } from '../api/brupop-config.ts';
import type { BottlerocketShadow, DrainStatus, HostSettingsStatus, LastOperation } from '../api/shadow.ts';
import type { Condition } from '../api/meta.ts';
import type { Fields } from './crd-fields.ts';

// The tables below say of each TypeScript type which fields it has. The compiler refuses a table that does not fit its type exactly, and
// the tests of the definitions refuse a schema that does not fit its table exactly, so neither can change without the other.

const condition = {
  type: ['string', 'required', 'not null'],
  status: ['string', 'required', 'not null'],
  reason: ['string', 'required', 'not null'],
  message: ['string', 'required', 'not null'],
  lastTransitionTime: ['string', 'required', 'not null'],
  observedGeneration: ['integer', 'optional', 'not null'],
} as const satisfies Fields<Condition>;

const lastOperation = {
  operation: ['string', 'required', 'not null'],
  state: ['string', 'required', 'not null'],
  version: ['string', 'required', 'not null'],
  bootID: ['string', 'required', 'not null'],
  startTime: ['string', 'required', 'not null'],
  lastUpdateTime: ['string', 'required', 'not null'],
  errorCode: ['string', 'optional', 'not null'],
  message: ['string', 'optional', 'not null'],
} as const satisfies Fields<LastOperation>;

const drain = {
  observedGeneration: ['integer', 'required', 'not null'],
  startTime: ['string', 'required', 'not null'],
  resumeTime: ['string', 'optional', 'not null'],
  endTime: ['string', 'optional', 'not null'],
  result: ['string', 'optional', 'not null'],
  evicted: ['integer', 'required', 'not null'],
  remaining: ['integer', 'required', 'not null'],
  blockedBy: [
    {
      items: {
        pod: ['string', 'required', 'not null'],
        reason: ['string', 'required', 'not null'],
        message: ['string', 'required', 'not null'],
        podDisruptionBudgets: ['strings', 'optional', 'not null'],
        since: ['string', 'required', 'not null'],
      },
    },
    'optional',
  ],
  handover: [
    {
      fields: {
        pod: ['string', 'required', 'not null'],
        podUID: ['string', 'required', 'not null'],
        phase: ['string', 'required', 'not null'],
        since: ['string', 'required', 'not null'],
        volumes: ['strings', 'optional', 'not null'],
        replaced: ['boolean', 'optional', 'not null'],
      },
    },
    'optional',
  ],
} as const satisfies Fields<DrainStatus>;

const hostSettings = {
  versionLock: [
    { fields: { value: ['string', 'required', 'not null'], before: ['string', 'required', 'not null'] } },
    'optional',
  ],
  ignoreWaves: [
    { fields: { value: ['boolean', 'required', 'not null'], before: ['boolean', 'required', 'not null'] } },
    'optional',
  ],
  message: ['string', 'optional', 'not null'],
} as const satisfies Fields<HostSettingsStatus>;

/** The fields of a BottlerocketShadow. */
export const shadow = {
  spec: [
    {
      fields: {
        state: ['string', 'required', 'not null'],
        version: ['string', 'optional', 'nullable'],
        state_transition_timestamp: ['string', 'optional', 'nullable'],
        timeoutSeconds: ['integer', 'optional', 'nullable'],
        hostSettings: [
          {
            fields: {
              versionLock: ['string', 'optional', 'nullable'],
              ignoreWaves: ['boolean', 'optional', 'nullable'],
            },
          },
          'optional',
        ],
      },
    },
    'required',
  ],
  status: [
    {
      fields: {
        current_state: ['string', 'required', 'not null'],
        current_version: ['string', 'required', 'not null'],
        target_version: ['string', 'required', 'not null'],
        crash_count: ['integer', 'required', 'not null'],
        state_transition_failure_timestamp: ['string', 'optional', 'nullable'],
        observedGeneration: ['integer', 'required', 'not null'],
        bootID: ['string', 'required', 'not null'],
        bootTime: ['string', 'optional', 'not null'],
        lastOperation: [{ fields: lastOperation }, 'optional'],
        hostSettings: [{ fields: hostSettings }, 'optional'],
        drain: [{ fields: drain }, 'optional'],
        waitingFor: ['string', 'optional', 'not null'],
        conditions: [{ items: condition }, 'optional'],
      },
    },
    'optional',
  ],
} as const satisfies Fields<Pick<BottlerocketShadow, 'spec' | 'status'>>;

/** The fields of a BrupopConfig. */
export const config = {
  spec: [
    {
      fields: {
        paused: ['boolean', 'optional', 'not null'],
        pauseMode: ['string', 'optional', 'not null'],
        pauseReason: ['string', 'optional', 'not null'],
        maintenance: [
          {
            fields: {
              timeZone: ['string', 'optional', 'not null'],
              windows: [
                {
                  items: {
                    schedule: ['string', 'required', 'not null'],
                    duration: ['string', 'required', 'not null'],
                    days: ['strings', 'optional', 'not null'],
                  },
                },
                'optional',
              ],
              blackouts: [
                {
                  items: {
                    from: ['string', 'required', 'not null'],
                    to: ['string', 'required', 'not null'],
                    reason: ['string', 'optional', 'not null'],
                  },
                },
                'optional',
              ],
              updateEstimate: ['string', 'optional', 'not null'],
              margin: ['string', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        concurrency: [
          {
            fields: {
              maxUpdating: ['int-or-string', 'optional', 'not null'],
              maxUnavailable: ['int-or-string', 'optional', 'not null'],
              maxPerZone: ['integer', 'optional', 'not null'],
              maxZones: ['integer', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        versions: [
          {
            fields: {
              pin: ['string', 'optional', 'not null'],
              minimumAge: ['string', 'optional', 'not null'],
              ignoreWaves: ['boolean', 'optional', 'not null'],
              deny: ['strings', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        drain: [
          {
            fields: {
              timeoutSeconds: ['integer', 'optional', 'not null'],
              onTimeout: ['string', 'optional', 'not null'],
              emptyDirPods: ['string', 'optional', 'not null'],
              unmanagedPods: ['string', 'optional', 'not null'],
              maxGracePeriodSeconds: ['integer', 'optional', 'not null'],
              volumeDetachTimeoutSeconds: ['integer', 'optional', 'not null'],
              replacementTimeoutSeconds: ['integer', 'optional', 'not null'],
              taintWaitingNodes: ['boolean', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        loadBalancer: [{ fields: { exclusionSeconds: ['integer', 'optional', 'not null'] } }, 'optional'],
        timeouts: [
          {
            fields: {
              stageSeconds: ['integer', 'optional', 'not null'],
              rebootSeconds: ['integer', 'optional', 'not null'],
              monitorSeconds: ['integer', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        retry: [
          {
            fields: {
              backoffSeconds: ['integer', 'optional', 'not null'],
              maxBackoffSeconds: ['integer', 'optional', 'not null'],
              attempts: ['integer', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        nodeSelector: [
          {
            fields: {
              matchLabels: ['map', 'optional', 'not null'],
              matchExpressions: [
                {
                  items: {
                    key: ['string', 'required', 'not null'],
                    operator: ['string', 'required', 'not null'],
                    values: ['strings', 'optional', 'not null'],
                  },
                },
                'optional',
              ],
            },
          },
          'optional',
        ],
        order: ['string', 'optional', 'not null'],
      },
    },
    'required',
  ],
  status: [
    {
      fields: {
        observedGeneration: ['integer', 'optional', 'not null'],
        conditions: [{ items: condition }, 'optional'],
        nodes: [
          {
            fields: {
              managed: ['integer', 'required', 'not null'],
              upToDate: ['integer', 'required', 'not null'],
              updating: ['integer', 'required', 'not null'],
              waiting: ['integer', 'required', 'not null'],
              failed: ['integer', 'required', 'not null'],
            },
          },
          'optional',
        ],
        versions: [
          {
            items: {
              version: ['string', 'required', 'not null'],
              running: ['integer', 'required', 'not null'],
              offered: ['integer', 'required', 'not null'],
              firstOfferedTime: ['string', 'required', 'not null'],
            },
          },
          'optional',
        ],
        window: [
          {
            fields: {
              nextOpenTime: ['string', 'optional', 'not null'],
              nextCloseTime: ['string', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        updateEstimateSeconds: ['integer', 'optional', 'not null'],
        expectedCompletionTime: ['string', 'optional', 'not null'],
        plan: [
          {
            items: {
              node: ['string', 'required', 'not null'],
              version: ['string', 'optional', 'not null'],
              reason: ['string', 'required', 'not null'],
              expectedTime: ['string', 'optional', 'not null'],
            },
          },
          'optional',
        ],
        inForce: [
          {
            fields: {
              generation: ['integer', 'required', 'not null'],
              spec: ['map', 'required', 'not null'],
            },
          },
          'optional',
        ],
      },
    },
    'optional',
  ],
} as const satisfies Fields<Pick<BrupopConfig, 'spec' | 'status'>>;
