/** What checks and hooks of the configuration do to an update. */
import type { NodeRecord } from '@brupop/shared/api/record';
import { shadowView } from '../cluster/shadow.ts';
import type { ChecksView, Evaluation, JobView } from '../cluster/checks.ts';
import { CONNECTED, type Connectivity } from '../cluster/connectivity.ts';
import type { ManagedNode } from '../cluster/snapshot.ts';
import { answered, viewOf } from '../testing/checks.ts';
import {
  ago,
  aManagedNode,
  aSnapshot,
  MINUTE,
  NEW,
  NOW,
  OLD,
  podsOf,
  type ShadowParts,
  underWay,
  withPolicy,
} from '../testing/objects.ts';
import type { JobRun } from './facts/jobs.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const SECOND = 1_000;
const STARTED = { startedAt: ago(10 * MINUTE) };
const records = (jobs: Record<string, string>): NodeRecord => ({ ...STARTED, jobs });
const check = (when: readonly string[], more: object = {}): object => ({
  health: { checks: [{ name: 'smoke', when, job: { cronJob: 'smoke' }, ...more }] },
});
const query = (when: readonly string[]): { readonly health: object } => ({
  health: { checks: [{ name: 'errors', when, prometheus: { query: 'up' } }] },
});
const hooks = (phase: 'before' | 'after', ...some: readonly object[]): object => ({
  hooks: { [phase]: some.map((one, i) => ({ name: `hook-${i}`, job: { cronJob: 'hook' }, ...one })) },
});

interface World {
  readonly answer?: Partial<Evaluation>;
  /** Nothing was asked yet. */
  readonly unasked?: boolean;
  readonly jobs?: ReadonlyMap<string, JobView>;
  readonly connectivity?: Connectivity;
  readonly view?: Partial<ChecksView>;
}

function planOf(
  nodes: readonly ManagedNode[],
  spec: object,
  { answer, unasked, jobs, connectivity, view }: World = {},
): Plan {
  const snapshot = aSnapshot(nodes, spec);
  const evaluations = unasked === true ? new Map() : answered(snapshot.policy, NOW, () => answer ?? {});
  const policy = { ...snapshot.policy, isSuspended: connectivity?.lost ?? false };
  const checks = { ...viewOf(evaluations, jobs), ...view };
  return plan({ ...withPolicy(snapshot, policy), checks, connectivity: connectivity ?? CONNECTED }, NOW);
}

const staged = (record: NodeRecord = STARTED, more: ShadowParts = {}): ManagedNode =>
  aManagedNode('a', {}, { spec: underWay('StagedAndPerformedUpdate'), record, ...more });
const monitored = (record: NodeRecord = STARTED): ManagedNode =>
  aManagedNode('a', {}, { spec: underWay('MonitoringUpdate'), status: { current_version: NEW }, record });
const ended = (record: NodeRecord): ManagedNode =>
  aManagedNode(
    'a',
    {},
    { spec: { state_transition_timestamp: ago(MINUTE) }, status: { current_version: NEW }, record },
  );
const outcomes = ({ specs }: Plan): string[] => specs.map(({ outcome }) => outcome);
const started = ({ checks: { nodes } }: Plan): string[] => nodes.flatMap(({ start }) => start.map(({ key }) => key));
const progressing = ({ conditions }: Plan): string =>
  conditions
    .flat()
    .map(({ progressing: { reason, message } }) => `${reason}: ${message}`)
    .join();

/** What is known of the Jobs that a plan starts. */
function seen(made: Plan, state: JobView['state'], more: Partial<JobView> = {}): ReadonlyMap<string, JobView> {
  const runs: JobRun[] = made.checks.nodes.flatMap(({ start }) => start);
  return new Map(runs.map(({ jobName, jobOf }) => [jobName, { state, jobOf, since: NOW, seenAt: NOW, ...more }]));
}

describe('a query before an update', () => {
  it('is not asked while nothing waits for it', () => {
    const upToDate = aManagedNode('a', {}, { status: { current_version: NEW } });
    expect(planOf([upToDate], query(['Before']), { unasked: true }).checks.evaluate).toEqual([]);
  });

  it('is asked once for all nodes, which show nothing until it is answered', () => {
    const made = planOf([aManagedNode('a'), aManagedNode('b')], query(['Before']), { unasked: true });
    expect(made.checks.evaluate).toEqual([{ check: 'errors', kind: 'prometheus', query: 'up' }]);
    expect([outcomes(made), progressing(made)]).toEqual([
      [],
      'WaitingForCapacity: As many nodes are updating as concurrency.maxUpdating allows',
    ]);
  });

  it('keeps every node from starting while it does not pass, and is asked again after 15 seconds', () => {
    const answer = { passed: false, found: 'the query is 0', at: NOW - 5 * SECOND };
    const made = planOf([aManagedNode('a'), aManagedNode('b')], query(['Before']), { answer });
    expect(outcomes(made)).toEqual([]);
    expect(made.conditions.flat().map(({ progressing: { message } }) => message)).toEqual([
      'The check errors does not pass: the query is 0',
      'The check errors does not pass: the query is 0',
    ]);
    expect([made.checks.evaluate, made.wakeAt]).toEqual([[], NOW + 10 * SECOND]);
  });

  it('lets a node start only with an answer that is not old', () => {
    expect(outcomes(planOf([aManagedNode('a')], query(['Before']), { answer: { at: NOW - 14 * SECOND } }))).toEqual([
      'Started',
    ]);
    const old = planOf([aManagedNode('a')], query(['Before']), { answer: { at: NOW - 15 * SECOND } });
    expect([outcomes(old), old.checks.evaluate.length]).toEqual([[], 1]);
  });

  it('that is asked after the update need not pass before, but there must be an answer', () => {
    const after = (answer: Partial<Evaluation>) => planOf([aManagedNode('a')], query(['After']), { answer });
    expect(outcomes(after({ passed: false }))).toEqual(['Started']);
    const found = "expected the chart's value checks.prometheus.url, found none";
    const made = after({ passed: false, isMissing: true, found });
    expect(progressing(made)).toBe(`CheckNotPassed: The check errors does not pass: ${found}`);
    const unasked = planOf([aManagedNode('a')], query(['After']), { unasked: true });
    expect([outcomes(unasked), unasked.checks.evaluate.length]).toEqual([[], 1]);
  });

  it('defers a staged node while it does not pass, and keeps it while it is asked', () => {
    expect(outcomes(planOf([staged()], query(['Before'])))).toEqual(['Advanced']);
    expect(outcomes(planOf([staged()], query(['Before']), { unasked: true }))).toEqual([]);
    const made = planOf([staged()], query(['Before']), { answer: { passed: false } });
    expect(made.specs[0]).toMatchObject({ outcome: 'Deferred', because: { reason: 'CheckNotPassed' } });
  });
});

describe('a Job before the drain', () => {
  const spec = check(['Before']);
  const first = planOf([staged()], spec);

  it('needs its template before an update starts', () => {
    const made = planOf([aManagedNode('a')], spec, {
      answer: { passed: false, found: 'expected the CronJob x/smoke, found none' },
    });
    expect(progressing(made)).toBe(
      'CheckNotPassed: The Job of smoke cannot run: expected the CronJob x/smoke, found none',
    );
  });

  it('is recorded before it is created, and the node is not drained', () => {
    expect(outcomes(first)).toEqual([]);
    expect(first.checks.nodes).toMatchObject([
      { records: { 'Before/check/smoke': 'Started' }, start: [{ key: 'Before/check/smoke' }] },
    ]);
    expect(first.checks.nodes[0]?.start[0]?.versions).toEqual({ from: OLD, to: NEW });
  });

  it('is read again after 5 seconds while it runs', () => {
    const node = staged(records({ 'Before/check/smoke': 'Started' }));
    const running = planOf([node], spec, { jobs: seen(first, 'Running', { seenAt: NOW - 4 * SECOND }) });
    expect([outcomes(running), running.checks.read, running.wakeAt]).toEqual([[], [], NOW + SECOND]);
    expect(progressing(running)).toMatch(
      /^Updating: 1.21.0 is staged; before the drain, the check smoke \(Job brupop-checks\/brupop-smoke-\w+\) has not ended$/u,
    );
    expect(
      planOf([node], spec, { jobs: seen(first, 'Running', { seenAt: NOW - 5 * SECOND }) }).checks.read,
    ).toHaveLength(1);
    expect(planOf([node], spec).checks.read).toHaveLength(1);
  });

  it('lets the node be drained when it has succeeded', () => {
    const made = planOf([staged(records({ 'Before/check/smoke': 'Started' }))], spec, {
      jobs: seen(first, 'Succeeded'),
    });
    expect(outcomes(made)).toEqual(['Advanced']);
  });

  it.each(['Failed', 'TimedOut', 'Gone'] as const)(
    'that is %s defers the update, which counts for the backoff alone',
    (state) => {
      const made = planOf([staged(records({ from: '1.20.0', to: '1.21.0', 'Before/check/smoke': 'Started' }))], spec, {
        jobs: seen(first, state),
      });
      expect(made.specs[0]).toMatchObject({ outcome: 'Deferred', because: { reason: 'CheckFailed' } });
      expect(made.specs[0]?.record).toEqual({
        ...STARTED,
        jobs: { from: '1.20.0', to: '1.21.0', 'Before/check/smoke': state },
        unsuccessful: 1,
        history: { count: 1, seconds: {} },
      });
      expect(made.specs[0]?.event).toMatchObject({
        reason: 'UpdateDeferred',
        message: expect.stringContaining('smoke') as string,
      });
    },
  );

  it('that failed is the reason for which the node waits, until the backoff ends', () => {
    const record = { ...records({ 'Before/check/smoke': 'Failed' }), unsuccessful: 1 };
    const waits = aManagedNode('a', {}, { record, spec: { state_transition_timestamp: ago(MINUTE) } });
    expect(progressing(planOf([waits], spec))).toMatch(
      /^CheckFailed: The check smoke failed before the drain; its Job \S+ no longer exists; retried after/u,
    );
    const kept = { jobs: seen(first, 'Failed') };
    expect(progressing(planOf([waits], spec, kept))).toMatch(/; see its logs and kubectl describe job -n .*; retried/u);
    const later = aManagedNode('a', {}, { record, spec: { state_transition_timestamp: ago(5 * MINUTE) } });
    expect(planOf([later], spec).specs[0]).toMatchObject({
      outcome: 'Started',
      record: { jobs: { from: '1.20.0', to: '1.21.0' } },
    });
  });

  it('that cannot be created for its whole timeout has timed out', () => {
    const jobs = seen(first, 'Creating', { since: NOW - 12 * MINUTE, problem: 'quota exceeded' });
    const [change] = planOf([staged(records({ 'Before/check/smoke': 'Started' }))], spec, { jobs }).specs;
    expect(change?.because?.message).toBe('The check smoke did not end within 10m before the drain; quota exceeded');
  });

  it('is neither started nor judged while connectivity is lost', () => {
    const connectivity = { ...CONNECTED, lost: true };
    expect(started(planOf([staged()], spec, { connectivity }))).toEqual([]);
    const node = staged(records({ 'Before/check/smoke': 'Started' }));
    expect(outcomes(planOf([node], spec, { connectivity, jobs: seen(first, 'Failed') }))).toEqual([]);
  });

  it('extends the deadline of the staging by its timeout', () => {
    const late = { spec: underWay('StagedAndPerformedUpdate', 55 * MINUTE) };
    expect(outcomes(planOf([staged(STARTED, late)], {}))).toEqual(['Deferred']);
    expect(outcomes(planOf([staged(STARTED, late)], check(['Before'], { timeout: '20m' })))).toEqual([]);
  });

  it('of another attempt has another name', () => {
    const other = planOf([staged({ startedAt: ago(20 * MINUTE) })], spec);
    const nameOf = (made: Plan): string | undefined => made.checks.nodes[0]?.start[0]?.jobName;
    expect(nameOf(other)).not.toBe(nameOf(first));
  });
});

describe('hooks before the drain', () => {
  const two = hooks('before', { onTimeout: 'Proceed' }, {});

  it('run one after the other, after the checks', () => {
    const both = { ...check(['Before']), ...two };
    expect(started(planOf([staged()], both))).toEqual(['Before/check/smoke']);
    expect(started(planOf([staged(records({ 'Before/check/smoke': 'Succeeded' }))], both))).toEqual([
      'Before/hook/hook-0',
    ]);
    const next = records({ 'Before/check/smoke': 'Succeeded', 'Before/hook/hook-0': 'Succeeded' });
    expect(started(planOf([staged(next)], both))).toEqual(['Before/hook/hook-1']);
  });

  it('proceed after a timeout only if they say so', () => {
    expect(started(planOf([staged(records({ 'Before/hook/hook-0': 'TimedOut' }))], two))).toEqual([
      'Before/hook/hook-1',
    ]);
    const made = planOf(
      [staged(records({ 'Before/hook/hook-0': 'Succeeded', 'Before/hook/hook-1': 'TimedOut' }))],
      two,
    );
    expect(made.specs[0]).toMatchObject({ outcome: 'Deferred', because: { reason: 'HookFailed' } });
    expect(outcomes(planOf([staged(records({ 'Before/hook/hook-0': 'Failed' }))], two))).toEqual(['Deferred']);
  });

  it('that have run make the hooks after run, also if the node was not drained', () => {
    const spec = {
      hooks: { before: [{ name: 'in', job: { cronJob: 'in' } }], after: [{ name: 'out', job: { cronJob: 'out' } }] },
    };
    const made = planOf([staged(records({ 'Before/hook/in': 'Failed' }))], spec);
    expect(made.specs[0]?.record.jobs).toEqual({ 'Before/hook/in': 'Failed', 'After/hook/out': 'Due' });
    const unhooked = planOf(
      [aManagedNode('a', { unschedulable: true }, { spec: underWay('StagedAndPerformedUpdate') })],
      spec,
    );
    expect([outcomes(unhooked), unhooked.specs[0]?.record.jobs]).toEqual([['Deferred'], undefined]);
  });

  it('that still run when the attempt ends are waited for by the hooks after, whatever their results', () => {
    const spec = {
      hooks: { before: [{ name: 'in', job: { cronJob: 'in' } }], after: [{ name: 'out', job: { cronJob: 'out' } }] },
    };
    const first = planOf([staged()], spec);
    const running = staged(records({ 'Before/hook/in': 'Started' }));
    const made = planOf([running], { ...spec, paused: true, pauseMode: 'Interrupt' }, { jobs: seen(first, 'Running') });
    const jobs = { 'Before/hook/in': 'Started', 'After/hook/out': 'Due' };
    expect([outcomes(made), made.specs[0]?.record.jobs]).toEqual([['Interrupted'], jobs]);
    const after = (state: JobView['state']): Plan =>
      planOf([ended(records(jobs)), aManagedNode('b')], spec, { jobs: seen(first, state) });
    expect([started(after('Running')), outcomes(after('Running'))]).toEqual([[], []]);
    expect(progressing(after('Running'))).toContain('The update has ended; after it, the hook in (Job ');
    // It may not exist, or its creation may have had no answer.
    const [creating] = [after('Creating').checks];
    expect([creating.nodes, creating.read.length]).toEqual([[], 0]);
    for (const state of ['Succeeded', 'Failed', 'TimedOut', 'Gone'] as const)
      expect([started(after(state)), after(state).checks.nodes[0]?.event]).toEqual([['After/hook/out'], undefined]);
    const over = ended(records({ 'Before/hook/in': 'Succeeded', 'After/hook/out': 'Succeeded' }));
    expect(planOf([over], spec).checks.nodes).toMatchObject([{ records: null }]);
  });
});

describe('a check after the update', () => {
  const spec = check(['After']);
  const first = planOf([monitored()], spec);

  it('runs once the node is otherwise healthy', () => {
    expect(started(first)).toEqual(['After/check/smoke']);
    const down = aManagedNode(
      'a',
      { ready: false },
      { spec: underWay('MonitoringUpdate'), status: { current_version: NEW } },
    );
    expect(started(planOf([down], spec))).toEqual([]);
  });

  it('has to succeed before the update does', () => {
    const node = monitored(records({ 'After/check/smoke': 'Started' }));
    expect(outcomes(planOf([node], spec, { jobs: seen(first, 'Running') }))).toEqual([]);
    expect(outcomes(planOf([node], spec, { jobs: seen(first, 'Succeeded') }))).toEqual(['Succeeded']);
  });

  it('that runs is what the node waits for, which is healthy otherwise', () => {
    const node = monitored(records({ 'After/check/smoke': 'Started' }));
    const made = planOf([node], spec, { jobs: seen(first, 'Running') });
    expect(progressing(made)).toMatch(
      /^Updating: Runs 1\.21\.0; the check smoke \(Job brupop-checks\/brupop-smoke-\w+\) has not ended$/u,
    );
    expect(made.conditions.flat()[0]?.progressing.waitingFor).toBe('Job');
  });

  it('that fails ends the update at once, as a failure of the version', () => {
    const made = planOf([monitored(records({ 'After/check/smoke': 'Started' }))], spec, {
      jobs: seen(first, 'Failed'),
    });
    expect(made.specs[0]).toMatchObject({ outcome: 'CheckFailed', spec: { state: 'Idle' } });
    expect(made.specs[0]?.record.failed).toMatchObject({ version: NEW, code: 'CheckFailed' });
    expect(made.specs[0]?.event).toMatchObject({ reason: 'UpdateFailed', warning: true });
    expect(made.failed).toMatchObject([{ name: 'a', version: NEW, code: 'CheckFailed' }]);
  });

  it('that fails freezes the version in the same plan, if the budget allows none', () => {
    const nodes = [monitored(records({ 'After/check/smoke': 'Started' })), aManagedNode('b')];
    const config = { ...spec, rollout: { failureBudget: 0 }, concurrency: { maxUpdating: 2 } };
    const made = planOf(nodes, config, { jobs: seen(first, 'Failed') });
    expect([outcomes(made), made.frozen.length]).toEqual([['CheckFailed'], 1]);
  });

  describe('that failed on the version which the node runs', () => {
    const record = { failed: { version: NEW, code: 'CheckFailed', at: ago(MINUTE) } };
    const failed = (target_version = NEW): ManagedNode =>
      aManagedNode('a', {}, { record, status: { current_version: NEW, target_version } });

    it('leaves the node its update slot, and says so', () => {
      const made = planOf([failed(), aManagedNode('b')], spec);
      expect(outcomes(made)).toEqual([]);
      expect(made.conditions.flat()[0]?.progressing).toMatchObject({ reason: 'CheckFailed', status: 'False' });
      expect(made.counts).toMatchObject({ failed: 1, upToDate: 0 });
      expect(made.stuckNodes).toEqual(['a']);
    });

    it('is over when a user accepts it, or when the node is to run another version', () => {
      const resumed = { ...spec, rollout: { resume: ago(0) } };
      expect(outcomes(planOf([failed(), aManagedNode('b')], resumed))).toEqual(['Started']);
      expect(planOf([failed()], resumed).counts.upToDate).toBe(1);
      const newer = aManagedNode('b', {}, { status: { target_version: '1.22.0' } });
      expect(planOf([failed('1.22.0'), newer], spec).stuckNodes).toEqual([]);
    });
  });

  it('that fails while connectivity is lost is not judged', () => {
    const node = monitored(records({ 'After/check/smoke': 'Started' }));
    const made = planOf([node], spec, { jobs: seen(first, 'Failed'), connectivity: { ...CONNECTED, lost: true } });
    expect([outcomes(made), made.failed]).toEqual([[], []]);
  });

  it('that is a query has to pass for healthyFor, by answers since the update', () => {
    const config = { ...query(['After']), monitoring: { healthyFor: '1m' } };
    const found = (answer: Partial<Evaluation>): string[] => outcomes(planOf([monitored()], config, { answer }));
    expect(found({ since: NOW - MINUTE })).toEqual(['Succeeded']);
    expect(found({ since: NOW - MINUTE + SECOND })).toEqual([]);
    expect(found({ since: NOW - MINUTE, at: NOW - 15 * SECOND })).toEqual([]);
    const failing = planOf([monitored()], config, { answer: { passed: false, found: 'the query is 0' } });
    expect(progressing(failing)).toBe(
      'Updating: Runs 1.21.0, and is not healthy yet: the check errors does not pass: the query is 0',
    );
  });
});

describe('a query after the update past the deadline of the node', () => {
  const config = {
    ...query(['After']),
    monitoring: { healthyFor: '10m', timeout: '5m' },
    rollout: { failureBudget: 0 },
  };
  const late = aManagedNode(
    'a',
    {},
    { spec: underWay('MonitoringUpdate', 16 * MINUTE), status: { current_version: NEW }, record: STARTED },
  );
  const failuresWith = (world: World): string[] => planOf([late], config, world).failed.map(({ code }) => code);
  const since = NOW - MINUTE;

  it('is no failure of the version while a new leader does not know whether it passed before', () => {
    expect(failuresWith({ answer: { since, isCut: true } })).toEqual([]);
    expect(failuresWith({ unasked: true })).toEqual([]);
    expect(outcomes(planOf([late], config, { answer: { since: NOW - 10 * MINUTE, isCut: true } }))).toEqual([
      'Succeeded',
    ]);
  });

  it('is no failure either while the pods on the node are listed again', () => {
    const health = { ...query(['After']).health, daemonSets: 'Required' };
    const withPods = (msAgo: number): Plan => {
      const snapshot = aSnapshot([late], { ...config, health });
      const evaluations = answered(snapshot.policy, NOW, () => ({ since, isCut: true }));
      const pods = new Map(late.node === undefined ? [] : [['a', podsOf(late.node, [], NOW - msAgo)]]);
      return plan({ ...snapshot, pods, checks: viewOf(evaluations) }, NOW);
    };
    expect([4 * SECOND, 6 * SECOND].map((msAgo) => withPods(msAgo).lookUps.length)).toEqual([0, 1]);
    expect([4 * SECOND, 6 * SECOND].map((msAgo) => withPods(msAgo).failed)).toEqual([[], []]);
  });

  it('is a failure if it does not pass, or did not shortly before', () => {
    expect(failuresWith({ answer: { since } })).toEqual(['NotHealthy']);
    expect(failuresWith({ answer: { since, passed: false, isCut: true } })).toEqual(['NotHealthy']);
  });
});

describe('hooks after the update', () => {
  const spec = hooks('after', { onTimeout: 'Proceed' }, {});

  it('are due when the update has ended, however it did', () => {
    const due = { 'After/hook/hook-0': 'Due', 'After/hook/hook-1': 'Due' };
    expect(planOf([monitored()], spec).specs[0]).toMatchObject({
      outcome: 'Succeeded',
      record: { jobs: due },
    });
    const failed = aManagedNode(
      'a',
      {},
      { spec: underWay('RebootedIntoUpdate'), status: { current_state: 'ErrorReset' } },
    );
    expect(planOf([failed], spec).specs[0]).toMatchObject({
      outcome: 'Failed',
      record: { jobs: due },
    });
  });

  it('run in their order while the node is idle, keeps its slot, and does not start', () => {
    const node = ended(records({ 'After/hook/hook-0': 'Due', 'After/hook/hook-1': 'Due' }));
    const made = planOf([node, aManagedNode('b')], spec);
    expect([started(made), outcomes(made)]).toEqual([['After/hook/hook-0'], []]);
    expect(made.counts).toMatchObject({ updating: 1, waiting: 1 });
    expect(progressing(made)).toContain('Updating: The update has ended; after it, the hook hook-0');
    expect(
      started(planOf([ended(records({ 'After/hook/hook-0': 'TimedOut', 'After/hook/hook-1': 'Due' }))], spec)),
    ).toEqual(['After/hook/hook-1']);
  });

  it('that have ended leave no record', () => {
    const made = planOf(
      [
        ended(
          records({ from: '1.20.0', to: '1.21.0', 'After/hook/hook-0': 'Succeeded', 'After/hook/hook-1': 'Succeeded' }),
        ),
      ],
      spec,
    );
    expect(made.checks.nodes).toMatchObject([{ records: null, event: undefined }]);
  });

  it('that fail are told by an Event, and the next ones do not run', () => {
    const made = planOf([ended(records({ 'After/hook/hook-0': 'Failed', 'After/hook/hook-1': 'Due' }))], spec);
    expect(made.checks.nodes).toMatchObject([
      {
        records: null,
        start: [],
        event: {
          reason: 'HookFailed',
          warning: true,
          message: expect.stringContaining('The hook hook-0 failed after the update') as string,
        },
      },
    ]);
    expect(made.failed).toEqual([]);
  });

  it('that take longer than their timeouts free the slot', () => {
    const { shadow, ...rest } = ended(records({ 'After/hook/hook-0': 'Started', 'After/hook/hook-1': 'Due' }));
    if (shadow === undefined) throw new Error('there is a shadow');
    const since = (ms: number): ManagedNode => ({
      ...rest,
      shadow: shadowView({ ...shadow, spec: { ...shadow.spec, state_transition_timestamp: ago(ms) } }),
    });
    expect(outcomes(planOf([since(20 * MINUTE), aManagedNode('b')], spec))).toEqual([]);
    expect(outcomes(planOf([since(28 * MINUTE), aManagedNode('b')], spec))).toEqual(['Started']);
  });
});
