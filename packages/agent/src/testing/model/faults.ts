/** Faults and their times, as values. */
import fc from 'fast-check';
import type { AgentStatus, LastOperation, ShadowSpec, ShadowState } from '@brupop/shared/api/shadow';
import type { Pin, UpdaterSettings } from '@brupop/shared/testing/settings';
import { UPDATE_COMMANDS, type UpdateCommand } from '../../limits.ts';
import type { CommandEndName } from './sim-host.ts';
import type { CallName } from './sim-world.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export type Fault =
  /** `mount stale`: the host's socket is another one than this process of the agent has. */
  | { readonly kind: 'kill' | 'reboot' | 'lose' | 'delay' | 'mount stale' }
  | { readonly kind: 'spec Idle' | 'shadow deleted' | 'status wiped' | 'newer version' | 'rolls back' }
  | { readonly kind: 'apiserver unavailable' | 'host unreachable' | 'lock held' | 'label off'; readonly ms: number }
  | { readonly kind: 'clock jumps' | 'boot takes' | 'pods stay'; readonly ms: number }
  /** `reboot takes`: inhibitors delay it; `shutdown takes`: then the host API ends earlier than the rest by this time. */
  | { readonly kind: 'reboot takes' | 'shutdown takes'; readonly ms: number }
  /** The agent's process is stopped between its decision and the call. */
  | { readonly kind: 'freeze'; readonly ms: number }
  | { readonly kind: 'reboot refused'; readonly times: number }
  | { readonly kind: 'spec other'; readonly state: ShadowState }
  | { readonly kind: 'command ends'; readonly end: CommandEndName }
  /** Another configuration of the fleet: null requests no settings. */
  | { readonly kind: 'pin'; readonly wanted: Pin | null }
  /** A user changes the settings on the host. */
  | { readonly kind: 'settings by hand'; readonly settings: Partial<UpdaterSettings> }
  /** Another value of `settings.motd` that a group requests, and one that a user sets on the host. */
  | { readonly kind: 'group'; readonly motd: string | null }
  | { readonly kind: 'motd by hand'; readonly motd: string }
  | { readonly kind: 'settings broken' | 'paused'; readonly ms: number }
  | { readonly kind: 'apply fails' }
  /** Another client of the host API runs a command, such as `apiclient update`. */
  | { readonly kind: 'other client'; readonly command: UpdateCommand }
  /** The repository loses or regains a version. */
  | { readonly kind: 'withdrawn'; readonly version: string }
  | { readonly kind: 'republished' }
  | { readonly kind: 'repository gone'; readonly ms: number }
  | { readonly kind: 'act'; readonly act: Act };

/** What happens to a controller or to its objects; the model's own one knows nothing of it. */
export type Act =
  /** Another process leads. */
  | { readonly kind: 'lead' }
  /** None leads for this time, or writes arrive this much later from now on. */
  | { readonly kind: 'no leader' | 'lag'; readonly ms: number }
  /** Another Node of the name registers, unless this one is drained or reboots. */
  | { readonly kind: 'new node' }
  /** The present objects are saved, and etcd is restored from them after this time. */
  | { readonly kind: 'etcd restored'; readonly ms: number }
  | { readonly kind: 'abort' }
  | { readonly kind: 'retry'; readonly version: string }
  | { readonly kind: 'configure'; readonly spec: Readonly<Record<string, unknown>> }
  /** The value of `settings.motd` that a group requests; null: there is no group. */
  | { readonly kind: 'motd'; readonly motd: string | null }
  | { readonly kind: 'edit spec'; readonly spec: Partial<ShadowSpec> }
  | { readonly kind: 'edit status'; readonly status: Partial<AgentStatus>; readonly last?: Partial<LastOperation> }
  | { readonly kind: 'edit record'; readonly record: string };

/** A fault, and the call before or after which it comes, and how much later. */
export interface AtCall {
  readonly on: CallName;
  readonly nth: number;
  readonly after: boolean;
  /** Milliseconds; 0 for a fault of the call itself. */
  readonly later: number;
  readonly fault: Fault;
}

/** A fault at a call, or at a time (milliseconds from the start). */
export type TimedFault = AtCall | { readonly at: number; readonly fault: Fault };

export const CALLS: readonly CallName[] = [
  'look',
  'refresh',
  'prepare',
  'activate',
  'deactivate',
  'reboot',
  'read',
  'stream',
  'report',
  'exclude',
  'drain',
  'restore',
];

const ms = (...values: readonly number[]): fc.Arbitrary<number> => fc.constantFrom(...values);
const outage = ms(SECOND, 20 * SECOND, 60 * SECOND, 5 * MINUTE, 12 * MINUTE, 40 * MINUTE);
/** Inhibitors may delay a reboot by this time. */
const upTo5Minutes = fc.integer({ min: SECOND, max: 5 * MINUTE });
const upTo1Minute = fc.integer({ min: SECOND, max: MINUTE });
const withMs = <K extends string>(kind: K, times: fc.Arbitrary<number>): fc.Arbitrary<{ kind: K; ms: number }> =>
  fc.record({ kind: fc.constant(kind), ms: times });

export const fault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('kill', 'reboot', 'lose', 'delay', 'mount stale') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('spec Idle', 'shadow deleted', 'status wiped') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('newer version', 'rolls back') }) },
  { weight: 4, arbitrary: withMs('apiserver unavailable', outage) },
  { weight: 2, arbitrary: withMs('host unreachable', outage) },
  { weight: 1, arbitrary: withMs('lock held', outage) },
  { weight: 1, arbitrary: withMs('label off', ms(SECOND, 5 * MINUTE, 40 * MINUTE)) },
  {
    weight: 1,
    arbitrary: withMs('clock jumps', ms(-120 * MINUTE, -10 * MINUTE, -MINUTE, MINUTE, 10 * MINUTE, 120 * MINUTE)),
  },
  { weight: 1, arbitrary: withMs('boot takes', ms(SECOND, 5 * MINUTE, 30 * MINUTE)) },
  { weight: 2, arbitrary: withMs('reboot takes', upTo5Minutes) },
  { weight: 1, arbitrary: withMs('shutdown takes', upTo1Minute) },
  { weight: 2, arbitrary: withMs('freeze', ms(3 * SECOND, 20 * SECOND, 2 * MINUTE, 20 * MINUTE)) },
  { weight: 1, arbitrary: withMs('pods stay', ms(10 * SECOND, 5 * MINUTE, 40 * MINUTE)) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reboot refused'), times: fc.constantFrom(1, 3, 9) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('spec other'),
      state: fc.constantFrom<ShadowState>('StagedAndPerformedUpdate', 'RebootedIntoUpdate', 'MonitoringUpdate'),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('command ends'),
      end: fc.constantFrom<CommandEndName>('fails', 'dies', 'writes nothing', 'writes another'),
    }),
  },
);

const later = ms(0, 0, 0, 50, SECOND, 30 * SECOND, 5 * MINUTE);
const atCall = (calls: fc.Arbitrary<CallName>): fc.Arbitrary<AtCall> =>
  fc.record({ on: calls, nth: fc.nat(3), after: fc.boolean(), later, fault });
const anyTimedFault: fc.Arbitrary<TimedFault> = fc.oneof(
  { weight: 5, arbitrary: atCall(fc.constantFrom(...CALLS)) },
  { weight: 1, arbitrary: fc.record({ at: fc.nat(20 * MINUTE), fault }) },
);
const slowReboot = fc
  .tuple(withMs('reboot takes', upTo5Minutes), withMs('shutdown takes', upTo1Minute))
  .map((faults) => faults.map((slow) => ({ at: 0, fault: slow })));

/** After the reboot call the status or the whole shadow is lost, the agent is killed, and the host's state is unknown. */
const nothingLeft = fc
  .tuple(
    fc.record({ kind: fc.constantFrom('shadow deleted', 'status wiped') }),
    fc.oneof(withMs('host unreachable', outage), withMs('lock held', outage)),
    fc.array(fc.nat(90 * SECOND), { minLength: 3, maxLength: 3 }),
  )
  .map(([lost, unknown, delays]) =>
    [lost, { kind: 'kill' } as const, unknown].map((one, n): AtCall => ({
      on: 'reboot',
      nth: 0,
      after: true,
      later: delays[n] ?? 0,
      fault: one,
    })),
  );

/** Versions of pins, and locks that users set. No value is both, since its owner would be unknown. */
export const PINS = ['1.25.0', '1.26.0', '1.27.0'] as const;
const userLocks = fc.constantFrom('latest', '1.26.5', 'v1.24.0');
const pin: fc.Arbitrary<Fault> = fc.record({
  kind: fc.constant('pin'),
  wanted: fc.oneof(
    fc.record({ versionLock: fc.constantFrom(...PINS) }),
    fc.record({ versionLock: fc.constantFrom(...PINS), ignoreWaves: fc.boolean() }),
    fc.record({ ignoreWaves: fc.constant(true) }),
    fc.constant(null),
    fc.constant(null),
  ),
});
const byHand: fc.Arbitrary<Fault> = fc.record({
  kind: fc.constant('settings by hand'),
  settings: fc.oneof(fc.record({ versionLock: userLocks }), fc.record({ ignoreWaves: fc.boolean() })),
});
/** Values of `settings.motd` that groups request. Users set others, since a value that is both has no known owner. */
export const MOTDS: readonly string[] = ['a', 'b', 'c'];
const settingsFault: fc.Arbitrary<Fault> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('group'), motd: fc.constantFrom(...MOTDS, null) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('motd by hand'), motd: fc.constantFrom('mine', 'yours') }),
  },
  { weight: 4, arbitrary: pin },
  { weight: 2, arbitrary: byHand },
  { weight: 1, arbitrary: withMs('settings broken', outage) },
  { weight: 1, arbitrary: withMs('paused', outage) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('apply fails') }) },
);
const callsWithSettings = fc.constantFrom<CallName>(
  'configure',
  'configure',
  'classify',
  'report',
  'refresh',
  ...CALLS,
);

/** Host settings that are requested and withdrawn, users who change them, and other faults. */
export const aroundSettings: fc.Arbitrary<readonly TimedFault[]> = fc
  .tuple(
    fc.array(fc.record({ at: fc.nat(24 * MINUTE), fault: settingsFault }), { minLength: 1, maxLength: 5 }),
    fc.array(atCall(callsWithSettings), { maxLength: 4 }),
    fc.array(
      atCall(callsWithSettings).chain((one) => settingsFault.map((other) => ({ ...one, fault: other }))),
      { maxLength: 2 },
    ),
  )
  .map((parts) => parts.flat());

/** Any faults at any time. */
export const anyFaults: fc.Arbitrary<readonly TimedFault[]> = fc.array(anyTimedFault, { minLength: 1, maxLength: 6 });

/** Any faults around a slow reboot. */
export const aroundReboot: fc.Arbitrary<readonly TimedFault[]> = fc
  .tuple(
    slowReboot,
    fc.oneof(fc.constant([]), nothingLeft),
    fc.array(atCall(fc.constant('reboot')), { minLength: 1, maxLength: 4 }),
  )
  .map(([slow, lost, others]) => [...slow, ...lost, ...others.map((one) => ({ ...one, nth: one.nth % 2 }))]);

const ofOthers: fc.Arbitrary<Fault> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('other client'), command: fc.constantFrom(...UPDATE_COMMANDS) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('withdrawn'), version: fc.constantFrom('1.27.0', '1.28.0') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('republished', 'newer version') }) },
  { weight: 2, arbitrary: withMs('repository gone', outage) },
);

/** Other clients of the host and its repository, and other faults. */
export const aroundOthers: fc.Arbitrary<readonly TimedFault[]> = fc
  .tuple(
    fc.array(
      atCall(fc.constantFrom(...CALLS)).chain((one) => ofOthers.map((other) => ({ ...one, fault: other }))),
      { minLength: 1, maxLength: 4 },
    ),
    fc.array(fc.record({ at: fc.nat(24 * MINUTE), fault: ofOthers }), { maxLength: 3 }),
    fc.array(anyTimedFault, { maxLength: 2 }),
    fc.array(fc.record({ at: fc.nat(24 * MINUTE), fault: settingsFault }), { maxLength: 1 }),
  )
  .map((parts) => parts.flat());
