import { RECORD_ANNOTATION, RETRY_ANNOTATION, UPDATE_NOW_ANNOTATION } from '@brupop/shared/api/names';
import type { NodeRecord } from '@brupop/shared/api/record';
import { KubeError } from '@brupop/shared/kube/error';
import { RELEASE } from '@brupop/shared/runtime/build';
import type { TextRequest } from '../cluster/client.ts';
import { approve, resume, retry, updateNow } from './change.ts';
import type { Context } from './context.ts';

const SERVER_TIME = 1_796_000_000_000;
const AT = '2026-11-22T10:00:00Z';

interface World {
  readonly spec?: object;
  readonly groups?: readonly object[];
  readonly frozen?: readonly string[];
  readonly record?: NodeRecord;
  /** Of the shadow. */
  readonly shadowSpec?: object;
  readonly status?: object;
  /** Of the condition Progressing. */
  readonly reason?: string;
  readonly waitingFor?: string;
  /** Of the user. */
  readonly now?: number;
}

/** A context with one node, which runs 1.20.0 and is offered 1.21.0, and what is written with it. */
function worldOf({ spec = {}, groups = [], frozen = [], record = {}, status, reason, waitingFor, ...more }: World) {
  const patches: unknown[] = [];
  const printed: string[] = [];
  const progressing = { type: 'Progressing', status: 'False', reason, message: '', lastTransitionTime: AT };
  const metadata = { uid: 'a', resourceVersion: '1', generation: 1, namespace: 'brupop' };
  const shadow = {
    metadata: { ...metadata, name: 'brs-a', annotations: { [RECORD_ANNOTATION]: JSON.stringify(record) } },
    spec: { state: 'Idle', ...more.shadowSpec },
    status: {
      current_state: 'Idle',
      current_version: '1.20.0',
      target_version: '1.21.0',
      observedGeneration: 1,
      waitingFor,
      ...(reason !== undefined && { conditions: [progressing] }),
      ...status,
    },
  };
  const frozenVersions = frozen.map((version) => ({ version, since: AT }));
  const config = {
    metadata: { ...metadata, name: 'cluster' },
    spec,
    status: { observedGeneration: 1, release: RELEASE, frozenVersions },
  };
  const lists = { brupopconfigs: [config], bottlerocketshadows: [shadow], bottlerocketnodegroups: groups };
  const answerTo = ({ method, path, body }: TextRequest): object => {
    if (path.includes('/leases/')) throw new KubeError(404, 'NotFound', path);
    if (method === 'PATCH') patches.push(body);
    const [, items = []] = Object.entries(lists).find(([plural]) => path.endsWith(`/${plural}`)) ?? [];
    return { metadata: { resourceVersion: '1' }, items, spec };
  };
  const client: Partial<Context['client']> = {
    time: async () => await Promise.resolve(SERVER_TIME),
    request: async <T>(request: TextRequest) => await Promise.resolve(answerTo(request) as T),
  };
  const context = {
    client,
    clock: { now: () => more.now ?? SERVER_TIME },
    screen: { width: 1_000 },
    print: (text: string) => printed.push(text),
    warn: (text: string) => printed.push(text),
  } as unknown as Context;
  return { context, patches, printed };
}

const annotated = (annotations: object): object[] => [{ metadata: { annotations } }];

it.each([
  ['slow', SERVER_TIME - 3_600_000],
  ['fast', SERVER_TIME + 3_600_000],
])('failures are accepted up to the time of the API server, although the clock of the user is %s', async (_, now) => {
  const { context, patches, printed } = worldOf({ now });
  await resume(context, { failures: true });
  expect(patches).toEqual([{ spec: { rollout: { resume: '2026-11-30T00:53:20Z' } } }]);
  expect(printed.join('')).toContain('Failures of the fleet up to 2026-11-30T00:53:20Z are accepted');
});

it('accepting the failures of a group ends no freeze of the fleet, and says so', async () => {
  const { context, printed } = worldOf({});
  await resume(context, { failures: true, group: 'web' });
  expect(printed.join('')).toBe(
    'Failures of the group web up to 2026-11-30T00:53:20Z are accepted: they do not count for its own budget, hold ' +
      'no slot, and send no node back to its previous version. A freeze of the fleet and a hold go on. A pause is not ended.\n',
  );
});

it.each([
  ['one of the fleet', { spec: { paused: true } }, {}, 'The pause of the fleet is over.'],
  ['none of the fleet', {}, {}, 'There was no pause of the fleet.'],
  [
    'none of a group',
    {},
    { group: 'web' },
    'There was no pause of the group web. A pause of the fleet holds for its nodes as well.',
  ],
])('resume says whether there was a pause: %s', async (_, world, of, said) => {
  const { context, patches, printed } = worldOf(world);
  await resume(context, { failures: false, ...of });
  expect(patches).toEqual([{ spec: { paused: false, pauseReason: null, pauseMode: null } }]);
  expect(printed.join('')).toBe(`${said}\n`);
});

it('an approval of the fleet names the groups that wait for one of their own', async () => {
  const group = (name: string, rollout?: object): object => ({
    metadata: { name },
    spec: { nodeSelector: {}, rollout },
  });
  const groups = [
    group('without'),
    group('budget', { failureBudget: 2 }),
    group('canaries', { canary: { nodes: 2 } }),
    group('approved', { approval: 'Required', approvedVersion: '1.21.0' }),
    group('free', { approval: 'NotRequired' }),
  ];
  const required = worldOf({ spec: { rollout: { approval: 'Required' } }, groups });
  await approve(required.context, '1.21.0', {});
  expect(required.printed.join('')).toBe(
    '1.21.0 is approved for the fleet. Nodes of groups with an approval of their own still wait for it, with --group: ' +
      'canaries.\n',
  );
  const { context, printed } = worldOf({ groups: [...groups, group('ledger', { approval: 'Required' })] });
  await approve(context, '1.21.0', {});
  expect(printed.join('')).toBe(
    'warning: spec.rollout.approval is not Required, so no version needs an approval of the fleet\n' +
      '1.21.0 is approved for the fleet. Nodes of groups with an approval of their own still wait for it, with --group: ' +
      'ledger.\n',
  );
});

describe('a node that is to go back to its previous version', () => {
  const record = { rollback: { failed: '1.21.0', previous: '1.20.0', since: AT, isDone: false } };
  const spec = { versions: { pin: '1.21.0' } };

  it('retries that, although the fleet is pinned to the version that failed', async () => {
    const status = { current_version: '1.21.0', target_version: '1.20.0' };
    const { context, patches } = worldOf({ record, spec, status, reason: 'Aborted' });
    await retry(context, 'a');
    expect(patches).toEqual(annotated({ [RETRY_ANNOTATION]: '1.20.0' }));
  });

  it('retries the one that failed when it has gone back', async () => {
    const done = { rollback: { ...record.rollback, isDone: true } };
    const { context, patches } = worldOf({ record: done, spec, reason: 'Reverted' });
    await retry(context, 'a');
    expect(patches).toEqual(annotated({ [RETRY_ANNOTATION]: '1.21.0' }));
  });
});

const pending = [{ key: 'settings.kernel.lockdown', class: 'NeedsReboot', reason: 'it is read at boot' }];
const needsReboot = { settings: { records: [], pending } };

it.each(['AgentNotResponding', 'ChangingSettings', 'OutsideMaintenanceWindow'])(
  'a retry without a reboot for settings is refused for a node that runs the version, with %s',
  async (reason) => {
    const { context, patches } = worldOf({ status: { current_version: '1.21.0' }, reason, waitingFor: reason });
    await expect(retry(context, 'a')).rejects.toThrow(
      `node a: it runs 1.21.0, which a retry does not change: see ${reason} in docs/runbook.md`,
    );
    expect(patches).toEqual([]);
  },
);

it.each(['CheckFailed', 'HostLocked', 'HostSettingsNotApplied', 'SettingsConflict', 'UpdateCheckFailed'])(
  'a retry that %s would ignore is refused',
  async (reason) => {
    const status = { current_version: '1.21.0', ...needsReboot };
    const { context, patches } = worldOf({ status, reason, waitingFor: reason });
    await expect(retry(context, 'a')).rejects.toThrow(
      `node a: it runs 1.21.0, which a retry does not change: see ${reason} in docs/runbook.md`,
    );
    expect(patches).toEqual([]);
  },
);

it('a reboot for settings is retried after a check that failed before its drain', async () => {
  const waitingFor = 'CheckFailed until 2026-11-22T11:00:00Z';
  const status = { current_version: '1.21.0', ...needsReboot };
  const { context, patches } = worldOf({ status, reason: 'CheckFailed', waitingFor });
  await retry(context, 'a');
  expect(patches).toEqual(annotated({ [RETRY_ANNOTATION]: '1.21.0' }));
});

it('an update that is staged is not retried: the request would be followed after its failure', async () => {
  const shadowSpec = { state: 'StagedAndPerformedUpdate', version: '1.21.0', state_transition_timestamp: AT };
  const { context } = worldOf({ shadowSpec, status: { current_state: 'StagedAndPerformedUpdate' } });
  await expect(retry(context, 'a')).rejects.toThrow('node a: expected a node at rest, found an update to 1.21.0');
});

it.each([
  ['Backoff', 'retry'],
  ['Aborted', 'retry'],
  ['Skipped', 'unskip'],
])('update-now of a node with the reason %s names the command that ends it', async (reason, command) => {
  const { context, printed } = worldOf({ reason });
  await updateNow(context, 'a', {});
  expect(printed.join('')).toContain(` It also waits for ${reason}, until "kubectl brupop ${command} a".`);
});

it.each([
  ['Skipped', ' It also waits for Skipped, until "kubectl brupop unskip a".'],
  ['Backoff', ''],
])('retry of a node with the reason %s says what it does not end', async (reason, rest) => {
  const { context, printed } = worldOf({ reason });
  await retry(context, 'a');
  expect(printed.join('')).toBe(
    `a retries 1.21.0 without waiting for its backoff. Limits and windows hold as before.${rest}\n`,
  );
});

it('update-now of a node that waits for its turn names no other command', async () => {
  const { context, patches, printed } = worldOf({ reason: 'WaitingForCapacity' });
  await updateNow(context, 'a', {});
  expect(patches).toEqual(annotated({ [UPDATE_NOW_ANNOTATION]: '1.21.0' }));
  expect(printed.join('')).not.toContain('It also waits');
});

it.each([
  ['retry', retry],
  ['update-now', async (context: Context, node: string) => await updateNow(context, node, {})],
])('%s of a node whose version is frozen says what ends that', async (_, run) => {
  const { context, printed } = worldOf({ frozen: ['1.21.0'], reason: 'Reverted' });
  await run(context, 'a');
  expect(printed.join('')).toContain(' a waits, since 1.21.0 is frozen, until "kubectl brupop resume --failures".');
});

it('update-now does not ask for another version than the one that is pinned', async () => {
  const { context, patches } = worldOf({ spec: { versions: { pin: '1.20.5' } } });
  await expect(updateNow(context, 'a', {})).rejects.toThrow(
    'node a: expected its host to offer 1.20.5, which is pinned, found 1.21.0',
  );
  expect(patches).toEqual([]);
});
