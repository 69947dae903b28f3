/** Notices and receivers for tests. */
import type { Receiver } from '@brupop/shared/api/config-notifications';
import type { Notice } from '../notify/events.ts';

export function aNotice(id: string, changes: Partial<Notice> = {}): Notice {
  return {
    id,
    event: 'Frozen',
    severity: 'error',
    object: { kind: 'BrupopConfig', name: 'cluster' },
    version: '1.21.0',
    summary: 'Bottlerocket 1.21.0 is frozen: too many nodes failed with it',
    message: 'No update to 1.21.0 or an older version starts',
    command: 'kubectl describe brc cluster',
    ...changes,
  };
}

export function aReceiver(changes: Partial<Receiver> = {}): Receiver {
  return {
    name: 'ops',
    format: 'JSON',
    events: ['Frozen', 'Failed', 'Held', 'Stuck', 'WaitsForApproval', 'Finished'],
    address: 'https://events.example.com/brupop',
    secretName: undefined,
    allowHTTP: false,
    cluster: undefined,
    ...changes,
  };
}
