/** What users ask of one node with annotations of its shadow. */
import {
  ABORT_ANNOTATION,
  RECORD_ANNOTATION,
  RETRY_ANNOTATION,
  SKIP_ANNOTATION,
  UPDATE_NOW_ANNOTATION,
} from '@brupop/shared/api/names';
import { readRecord, recordText } from '@brupop/shared/api/record';
import { aPod } from '@brupop/shared/testing/pods';
import type { Operation } from '@brupop/shared/api/shadow';
import type { ManagedNode } from '../cluster/snapshot.ts';
import {
  ago,
  aManagedNode,
  aNode,
  aSnapshot,
  failure,
  MINUTE,
  NEW,
  type NodeParts,
  NOW,
  OLD,
  podsOf,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { wholePlan as plan, type WholePlan as Plan } from '../whole-plan.ts';

const CLOSED = { maintenance: { windows: [{ schedule: '0 0 1 1 *', duration: '1h' }], margin: '0m' } };

const planOf = (nodes: readonly ManagedNode[], spec: object = {}): Plan => plan(aSnapshot(nodes, spec), NOW);
const outcomes = ({ specs }: Plan): string[] => specs.map(({ node, outcome }) => `${node.metadata.name} ${outcome}`);
const reasonOf = ({ conditions }: Plan): string | undefined => conditions.flat()[0]?.progressing.reason;
const messageOf = ({ conditions }: Plan): string => conditions.flat()[0]?.progressing.message ?? '';
/** The Events about requests that are refused, each with the annotation that is removed. */
const refusals = ({ records }: Plan): string[] =>
  records.flatMap(({ refused, event }) =>
    refused === undefined || event === undefined ? [] : [`${refused} ${event.reason}: ${event.message}`],
  );

const STEPS = {
  Staging: { spec: underWay('StagedAndPerformedUpdate'), status: { current_state: 'Idle' } },
  Staged: { spec: underWay('StagedAndPerformedUpdate') },
  Draining: during('Drain'),
  Activating: during('Activate'),
  Rebooting: during('Reboot'),
  Proving: {
    spec: underWay('MonitoringUpdate'),
    status: { current_version: NEW, current_state: 'RebootedIntoUpdate' },
  },
  'at rest': {},
  'at rest, up to date': { status: { current_version: NEW } },
} as const satisfies Record<string, ShadowParts>;
type Step = keyof typeof STEPS;

function during(operation: Operation): ShadowParts {
  const lastOperation = failure(undefined, { operation, state: 'Processing' });
  return {
    spec: underWay('RebootedIntoUpdate'),
    status: { current_state: 'StagedAndPerformedUpdate', lastOperation },
  };
}

const at = (step: Step, annotations: Record<string, string>, node: NodeParts = {}): ManagedNode => {
  const parts: ShadowParts = STEPS[step];
  return aManagedNode('a', node, { record: { startedAt: ago(MINUTE), from: OLD }, ...parts, annotations });
};

describe('abort', () => {
  const asked = { [ABORT_ANNOTATION]: 'true' };

  it.each<Step>(['Staging', 'Staged', 'Draining', 'Activating'])('ends an update that is %s', (step) => {
    const made = planOf([at(step, asked)]);
    expect([outcomes(made), refusals(made)]).toEqual([['a Aborted'], []]);
    const [change] = made.specs;
    expect(change?.spec).toMatchObject({ state: 'Idle', version: null });
    expect(change?.record).toMatchObject({ aborted: { version: NEW, at: ago(0) } });
    expect(change?.event).toMatchObject({ reason: 'UpdateAborted', warning: false });
  });

  it('is no failure of the version', () => {
    const { record } = planOf([at('Draining', asked)]).specs[0] ?? {};
    expect([record?.unsuccessful, record?.attempts, record?.failed]).toEqual([undefined, undefined, undefined]);
  });

  it.each<Step>(['Rebooting', 'Proving'])('is refused for an update that is %s, with an Event', (step) => {
    const made = planOf([at(step, asked)], { monitoring: { healthyFor: '10m', timeout: '30m' } });
    expect([outcomes(made), refusals(made)]).toEqual([
      [],
      [expect.stringMatching(/abort AbortRefused: The (?:host|node) .* so the update goes on\./u)],
    ]);
  });

  it('ends an update in spite of a pause that interrupts, so that the node does not start again after it', () => {
    expect(outcomes(planOf([at('Draining', asked)], { paused: true, pauseMode: 'Interrupt' }))).toEqual(['a Aborted']);
  });

  it('ends a reboot for settings, which waits for a retry as well', () => {
    const spec = { ...underWay('RebootedIntoUpdate'), version: OLD };
    const shadow = { ...during('Drain'), spec, record: { startedAt: ago(MINUTE), from: OLD }, annotations: asked };
    const [change] = planOf([aManagedNode('a', {}, shadow)]).specs;
    expect([change?.outcome, change?.record.aborted?.version]).toEqual(['Aborted', OLD]);
  });

  it.each<Step>(['at rest', 'at rest, up to date'])('is refused on a node that is %s', (step) => {
    expect(refusals(planOf([at(step, asked)], { paused: true }))).toEqual([
      `${ABORT_ANNOTATION} AbortRefused: No update of this node is under way, so none is ended`,
    ]);
  });

  it.each(['', 'yes', ' true', '\u0001'.repeat(300), 'x'.repeat(5_000)])('is refused with the value %j', (value) => {
    const made = planOf([at('Draining', { [ABORT_ANNOTATION]: value })]);
    expect(outcomes(made)).toEqual([]);
    expect(refusals(made)).toEqual([expect.stringContaining('abort: expected "true", found "')]);
    expect(refusals(made)[0]?.length).toBeLessThan(400);
  });

  describe('leaves a node that', () => {
    const aborted = { startedAt: ago(60 * MINUTE), aborted: { version: NEW, at: ago(50 * MINUTE) } };
    const after = (parts: ShadowParts, spec: object = {}): Plan =>
      planOf([aManagedNode('a', {}, { record: aborted, ...parts }), aManagedNode('b')], {
        concurrency: { maxUpdating: 1 },
        ...spec,
      });

    it('does not start again by itself, and lets others start', () => {
      const made = after({});
      expect([outcomes(made), reasonOf(made)]).toEqual([['b Started'], 'Aborted']);
      expect(messageOf(made)).toContain(`${RETRY_ANNOTATION}=${NEW} or: kubectl brupop retry a`);
    });

    it('is not asked for by update-now alone', () => {
      expect(reasonOf(after({ annotations: { [UPDATE_NOW_ANNOTATION]: NEW } }))).toBe('Aborted');
    });

    it('starts again on request, and then knows nothing of it', () => {
      const [change] = planOf([
        aManagedNode('a', {}, { record: aborted, annotations: { [RETRY_ANNOTATION]: NEW } }),
      ]).specs;
      expect([change?.outcome, change?.record.aborted]).toEqual(['Started', undefined]);
    });

    it('starts with another version', () => {
      const made = planOf([aManagedNode('a', {}, { record: aborted, status: { target_version: '1.22.0' } })]);
      expect(outcomes(made)).toEqual(['a Started']);
    });
  });
});

describe('update-now', () => {
  const asked = { [UPDATE_NOW_ANNOTATION]: NEW };
  const one = { concurrency: { maxUpdating: 1 } };

  it('starts a node before others, also before one with a higher priority', () => {
    const first = aManagedNode('b', { annotations: { 'brupop.bottlerocket.aws/priority': '9' } });
    const made = planOf([aManagedNode('a'), first, aManagedNode('c', {}, { annotations: asked })], one);
    expect(outcomes(made)).toEqual(['c Started']);
    expect(made.specs[0]?.record.updateNow).toBe(true);
    expect(made.specs[0]?.event?.message).toBe(
      `Updating from ${OLD} to ${NEW}, as the annotation ${UPDATE_NOW_ANNOTATION} asks`,
    );
  });

  it('starts a node outside of the windows', () => {
    expect(outcomes(planOf([aManagedNode('a'), at('at rest', asked)], CLOSED))).toEqual(['a Started']);
    expect(outcomes(planOf([aManagedNode('a')], CLOSED))).toEqual([]);
  });

  const staged = (updateNow?: true): ManagedNode =>
    aManagedNode('a', {}, { ...STEPS.Staged, record: { startedAt: ago(MINUTE), from: OLD, updateNow } });

  it('drains the node outside of the windows as well', () => {
    expect(outcomes(planOf([staged(true)], CLOSED))).toEqual(['a Advanced']);
    expect(outcomes(planOf([staged()], CLOSED))).toEqual(['a Deferred']);
  });

  it('holds for one attempt: the next one waits for a window', () => {
    const record = { startedAt: ago(60 * MINUTE), from: OLD, updateNow: true, unsuccessful: 1 } as const;
    expect(reasonOf(planOf([aManagedNode('a', {}, { record })], CLOSED))).toBe('OutsideMaintenanceWindow');
    expect(planOf([aManagedNode('a', {}, { record })]).specs[0]?.record.updateNow).toBeUndefined();
  });

  const BLACKOUT = { maintenance: { blackouts: [{ from: ago(MINUTE), to: ago(-MINUTE), reason: 'sale' }] } };
  const SOON = { maintenance: { blackouts: [{ from: ago(-MINUTE), to: ago(-5 * MINUTE) }] } };

  it.each<[string, object, ManagedNode]>([
    ['Paused', { paused: true }, at('at rest', asked)],
    ['Blackout', BLACKOUT, at('at rest', asked)],
    ['Blackout', SOON, at('at rest', asked)],
    ['Skipped', {}, at('at rest', asked, { annotations: { [SKIP_ANNOTATION]: 'true' } })],
    ['NodeNotReady', {}, at('at rest', asked, { ready: false })],
    ['CordonedExternally', {}, at('at rest', asked, { unschedulable: true })],
    ['VersionDenied', { versions: { deny: [NEW] } }, at('at rest', asked)],
    ['MinimumAgeNotReached', { versions: { minimumAge: '30m' } }, at('at rest', asked)],
    ['InvalidConfiguration', { concurrency: { maxUpdating: 'many' }, ...CLOSED }, at('at rest', asked)],
    [
      'InvalidConfiguration',
      { maintenance: { windows: [{ schedule: 'never', duration: '1h' }] } },
      at('at rest', asked),
    ],
  ])('waits for %s as without it, and its condition says so', (reason, spec, node) => {
    const made = planOf([node], spec);
    expect([outcomes(made), reasonOf(made), refusals(made)]).toEqual([[], reason, []]);
    expect(messageOf(made)).toContain(`The annotation ${UPDATE_NOW_ANNOTATION} asks for ${NEW} now`);
  });

  it('waits for the end of all blackouts between which it does not fit, and names the one in effect', () => {
    const next = { from: ago(-30 * MINUTE), to: ago(-600 * MINUTE), reason: 'sale' };
    const current = { from: ago(MINUTE), to: ago(-10 * MINUTE), reason: 'audit' };
    const made = planOf([at('at rest', asked)], { maintenance: { ...CLOSED.maintenance, blackouts: [next, current] } });
    expect([outcomes(made), reasonOf(made)]).toEqual([[], 'Blackout']);
    expect(messageOf(made)).toContain(`during this blackout: audit; updates may start at ${ago(-600 * MINUTE)}.`);
  });

  it('waits for capacity', () => {
    const busy = aManagedNode('z', {}, { ...STEPS.Staging, record: { startedAt: ago(MINUTE) } });
    const made = planOf([at('at rest', asked), busy], one);
    expect([outcomes(made), reasonOf(made)]).toEqual([[], 'WaitingForCapacity']);
  });

  it('does not drain a staged node during a blackout, or by windows with a mistake', () => {
    expect(outcomes(planOf([staged(true)], BLACKOUT))).toEqual(['a Deferred']);
    const mistake = { maintenance: { windows: [{ schedule: 'never', duration: '1h' }] } };
    expect(outcomes(planOf([staged(true)], mistake))).toEqual(['a Deferred']);
  });

  it('is one of the first nodes of a version, and needs the approval of the others', () => {
    const rollout = { canary: { nodes: 1 }, approval: 'Required' };
    const made = planOf([aManagedNode('z', {}, { status: { current_version: NEW } }), at('at rest', asked)], {
      rollout,
    });
    expect(outcomes(made)).toEqual([]);
    expect(['Soaking', 'WaitingForApproval', 'WaitingForCanary']).toContain(
      made.conditions.flat().at(-1)?.progressing.reason,
    );
  });

  it.each<[string, Step, string, string]>([
    ['another version than the next one', 'at rest', '1.22.0', `expected ${NEW}, the version that`],
    [
      'another version than that of the update',
      'Staging',
      '1.22.0',
      `An update to ${NEW} is under way, so none to 1.22.0`,
    ],
    ['the version of the update', 'Draining', NEW, `An update to ${NEW} is under way`],
    ['the version that the node runs', 'at rest, up to date', NEW, `The node runs ${NEW} already`],
    ['a version that is not offered', 'at rest, up to date', '1.22.0', `The node is to run ${NEW}, as it does`],
    ['an empty value', 'at rest', '', 'expected a version such as 1.21.0, found ""'],
    ['garbage', 'at rest', 'latest', 'expected a version such as 1.21.0, found "latest"'],
    ['a value that is far too long', 'at rest', '1'.repeat(9_999), 'expected a version such as 1.21.0, found "111'],
  ])('is refused for %s', (_, step, value, message) => {
    const made = planOf([at(step, { [UPDATE_NOW_ANNOTATION]: value })], { paused: true, ...CLOSED });
    expect(refusals(made)).toEqual([expect.stringContaining(message)]);
    expect(refusals(made)[0]?.startsWith(`${UPDATE_NOW_ANNOTATION} UpdateNowRefused: `)).toBe(true);
  });

  it('waits for an agent that has not confirmed that the node is at rest', () => {
    const silent = aManagedNode('a', {}, { annotations: asked, status: { observedGeneration: 2 } });
    const unseen = aManagedNode('a', {}, { annotations: asked, status: null });
    for (const made of [planOf([silent]), planOf([unseen])]) expect([outcomes(made), refusals(made)]).toEqual([[], []]);
  });

  it('does not reboot a node for settings of the version that it runs', () => {
    expect(refusals(planOf([at('at rest', { [UPDATE_NOW_ANNOTATION]: OLD })], { paused: true }))).toEqual([
      expect.stringContaining(`The node runs ${OLD} already`),
    ]);
  });
});

describe('update-now ends after a day:', () => {
  const DAY = 24 * 60 * MINUTE;
  const annotations = { [UPDATE_NOW_ANNOTATION]: NEW };
  const since = (ms: number): ShadowParts => ({
    annotations,
    record: { from: OLD, asked: { version: NEW, at: ago(ms) } },
  });
  const waiting = (parts: ShadowParts): Plan => planOf([aManagedNode('a', {}, parts)], { paused: true });
  const recorded = ({ records }: Plan): unknown => records.map(({ record, refused }) => [record.asked, refused]);

  it('the time is recorded with one write when the request is first seen, and nothing is written after that', () => {
    expect(recorded(waiting({ annotations }))).toEqual([[{ version: NEW, at: ago(0) }, undefined]]);
    for (const ms of [0, 1_000, DAY - 1_000]) expect(recorded(waiting(since(ms)))).toEqual([]);
  });

  it('the time is recorded with what is written anyway', () => {
    const unhealthy = aManagedNode('a', {}, { annotations });
    const snapshot = aSnapshot([unhealthy], {});
    const pods = new Map([['a', podsOf(aNode({ name: 'a' }), [aPod('web', { failing: true })], NOW)]]);
    const [only, ...others] = plan({ ...snapshot, pods }, NOW).records;
    expect(only?.record).toMatchObject({ podsWaitSince: ago(0), asked: { version: NEW, at: ago(0) } });
    expect(others).toEqual([]);
  });

  it('the controller looks again at its end, and not before', () => {
    expect(waiting(since(MINUTE)).wakeAt).toBe(NOW - MINUTE + DAY);
    expect(waiting({}).wakeAt).not.toBe(NOW - MINUTE + DAY);
  });

  it('the request is refused with what it waited for, and what is recorded of it is removed in the same write', () => {
    const made = waiting(since(DAY));
    expect(recorded(made)).toEqual([[undefined, UPDATE_NOW_ANNOTATION]]);
    expect(made.records[0]?.record.from).toBe(OLD);
    expect(refusals(made)).toEqual([
      `${UPDATE_NOW_ANNOTATION} UpdateNowRefused: The annotation ${UPDATE_NOW_ANNOTATION} asks for ${NEW} since ` +
        `${ago(DAY)}, and has expired after 24 hours. Remove the cause, and set the annotation again. The cause: ` +
        'Paused: BrupopConfig "cluster" pauses all updates',
    ]);
    expect(messageOf(made)).not.toContain(UPDATE_NOW_ANNOTATION);
  });

  it('an agent that never confirms that the node is at rest does not extend it', () => {
    const status = { observedGeneration: 2 };
    expect(refusals(planOf([aManagedNode('a', {}, { ...since(DAY), status })]))).toEqual([
      expect.stringContaining('has expired after 24 hours'),
    ]);
  });

  it('one that has expired while no controller ran starts nothing outside of the windows', () => {
    const node = (ms: number): ManagedNode => aManagedNode('a', {}, since(ms));
    expect(outcomes(planOf([node(DAY - 1_000)], CLOSED))).toEqual(['a Started']);
    expect(outcomes(planOf([node(DAY)], CLOSED))).toEqual([]);
    const [change] = planOf([node(DAY)]).specs;
    expect([change?.outcome, change?.record.updateNow, change?.record.asked]).toEqual([
      'Started',
      undefined,
      undefined,
    ]);
  });

  it('the start of the update removes what is recorded', () => {
    const [change] = planOf([aManagedNode('a', {}, since(MINUTE))]).specs;
    expect([change?.record.updateNow, change?.record.asked]).toEqual([true, undefined]);
  });

  it.each<[string, ShadowParts, unknown]>([
    ['the annotation is removed', { record: since(DAY).record ?? {} }, undefined],
    [
      'it is set again with another value',
      { ...since(DAY), annotations: { [UPDATE_NOW_ANNOTATION]: `v${NEW}` } },
      { version: `v${NEW}`, at: ago(0) },
    ],
    ['the time is still to come', since(-MINUTE), { version: NEW, at: ago(0) }],
  ])('the time is recorded anew if %s', (_, parts, expected) => {
    expect(recorded(waiting(parts))).toEqual([[expected, undefined]]);
  });

  it('a record that cannot be read makes it no longer, and is left as it is', () => {
    const made = waiting({ annotations, record: { from: OLD, isUnreadable: true } });
    expect(refusals(made)).toEqual([expect.stringContaining('cannot be read, so it is not known since when: retry')]);
    expect(made.records[0]?.record).toEqual({ from: OLD, isUnreadable: true });
  });

  it('a long value is recorded as its first characters, which can be read', () => {
    const value = `${NEW}+${'a'.repeat(150)}`;
    const [first] = waiting({ annotations: { [UPDATE_NOW_ANNOTATION]: value } }).records;
    const text = recordText(first?.record ?? {}) ?? '';
    const record = readRecord({ annotations: { [RECORD_ANNOTATION]: text } });
    expect([record.isUnreadable, record.asked?.version]).toEqual([undefined, value.slice(0, 100)]);
    expect(recorded(waiting({ annotations: { [UPDATE_NOW_ANNOTATION]: value }, record }))).toEqual([]);
  });
});

it('refuses one request after the other, each with its own Event', () => {
  const both = { [ABORT_ANNOTATION]: 'true', [UPDATE_NOW_ANNOTATION]: 'x' };
  const made = planOf([at('at rest', both)], { paused: true });
  expect(made.records.map(({ refused }) => refused)).toEqual([ABORT_ANNOTATION]);
  const left = planOf([at('at rest', { [UPDATE_NOW_ANNOTATION]: 'x' })], { paused: true });
  expect(left.records.map(({ refused }) => refused)).toEqual([UPDATE_NOW_ANNOTATION]);
  expect(planOf([at('at rest', {})], { paused: true }).records).toEqual([]);
});
