import { jest } from '@jest/globals';
import { RESTORE_CALL_LIMIT_MS, RESTORE_WRITE_LIMIT_MS } from '../../../../packages/shared/src/api/deadlines.ts';
import { type Cases, runCases } from '../../../framework/faults/at-every-step.ts';
import type { Fault } from '../../../framework/faults/fault.ts';
import { fleetNodes } from '../../../framework/fleet/fleet.ts';
import type { Cut } from '../../../framework/kubelet/tcp-forwarder.ts';

jest.setTimeout(1_200_000);

const cutOff = (from: 'API server' | 'kube-apiserver', how: Cut, forMs = 3_000): Fault[] =>
  fleetNodes(6).map(({ name: node }) => ({
    kind: 'cut off',
    node,
    from,
    how,
    forMs,
  }));

const cases: Cases = {
  'agents reach no API server': cutOff('API server', 'hang'),
  'connections of agents are reset': cutOff('API server', 'reset'),
  'requests of agents are lost': cutOff('API server', 'requests lost'),
  'agents receive nothing': cutOff('API server', 'answers lost'),
  'controllers and API servers reach no kube-apiserver for longer than any call may take': cutOff(
    'kube-apiserver',
    'hang',
    RESTORE_WRITE_LIMIT_MS + 3_000,
  ),
  'requests of controllers and API servers are lost': cutOff('kube-apiserver', 'requests lost'),
  'controllers and API servers receive nothing': cutOff('kube-apiserver', 'answers lost'),
  'agents receive nothing for longer than any call or stream may take': cutOff(
    'API server',
    'answers lost',
    RESTORE_CALL_LIMIT_MS + 3_000,
  ),
  'the leading controller alone is cut off past its lease': [{ kind: 'leader cut off', how: 'hang', forMs: 20_000 }],
  'the leading controller alone receives nothing past its lease': [
    { kind: 'leader cut off', how: 'answers lost', forMs: 20_000 },
  ],
};

test('nodes at every step of their update are updated although the network fails', async () => {
  const { chosen, passed } = await runCases(cases, { mayFail: false });
  expect(passed).toEqual(chosen);
});
