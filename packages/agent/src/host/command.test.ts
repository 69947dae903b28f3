import { STATUS } from '../testing/bad-answers.ts';
import { type CommandCall, commandResult } from './command.ts';
import { parseUpdateStatus, type UpdateStatus } from './host.ts';

function parse(changes: object): UpdateStatus {
  return parseUpdateStatus(JSON.stringify({ ...STATUS, ...changes }));
}

const refreshed = { command: 'refresh', before: undefined } as const;
const written: CommandCall & { readonly status: UpdateStatus | undefined } = {
  command: 'prepare',
  before: 'earlier',
  status: parse({}),
  version: '1.27.0',
};
function activated(record: object): UpdateStatus {
  const staging = { ...STATUS.staging_partition, next_to_boot: true };
  const command = { ...STATUS.most_recent_command, ...record };
  return parse({ update_state: 'Ready', staging_partition: staging, most_recent_command: command });
}
const failedRefresh = {
  ...STATUS.most_recent_command,
  cmd_type: 'refresh',
  cmd_status: 'Failed',
  exit_status: 1,
  stderr: 'Metadata error',
};

it.each<readonly [string, Partial<typeof written>, RegExp]>([
  ['a prepare that wrote the version', {}, /^success$/],
  [
    'a command that left the record of before',
    { before: STATUS.most_recent_command.timestamp },
    /PrepareFailed.*without a record/,
  ],
  ['a command after which there is no status', { status: undefined }, /PrepareFailed.*without a record/],
  ['a command whose record is hidden by another', { command: 'activate' }, /ActivateFailed.*found that of prepare/],
  [
    'a refresh that failed',
    { command: 'refresh', status: parse({ most_recent_command: failedRefresh }) },
    /RefreshFailed.*exit status 1: Metadata error/,
  ],
  [
    'an activation whose record a refresh of another actor hides',
    { command: 'activate', status: activated({ cmd_type: 'refresh', stderr: '' }) },
    /^success$/,
  ],
  [
    'an activation that a refresh hides, of another version',
    { command: 'activate', version: '1.28.0', status: activated({ cmd_type: 'refresh', stderr: '' }) },
    /ActivateFailed.*found that of refresh/,
  ],
  [
    'an activation after which another version boots next',
    { command: 'activate', version: '1.28.0', status: activated({ cmd_type: 'activate', stderr: '' }) },
    /ActivateFailed.*expected 1.28.0 to boot next/,
  ],
  ['a prepare that wrote another version', { version: '1.28.0' }, /WrongVersionStaged.*Starting update to 1.27.0/],
])('returns the result of %s', (_name, changes, expected) => {
  const { status, ...call } = { ...written, ...changes };
  const error = commandResult(call, status);
  expect(error === undefined ? 'success' : `${error.code}: ${error.message}`).toMatch(expected);
});

it('fails a refresh that succeeded but does not offer the version', () => {
  const command = { ...STATUS.most_recent_command, cmd_type: 'refresh', stderr: '' };
  const status = parse({ most_recent_command: command, update_state: 'Available' });
  expect(commandResult({ ...refreshed, version: '1.28.0' }, status)?.code).toBe('VersionNotOffered');
  expect(commandResult({ ...refreshed, version: '1.27.0' }, status)).toBeUndefined();
  expect(commandResult({ ...refreshed }, status)).toBeUndefined();
});

it('fails a refresh of a locked host that offers another version', () => {
  const command = { ...STATUS.most_recent_command, cmd_type: 'refresh', stderr: '' };
  const status = parse({ most_recent_command: command, update_state: 'Available' });
  expect(commandResult({ ...refreshed, lock: '1.28.0' }, status)?.code).toBe('VersionNotOffered');
  expect(commandResult({ ...refreshed, lock: 'v1.27.0' }, status)).toBeUndefined();
  const nothing = parse({ most_recent_command: command, update_state: 'Idle', chosen_update: null });
  expect(commandResult({ ...refreshed, lock: '1.28.0' }, nothing)).toBeUndefined();
});
