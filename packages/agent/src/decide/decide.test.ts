import {
  MINUTE,
  NOW,
  NEW,
  BOOT,
  KEY,
  UNINITIALIZED,
  words,
  decided,
  refused,
  silent,
  staging,
} from '../test-objects.ts';
import type { Cases } from '../test-objects.ts';

const cases: Cases = {
  'monitoring: is reached at once': [
    { spec: 'MonitoringUpdate', running: NEW, update: UNINITIALIZED },
    'report MonitoringUpdate',
  ],
  'monitoring: is said once': [
    {
      spec: 'MonitoringUpdate',
      running: NEW,
      update: UNINITIALIZED,
      status: { current_state: 'MonitoringUpdate', current_version: NEW },
    },
    'wait',
  ],

  'without a shadow it waits': [{ noShadow: true }, 'wait'],
  'a socket that nobody listens on for long is a stale mount': [
    { host: refused, memory: { hostSilentSince: NOW - 3 * MINUTE, hostRefusedSince: NOW - 3 * MINUTE } },
    'exit',
  ],
  'a host that is slow for long is no stale mount': [
    { host: silent, memory: { hostSilentSince: NOW - 30 * MINUTE } },
    'wait',
  ],
  'an apiserver out of reach for long means new credentials': [{ apiSilentMs: 11 * MINUTE }, 'exit'],
  'nobody leaves while the host is about to reboot': [
    { apiSilentMs: 11 * MINUTE, memory: { reboot: { atMs: NOW - MINUTE, bootID: BOOT } } },
    'wait',
  ],
  'a reboot that has happened is not waited for': [
    { memory: { reboot: { atMs: NOW - 1, bootID: 'boot-1' } } },
    'restore',
  ],
  'calls are paced while the apiserver is in trouble': [{ memory: { api: { notBefore: NOW + 1 } } }, 'wait'],
  'commands are paced while the host is in trouble': [{ ...staging, memory: { host: { notBefore: NOW + 1 } } }, 'wait'],
  'trouble with the apiserver does not hold up commands': [
    { ...staging, memory: { api: { notBefore: NOW + 1 } } },
    'refresh',
  ],
  'a spec that the apiserver no longer goes by is not repeated at once': [
    { memory: { refused: { key: KEY, notBefore: NOW + 1, times: 1 } } },
    'wait',
  ],
  'a newer spec than the refused one is acted upon at once': [
    { memory: { refused: { key: 'uid/6', notBefore: NOW + 1, times: 1 } } },
    'restore',
  ],
};

it.each(Object.entries(cases))('%s', (_name, [given, expected]) => {
  expect(words(decided(given))).toBe(expected);
});
