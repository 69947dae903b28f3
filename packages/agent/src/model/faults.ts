/** What may go wrong, and when, as values. */
import fc from 'fast-check';
import type { ShadowState } from '@brupop/shared/shadow';

import type { CommandEnd } from './sim-host.ts';
import type { CallName } from './sim-world.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export type Fault =
  | { readonly kind: 'kill' | 'reboot' | 'lose' | 'delay' }
  | { readonly kind: 'spec Idle' | 'shadow deleted' | 'newer version' | 'rolls back' }
  | { readonly kind: 'apiserver away' | 'host away' | 'lock held' | 'label off'; readonly ms: number }
  | { readonly kind: 'clock jumps' | 'boot takes' | 'reboot takes' | 'pods stay'; readonly ms: number }
  | { readonly kind: 'reboot refused'; readonly times: number }
  | { readonly kind: 'spec other'; readonly state: ShadowState }
  | { readonly kind: 'command ends'; readonly end: CommandEnd };

/** A fault, and the call before or after which it comes, and how much later. */
export interface AtCall {
  readonly on: CallName;
  readonly nth: number;
  readonly after: boolean;
  /** Milliseconds; those that strike the call itself have none. */
  readonly later: number;
  readonly fault: Fault;
}

/** A fault at a call, or at a time (milliseconds from the start). */
export type Happening = AtCall | { readonly at: number; readonly fault: Fault };

export const CALLS: readonly CallName[] = [
  'look',
  'refresh',
  'prepare',
  'activate',
  'deactivate',
  'reboot',
  'ensure',
  'stream',
  'report',
  'exclude',
  'drain',
  'restore',
];

const ms = (...values: readonly number[]): fc.Arbitrary<number> => fc.constantFrom(...values);
const away = ms(SECOND, 20 * SECOND, 60 * SECOND, 5 * MINUTE, 12 * MINUTE, 40 * MINUTE);
/** As long as inhibitors may delay a reboot. */
const upTo5Minutes = fc.integer({ min: SECOND, max: 5 * MINUTE });
const withMs = <K extends string>(kind: K, times: fc.Arbitrary<number>): fc.Arbitrary<{ kind: K; ms: number }> =>
  fc.record({ kind: fc.constant(kind), ms: times });

export const fault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constantFrom('kill', 'reboot', 'lose', 'delay') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('spec Idle', 'shadow deleted') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('newer version', 'rolls back') }) },
  { weight: 4, arbitrary: withMs('apiserver away', away) },
  { weight: 2, arbitrary: withMs('host away', away) },
  { weight: 1, arbitrary: withMs('lock held', away) },
  { weight: 1, arbitrary: withMs('label off', ms(SECOND, 5 * MINUTE, 40 * MINUTE)) },
  {
    weight: 1,
    arbitrary: withMs('clock jumps', ms(-120 * MINUTE, -10 * MINUTE, -MINUTE, MINUTE, 10 * MINUTE, 120 * MINUTE)),
  },
  { weight: 1, arbitrary: withMs('boot takes', ms(SECOND, 5 * MINUTE, 30 * MINUTE)) },
  { weight: 2, arbitrary: withMs('reboot takes', upTo5Minutes) },
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
      end: fc.constantFrom<CommandEnd>('fails', 'dies', 'writes nothing', 'writes another'),
    }),
  },
);

const later = ms(0, 0, 0, 50, SECOND, 30 * SECOND, 5 * MINUTE);
const atCall = (calls: fc.Arbitrary<CallName>): fc.Arbitrary<AtCall> =>
  fc.record({ on: calls, nth: fc.nat(3), after: fc.boolean(), later, fault });
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 5, arbitrary: atCall(fc.constantFrom(...CALLS)) },
  { weight: 1, arbitrary: fc.record({ at: fc.nat(20 * MINUTE), fault }) },
);
const slowReboot = fc.record({ at: fc.constant(0), fault: withMs('reboot takes', upTo5Minutes) });

/** A story of what goes wrong. */
export const happenings: fc.Arbitrary<readonly Happening[]> = fc.array(happening, { minLength: 1, maxLength: 6 });

/** A story of what goes wrong around a reboot that takes its time. */
export const aroundReboot: fc.Arbitrary<readonly Happening[]> = fc
  .tuple(slowReboot, fc.array(atCall(fc.constant('reboot')), { minLength: 1, maxLength: 4 }))
  .map(([slow, others]) => [slow, ...others.map((one) => ({ ...one, nth: one.nth % 2 }))]);
