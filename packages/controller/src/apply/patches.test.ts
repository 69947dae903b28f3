import {
  ABORT_ANNOTATION,
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  RECORD_ANNOTATION,
  RETRY_ANNOTATION,
  UPDATE_NOW_ANNOTATION,
} from '@brupop/shared/api/names';
import type { ObjectMeta } from '@brupop/shared/api/meta';
import { readRecord, recordText } from '@brupop/shared/api/record';
import { RESTORE_ERROR } from '@brupop/shared/api/shadow';
import { eventOf } from '@brupop/shared/kube/events';
import { agentNotResponding, updating, upToDate } from '../plan/condition.ts';
import { idle, startSpec, type Transition } from '../plan/specs/transition.ts';
import { type SpecChange, specChange } from '../plan/specs/spec-change.ts';
import {
  ago,
  aNode,
  aShadow,
  failure,
  MINUTE,
  NEW,
  NOW,
  OLD,
  POLICY,
  type ShadowParts,
  underWay,
} from '../testing/objects.ts';
import { prunePatch, restorePatch } from './nodes.ts';
import { conditionOf } from './conditions.ts';
import { annotationsOf, patchOf } from './shadows.ts';
import { Moment } from '../kept/moment.ts';

const AT_NOW = { policy: POLICY, now: new Moment(NOW) };

const write = (parts: ShadowParts, transition: Transition): SpecChange =>
  specChange(transition, { shadow: aShadow(parts), node: aNode() });

describe('the patch of a spec', () => {
  it('has the UID and resourceVersion that it was planned from', () => {
    expect(patchOf(write({}, { spec: startSpec(NEW, POLICY, new Moment(NOW)), outcome: 'Started' }))).toEqual({
      metadata: {
        uid: 'shadow-node-a',
        resourceVersion: '1',
        annotations: { [RECORD_ANNOTATION]: recordText({ startedAt: ago(0), from: OLD }) },
      },
      spec: {
        state: 'StagedAndPerformedUpdate',
        version: NEW,
        state_transition_timestamp: ago(0),
        timeoutSeconds: 2_700,
        settings: null,
      },
    });
  });

  it.each<[string, string, SpecChange['outcome']]>([
    [RETRY_ANNOTATION, NEW, 'Started'],
    [UPDATE_NOW_ANNOTATION, NEW, 'Started'],
    [ABORT_ANNOTATION, 'true', 'Aborted'],
    [RETRY_ANNOTATION, NEW, 'Aborted'],
  ])('removes the annotation %s=%s with the outcome %s only', (name, value, outcome) => {
    const parts = { annotations: { [name]: value } };
    const used = { metadata: { annotations: { [name]: null } } };
    const spec = startSpec(NEW, POLICY, new Moment(NOW));
    expect(patchOf(write(parts, { spec, outcome }))).toMatchObject(used);
    expect(patchOf(write(parts, idle(AT_NOW, 'Failed')))).not.toMatchObject(used);
    expect(patchOf(write({}, { spec, outcome }))).not.toMatchObject(used);
  });

  it.each([
    ['leaves the request to retry the version that failed', NEW, false],
    ['uses up the request to retry the previous version', OLD, true],
    ['uses up a request that names no version', 'true', true],
  ])('of a node that goes back %s', (_, asked, isUsed) => {
    const rollback = { failed: NEW, previous: OLD, since: ago(MINUTE), isDone: false };
    const parts = {
      annotations: { [RETRY_ANNOTATION]: asked },
      record: { rollback },
      status: { current_version: NEW },
    };
    const change = write(parts, { spec: startSpec(OLD, POLICY, new Moment(NOW)), outcome: 'Started' });
    expect(Object.keys(annotationsOf(change)).includes(RETRY_ANNOTATION)).toBe(isUsed);
  });
});

describe('the count of unsuccessful attempts', () => {
  const counted = (count: number | undefined, outcome: SpecChange['outcome']): unknown => {
    const record = count === undefined ? {} : { unsuccessful: count };
    const patch = patchOf(write({ record }, idle(AT_NOW, outcome))) as { metadata: ObjectMeta };
    return 'annotations' in patch.metadata ? readRecord(patch.metadata).unsuccessful : 'unwritten';
  };
  const cases: Record<string, [unknown, unknown]> = {
    'starts with the first': [counted(undefined, 'Cancelled'), 1],
    'grows with the next': [counted(2, 'Cancelled'), 3],
    'grows when the agent reports a failure': [counted(2, 'Failed'), 3],
    'stays when the version is no longer offered': [counted(2, 'Withdrawn'), 2],
    'is removed after a success': [counted(2, 'Succeeded'), undefined],
    'is not written when there is none': [counted(undefined, 'Succeeded'), undefined],
  };
  it.each(Object.entries(cases))('%s', (_, [found, expected]) => expect(found).toBe(expected));
});

const BY = { component: 'brupop-controller', instance: 'pod' };

describe('an Event', () => {
  const started = write({}, { spec: startSpec(NEW, POLICY, new Moment(NOW)), outcome: 'Started' }).event;
  const failed = write(
    {
      spec: underWay('RebootedIntoUpdate'),
      status: { lastOperation: failure('DrainTimedOut', { message: 'web-0' }) },
    },
    idle(AT_NOW, 'Failed'),
  ).event;

  it('has the versions of a start and the error code of a failure', () => {
    expect(started?.message).toBe('Updating from 1.20.0 to 1.21.0');
    expect(failed?.message).toBe('The update to 1.21.0 failed: DrainTimedOut: web-0');
  });

  it('has the reason of a cancelled update', () => {
    const because = { reason: 'DeadlineExceeded', message: 'it took too long' } as const;
    const cancelled = write({}, { ...idle(AT_NOW, 'Cancelled'), because }).event;
    expect(cancelled).toMatchObject(because);
  });

  it('is recorded for each step', () => {
    expect(write({}, idle(AT_NOW, 'Advanced')).event).toMatchObject({ reason: 'UpdateAdvanced', warning: false });
  });

  it('has the same name for the same occurrence, and another name for another occurrence', () => {
    if (started === undefined || failed === undefined) throw new Error('expected two Events');
    const nameOf = (occurrence: typeof started, now: number): string =>
      (eventOf(occurrence, BY, { now, micros: 0, second: now / 1000 }) as { metadata: { name: string } }).metadata.name;
    expect(nameOf(started, NOW)).toBe(nameOf(started, NOW - MINUTE));
    expect(nameOf(started, NOW)).not.toBe(nameOf(failed, NOW));
    expect(nameOf(started, NOW)).not.toBe(nameOf({ ...started, key: 'later' }, NOW));
  });

  it('is cut to the length that the API server accepts', () => {
    if (failed === undefined) throw new Error('expected an Event');
    const { message } = eventOf({ ...failed, message: 'x'.repeat(5_000) }, BY, { now: NOW, micros: 0, second: 0 }) as {
      message: string;
    };
    expect(message.length).toBeLessThanOrEqual(1_024);
  });
});

describe('lastTransitionTime of Progressing', () => {
  const before = conditionOf({ shadow: aShadow(), progressing: upToDate(NEW, false) }, NOW - MINUTE);

  it('stays while the status does', () => {
    const shadow = aShadow({ progressing: before });
    expect(conditionOf({ shadow, progressing: upToDate('1.22.0', false) }, NOW).lastTransitionTime).toBe(ago(MINUTE));
  });

  it('is now when the status changes', () => {
    const shadow = aShadow({ progressing: before });
    expect(conditionOf({ shadow, progressing: updating(NEW) }, NOW).lastTransitionTime).toBe(ago(0));
  });
});

test('the patch that restores a Node has the UID and resourceVersion that were read', () => {
  const node = aNode({ annotations: { [CORDONED_ANNOTATION]: ago(0) }, unschedulable: true });
  expect(restorePatch(node)).toMatchObject({
    metadata: { uid: 'uid-node-a', resourceVersion: '1', annotations: { [CORDONED_ANNOTATION]: null } },
    spec: { unschedulable: null },
  });
});

test('the patch of orphaned annotations removes these and leaves everything else', () => {
  const annotations = { [CORDONED_ANNOTATION]: ago(0), [EXCLUDED_ANNOTATION]: ago(0) };
  const labels = { [EXCLUSION_LABEL]: 'true' };
  expect(prunePatch(aNode({ annotations, labels }))).toEqual({
    metadata: { uid: 'uid-node-a', resourceVersion: '1', annotations: { [CORDONED_ANNOTATION]: null } },
  });
});

describe('an agent that does not confirm its spec', () => {
  const isBlocked = 'no step starts for 7 min';

  it('is quoted while its step is in progress', () => {
    const step = failure('HostBusy', { operation: 'Reboot', state: 'Processing', message: isBlocked });
    expect(agentNotResponding(step).message).toContain(isBlocked);
  });

  it('is quoted while it cannot restore the Node', () => {
    const step = failure('HostBusy', { message: `${RESTORE_ERROR}PATCH /api/v1/nodes/a: 403` });
    expect(agentNotResponding(step).message).toContain('PATCH /api/v1/nodes/a: 403');
  });

  it.each([undefined, failure('HostBusy', { message: isBlocked })])('is not quoted after its step: %j', (last) => {
    expect(agentNotResponding(last).message).toBe(
      'The agent does not confirm the spec; check whether its pod runs on the node. If the Node was deleted and created again ' +
        'while the pod ran, its token is for the former Node: delete the pod',
    );
  });
});
