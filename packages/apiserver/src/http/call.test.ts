import { pinRecords } from '@brupop/shared/testing/settings';
import fc from 'fast-check';
import { specReference, statusReport } from '@brupop/shared/api/agent-protocol';
import { MESSAGE_LIMIT } from '@brupop/shared/api/shadow';
import { caught } from '../../../../test/framework/caught.ts';
import { EventEmitter } from 'node:events';
import type { Response } from 'express';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { readAs, withinLimit } from './call.ts';

const operation = {
  operation: 'Drain',
  state: 'Processing',
  version: '1.21.0',
  bootID: 'b-1',
  startTime: '2026-01-02T03:04:05Z',
  lastUpdateTime: '2026-01-02T03:04:05.123456+01:00',
};

const status = {
  current_state: 'Idle',
  current_version: '1.20.0',
  target_version: '1.21.0-rc.1+build.5',
  crash_count: 0,
  observedGeneration: 3,
  bootID: '6a7b1c2d-0000-4000-8000-000000000001',
};

const report = (changes: object): unknown => ({ shadowUID: 'u-1', status: { ...status, ...changes } });

/** What is read, or the code of the rejection. */
function readOrCode(body: unknown): unknown {
  try {
    return readAs(statusReport, body);
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

describe('a status report', () => {
  const [setting] = pinRecords({ versionLock: '1.21.0' });

  it.each([
    ['only the required fields', {}],
    ['no failure time', { state_transition_failure_timestamp: null }],
    ['a failure time', { state_transition_failure_timestamp: '2026-01-02T03:04:05Z' }],
    ['an operation', { lastOperation: operation }],
    ['a failed operation', { lastOperation: { ...operation, state: 'Failed', errorCode: 'RolledBack', message: 'é' } }],
    ['the time of its boot', { bootTime: '2026-01-02T03:04:05Z' }],
    ['host settings that are not in force', { settings: { message: 'the host refuses them' } }],
    [
      'host settings',
      {
        settings: { records: pinRecords({ versionLock: '1.21.0', ignoreWaves: true }, { versionLock: 'v1.20.0' }) },
      },
    ],
  ])('with %s is accepted as it is', (_what, changes) => {
    expect(readAs(statusReport, report(changes))).toEqual(report(changes));
  });

  it.each([
    ['body.status.current_state', { current_state: 'idle' }],
    ['body.status.current_version', { current_version: 'v1.2.3' }],
    ['body.status.current_version', { current_version: '1.2' }],
    ['body.status.current_version', { current_version: '01.2.3' }],
    ['body.status.target_version', { target_version: `1.2.3-${'a'.repeat(200)}` }],
    ['body.status.crash_count', { crash_count: -1 }],
    ['body.status.crash_count', { crash_count: 1.5 }],
    ['body.status.crash_count', { crash_count: 2 ** 31 }],
    ['body.status.crash_count', { crash_count: '1' }],
    ['body.status.observedGeneration', { observedGeneration: undefined }],
    ['body.status.bootID', { bootID: 'a\nb' }],
    ['body.status.state_transition_failure_timestamp', { state_transition_failure_timestamp: 'yesterday' }],
    ['body.status.state_transition_failure_timestamp', { state_transition_failure_timestamp: '2026-13-02T03:04:05Z' }],
    ['body.status.lastOperation', { lastOperation: null }],
    ['body.status.lastOperation.version', { lastOperation: { ...operation, version: undefined } }],
    ['body.status.lastOperation.errorCode', { lastOperation: { ...operation, errorCode: 'toString' } }],
    ['body.status.lastOperation.message', { lastOperation: { ...operation, message: 'x'.repeat(MESSAGE_LIMIT + 1) } }],
    ['body.status.lastOperation.extra', { lastOperation: { ...operation, extra: 1 } }],
    ['body.status.bootTime', { bootTime: '2026-01-02' }],
    ['body.status.bootTime', { bootTime: null }],
    ['body.status.settings', { settings: null }],
    ['body.status.settings.seed', { settings: { seed: 1 } }],
    ['body.status.settings.records', { settings: { records: {} } }],
    ['body.status.settings.records[0].key', { settings: { records: [{ ...setting, key: 'motd' }] } }],
    ['body.status.settings.records[0].value', { settings: { records: [{ ...setting, value: '{ "a": 1 }' }] } }],
    ['body.status.settings.records[0].before', { settings: { records: [{ ...setting, before: 'latest' }] } }],
    [
      'body.status.settings.records[0].value',
      { settings: { records: [{ ...setting, value: `"${'a'.repeat(2048)}"` }] } },
    ],
    [
      'body.status.settings.lastApplied.hash',
      { settings: { lastApplied: { hash: 'x', time: '2026-01-02T03:04:05Z' } } },
    ],
    ['body.status.settings.message', { settings: { message: 'x'.repeat(MESSAGE_LIMIT + 1) } }],
    ['body.status.waitingFor', { waitingFor: 'Paused' }],
    ['body.status.conditions', { conditions: [] }],
  ])('is rejected for %s, which it names', (field, changes) => {
    const read = (): unknown => readAs(statusReport, report(changes));
    expect(caught(read)).toMatchObject({ code: 'BadRequest' });
    expect(read).toThrow(`${field}: expected`);
  });

  it('is rejected for a field named like a property of every object', () => {
    const body: unknown = JSON.parse(`{"shadowUID":"u","status":${JSON.stringify(status)},"__proto__":{"a":1}}`);
    expect(() => readAs(statusReport, body)).toThrow('body.__proto__: expected no such field');
  });

  it.each([
    ['lists', '['.repeat(30_000) + ']'.repeat(30_000)],
    ['objects', '{"a":'.repeat(10_000) + '0' + '}'.repeat(10_000)],
  ])('is rejected for thousands of nested %s, which it does not print', (_what, text) => {
    const bootID: unknown = JSON.parse(text);
    expect(caught(() => readAs(statusReport, report({ bootID })))).toMatchObject({ code: 'BadRequest' });
  });

  it('shows only a part of a long value', () => {
    const read = (): unknown => readAs(statusReport, report({ current_state: 'x'.repeat(10_000) }));
    expect(read).toThrow(/^.{0,300}$/s);
  });

  it('rejects every other value with BadRequest', () => {
    fc.assert(
      fc.property(fc.anything(), (body) => {
        expect(caught(() => readAs(statusReport, body))).toMatchObject({ code: 'BadRequest' });
      }),
    );
  });

  it('is accepted as it is or rejected when one field is any value', () => {
    const optional = ['lastOperation', 'state_transition_failure_timestamp', 'bootTime', 'settings'];
    const fields = fc.constantFrom(...Object.keys(status), ...optional);
    fc.assert(
      fc.property(fields, fc.jsonValue(), (field, value) => {
        const body = report({ [field]: value });
        expect(['BadRequest', body]).toContainEqual(readOrCode(body));
      }),
    );
  });
});

describe('a reference to a spec', () => {
  it('is a UID and a generation', () => {
    expect(readAs(specReference, { shadowUID: 'u-1', generation: 4 })).toEqual({ shadowUID: 'u-1', generation: 4 });
  });

  it.each([
    undefined,
    null,
    [],
    {},
    { shadowUID: 'u' },
    { shadowUID: '', generation: 1 },
    { shadowUID: 'u', generation: '1' },
  ])('is not %j', (body) => {
    expect(caught(() => readAs(specReference, body))).toMatchObject({ code: 'BadRequest' });
  });
});

it('a call that takes too long names its Node and what was called', async () => {
  const clock = new FakeClock();
  const response = new EventEmitter() as unknown as Response;
  const { signal: stop } = new AbortController();
  const call = withinLimit({ what: 'restore of Node a', response, clock, stop, limitMs: 39_999.6 }, (signal) =>
    clock.sleep(60_000, signal),
  );
  const message = 'restore of Node a: not done in time; repeat';
  await Promise.all([expect(call).rejects.toMatchObject({ code: 'Unavailable', message }), clock.advance(40_000)]);
});

it('a call whose time is over before its work begins does nothing', async () => {
  const clock = new FakeClock();
  const response = new EventEmitter() as unknown as Response;
  const { signal: stop } = new AbortController();
  const call = withinLimit({ what: 'restore of Node a', response, clock, stop, limitMs: -20_000 }, async (signal) =>
    signal.throwIfAborted(),
  );
  await expect(call).rejects.toMatchObject({
    code: 'Unavailable',
    message: 'restore of Node a: not done in time; repeat',
  });
});
