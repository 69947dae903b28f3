/** Compares the time limits of agents, the apiserver and the controller with each other. */
import { LIMITS, stepLimit } from '../../packages/agent/src/limits.ts';
import { limitRemainingMs } from '../../packages/apiserver/src/drain/settings.ts';
import { renewInMs, requestLimitMs } from '../../packages/shared/src/kube/leader-election.ts';
import { staleness } from '../../packages/apiserver/src/readiness.ts';
import { staleResources } from '../../packages/controller/src/cluster/snapshot.ts';
import { limitMs, rebootUntil, timeoutSeconds } from '../../packages/controller/src/plan/facts/deadlines.ts';
import { readPolicy, type UpdatePolicy } from '../../packages/controller/src/policy/policy.ts';
import { aManagedNode, failure, NOW } from '../../packages/controller/src/testing/objects.ts';
import * as deadlines from '../../packages/shared/src/api/deadlines.ts';
import type { ShadowSpec, ShadowState } from '../../packages/shared/src/api/shadow.ts';
import { rfc3339 } from '../../packages/shared/src/runtime/clock.ts';
import { Moment } from '../../packages/controller/src/kept/moment.ts';

type Spec = NonNullable<Parameters<typeof readPolicy>[0]>['spec'];
const metadata = { name: 'cluster', uid: 'config', resourceVersion: '1' };
const policyOf = (spec: Spec): UpdatePolicy => readPolicy({ metadata, spec });
/** Limits as users may set them: the shortest, the defaults and the longest. */
const configurations: Record<string, Spec> = {
  shortest: {
    drain: { timeout: '1m' },
    loadBalancer: { exclusion: '0s' },
    timeouts: { stage: '1m', reboot: '8m' },
    monitoring: { healthyFor: '0s', timeout: '1m' },
  },
  default: {},
  longest: {
    drain: { timeout: '24h', onTimeout: 'Force' },
    loadBalancer: { exclusion: '1h' },
    timeouts: { stage: '24h', reboot: '24h' },
    monitoring: { healthyFor: '24h', timeout: '24h' },
  },
};

describe.each(Object.entries(configurations))('with the %s limits', (_, spec) => {
  const policy = policyOf(spec);
  const specOf = (state: ShadowState): ShadowSpec => ({
    state,
    version: '1.21.0',
    state_transition_timestamp: null,
    timeoutSeconds: timeoutSeconds(state, policy),
  });
  const staging = specOf('StagedAndPerformedUpdate');
  const rebooting = specOf('RebootedIntoUpdate');
  const started = { observedGeneration: 1, startTime: rfc3339(NOW), evicted: 0, remaining: 1 };
  /**
   * The longest time for which the apiserver continues a drain, the exclusion from load balancers
   * before it included.
   */
  const drain = policy.drain.exclusionMs + limitRemainingMs(started, policy.drain, [], NOW);

  it('is a configuration that is accepted', () => expect(policy.problem).toBeUndefined());

  it('the agent reports a staging that takes too long before the controller cancels it', () => {
    expect(stepLimit('Stage', staging)).toBe(policy.timeouts.stageMs);
    expect(limitMs(staging, policy)).toBeGreaterThan(stepLimit('Stage', staging));
  });

  it('the apiserver ends a drain before the agent does, and the agent before its backstop', () => {
    expect(policy.drainMs).toBeGreaterThanOrEqual(drain);
    expect(stepLimit('Drain', rebooting)).toBeGreaterThan(policy.drainMs + LIMITS.drainOverLimit);
  });

  it('the agent reports a drain, an activation or a reboot that takes too long before the deadline of the controller', () => {
    const steps = stepLimit('Activate', rebooting) + stepLimit('Reboot', rebooting);
    expect(limitMs(rebooting, policy)).toBeGreaterThan(drain + LIMITS.drainOverLimit + steps);
  });

  it('a reboot that was asked for can still come, and be asked for again, within the limit of its step', () => {
    expect(stepLimit('Reboot', rebooting)).toBeGreaterThanOrEqual(LIMITS.rebootPending + LIMITS.rebootRequest);
  });

  it('the agent confirms Idle without the settings of its host before the controller finds it silent', () => {
    expect(limitMs(specOf('Idle'), policy)).toBeGreaterThan(LIMITS.settings);
  });
});

test('a reboot that is shorter than the agent needs is not accepted', () => {
  const shortest = (LIMITS.rebootPending + LIMITS.rebootRequest) / 1000;
  expect(policyOf({ timeouts: { reboot: `${shortest}s` } }).problem).toBeUndefined();
  expect(policyOf({ timeouts: { reboot: `${shortest - 1}s` } }).problem).toContain('timeouts.reboot');
});

test('no reboot that was asked for comes later than the agent and the controller believe', () => {
  const inhibitors = 5 * 60_000;
  expect(LIMITS.rebootPending).toBeGreaterThan(LIMITS.rebootRequest + LIMITS.rebootCall + inhibitors);
  expect(LIMITS.rebootAgain).toBeGreaterThan(LIMITS.rebootCall + inhibitors);
  const lastOperation = failure(undefined, { operation: 'Reboot', state: 'Processing' });
  const asked = aManagedNode('a', {}, { status: { lastOperation } });
  const since = Date.parse(asked.shadow?.spec.state_transition_timestamp ?? '');
  expect(rebootUntil(asked, new Moment(NOW))).toBeGreaterThanOrEqual(since + LIMITS.rebootPending);
});

test('the apiserver answers before the agent gives up a request', () => {
  expect(deadlines.DRAIN_PASS_LIMIT_MS).toBeLessThan(deadlines.DRAIN_ANSWER_LIMIT_MS);
  expect(deadlines.DRAIN_ANSWER_LIMIT_MS).toBeLessThan(deadlines.DRAIN_CALL_LIMIT_MS);
  expect(deadlines.AUTHENTICATION_LIMIT_MS).toBeLessThan(deadlines.ANSWER_LIMIT_MS);
  expect(deadlines.WRITE_LIMIT_MS).toBeLessThan(deadlines.ANSWER_LIMIT_MS);
  expect(deadlines.ANSWER_LIMIT_MS).toBeLessThan(deadlines.CALL_LIMIT_MS);
  expect(deadlines.RESTORE_WRITE_LIMIT_MS).toBeLessThan(deadlines.RESTORE_ANSWER_LIMIT_MS);
  expect(deadlines.RESTORE_ANSWER_LIMIT_MS).toBeLessThan(deadlines.RESTORE_CALL_LIMIT_MS);
  expect(2 * deadlines.STREAM_HEARTBEAT_MS).toBeLessThan(deadlines.STREAM_INACTIVITY_MS);
});

test('another controller becomes leader within 20 s after the leader was killed, with ten renewals a minute', () => {
  const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = deadlines.LEASE_LIMITS;
  const toWatchTheLastRenewalAndToClaimMs = 4_000;
  expect(leaseDurationMs + toWatchTheLastRenewalAndToClaimMs).toBeLessThanOrEqual(20_000);
  // A write of the former leader that is on its way has this time to arrive.
  expect(leaseDurationMs - renewDeadlineMs).toBeGreaterThanOrEqual(4_000);
  const pauseMs = renewInMs(renewDeadlineMs, 0, deadlines.LEASE_LIMITS);
  expect(60_000 / pauseMs).toBeLessThanOrEqual(10);
  // A renewal that takes 5 s is in time; one that gets no response leaves time for another one.
  const limitMs = requestLimitMs(renewDeadlineMs - pauseMs, deadlines.LEASE_LIMITS);
  expect(limitMs).toBeGreaterThan(5_000);
  expect(pauseMs + limitMs + retryPeriodMs).toBeLessThanOrEqual(renewDeadlineMs);
});

test('a watch becomes stale for apiserver and controller at the same time, and only after its check', () => {
  const staleMs = deadlines.WATCH_STALE_MS;
  const watch = (ms: number): Parameters<typeof staleness>[0] => ({ nodes: { synced: true, idleForMs: () => ms } });
  expect([staleness(watch(staleMs - 1)), staleResources([{ resource: 'nodes', ms: staleMs - 1 }])]).toEqual([
    undefined,
    [],
  ]);
  expect(staleness(watch(staleMs + 1))).toContain('nodes');
  expect(staleResources([{ resource: 'nodes', ms: staleMs + 1 }])).toEqual(['nodes']);
  expect(staleMs).toBeGreaterThan(deadlines.WATCH_IDLE_LIMIT_MS + deadlines.WATCH_CATCH_UP_LIMIT_MS);
});
