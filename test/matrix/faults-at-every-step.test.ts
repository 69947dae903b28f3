import { jest } from '@jest/globals';

import { comeThrough, onEach } from '../support/faults/at-every-step.ts';
import type { Cases } from '../support/faults/at-every-step.ts';
import type { Fault, ShadowEdit } from '../support/faults/fault.ts';
import { fleetNodes } from '../support/fleet/fleet.ts';
import type { Cut } from '../support/kubelet/tcp-forwarder.ts';

jest.setTimeout(1_200_000);

const edited = (edit: ShadowEdit): Fault[] => onEach((node) => ({ kind: 'shadow edited', node, edit }));
const cutOff = (from: 'API server' | 'kube-apiserver', how: Cut, forMs = 3_000): Fault[] =>
  fleetNodes(6).map(({ name: node }) => ({
    kind: 'cut off',
    node,
    from,
    how,
    forMs,
  }));

const OURS: Cases = {
  'every agent is killed': onEach((node) => ({ kind: 'killed', who: { program: 'agent', node }, forMs: 0 })),
  'every agent is frozen': onEach((node) => ({ kind: 'frozen', who: { program: 'agent', node }, forMs: 5_000 })),
  'the leading controller is killed': [{ kind: 'killed', who: { program: 'controller', which: 'leader' }, forMs: 0 }],
  'both controllers are killed at once and start with an empty cache': [
    { kind: 'killed', who: { program: 'controller', which: 'all' }, forMs: 0 },
  ],
  'the leading controller is frozen past its lease, and thawed': [
    { kind: 'frozen', who: { program: 'controller', which: 'leader' }, forMs: 20_000 },
  ],
  'every API server is killed in turn': [{ kind: 'each API server killed' }],
  'all API servers are killed at once': [{ kind: 'killed', who: { program: 'apiserver', which: 'all' }, forMs: 0 }],
  'all API servers are frozen': [{ kind: 'frozen', who: { program: 'apiserver', which: 'all' }, forMs: 5_000 }],
  'no API server is there for 25 s': [{ kind: 'no API server', forMs: 25_000 }],
};

const AROUND: Cases = {
  'kube-apiserver is killed': [{ kind: 'killed', who: { program: 'kube-apiserver' }, forMs: 1_000 }],
  'kube-apiserver is frozen': [{ kind: 'frozen', who: { program: 'kube-apiserver' }, forMs: 6_000 }],
  'etcd is killed': [{ kind: 'killed', who: { program: 'etcd' }, forMs: 1_000 }],
  'agents reach no API server': cutOff('API server', 'hang'),
  'agents are reset': cutOff('API server', 'reset'),
  'agents are not heard': cutOff('API server', 'requests lost'),
  'agents hear nothing': cutOff('API server', 'answers lost'),
  'controllers and API servers reach no kube-apiserver': cutOff('kube-apiserver', 'hang'),
  'controllers and API servers are not heard': cutOff('kube-apiserver', 'requests lost'),
  'controllers and API servers hear nothing': cutOff('kube-apiserver', 'answers lost'),
  'agents hear nothing for longer than any call or stream may take': cutOff('API server', 'answers lost', 40_000),
  'the leading controller alone is cut off past its lease': [{ kind: 'leader cut off', how: 'hang', forMs: 20_000 }],
  'the leading controller alone hears nothing past its lease': [
    { kind: 'leader cut off', how: 'answers lost', forMs: 20_000 },
  ],
  'nobody may evict (403)': [{ kind: 'evictions forbidden', forMs: 2_000 }],
};

const HOSTS: Cases = {
  'every host API is silent': onEach((node) => ({
    kind: 'host API ill',
    node,
    fault: { answer: 'hang' },
    forMs: 3_000,
  })),
  'every host API crashes': onEach((node) => ({ kind: 'host API crashed', node, forMs: 1_000 })),
  'every host is locked': onEach((node) => ({ kind: 'host locked', node, forMs: 5_000 })),
  'every socket is replaced': onEach((node) => ({ kind: 'socket replaced', node })),
  'the power of every host is cut': onEach((node) => ({ kind: 'power cut', node })),
  'every node is replaced by another of its name': onEach((node) => ({ kind: 'node replaced', node })),
  'every label is removed for a moment': onEach((node) => ({ kind: 'label removed', node, forMs: 300 })),
  'every shadow is deleted': onEach((node) => ({ kind: 'shadow deleted', node })),
  'every shadow is told to be idle': edited('spec to Idle'),
  'every shadow is told to reboot': edited('spec to reboot'),
  'every shadow is given another version': edited('another version'),
  'every shadow says that its node is drained': edited('status as if drained'),
  'every shadow loses its status': edited('status gone'),
};

/** `make matrix CASE='etcd is killed'` plays one case. */
const only = process.env['CASE'] ?? '';

function chosen(cases: Cases): Cases {
  return Object.fromEntries(Object.entries(cases).filter(([name]) => only === '' || name === only));
}

const groups = [
  ['programs of ours die, freeze or are away', chosen(OURS)],
  ['Kubernetes or the network fails', chosen(AROUND)],
  ['hosts fail or people interfere', chosen(HOSTS)],
] as const;

describe('nodes at every step of their update, when', () => {
  it.each(groups.filter(([, cases]) => Object.keys(cases).length > 0))(
    '%s, are updated all the same',
    async (_what, cases) => {
      expect(await comeThrough(cases)).toEqual(Object.keys(cases));
    },
  );
});
