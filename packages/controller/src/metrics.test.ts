import { Registry } from 'prom-client';
import { createMetrics, showFleet, showLeader } from './metrics.ts';
import { plan } from './plan/plan.ts';
import { aManagedNode, aSnapshot, NOW, withoutShadow } from './testing/objects.ts';

describe('the metrics of the Rust operator', () => {
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const read = async (): Promise<string[]> =>
    (await registry.metrics()).split('\n').filter((line) => line.startsWith('brupop_hosts_'));

  it('count the reports of shadows, with its labels', async () => {
    const reported = { current_version: '1.20.0', current_state: 'Idle' } as const;
    const snapshot = aSnapshot([
      aManagedNode('a', {}, { status: reported }),
      aManagedNode('b', {}, { status: { ...reported, current_state: 'MonitoringUpdate' } }),
      withoutShadow(aManagedNode('c')),
    ]);
    showFleet(metrics, snapshot, plan(snapshot, NOW));
    expect(await read()).toEqual([
      'brupop_hosts_state{state="Idle"} 1',
      'brupop_hosts_state{state="MonitoringUpdate"} 1',
      'brupop_hosts_version{bottlerocket_version="1.20.0"} 2',
    ]);
  });

  it('have no values without leadership', async () => {
    showLeader(metrics, false);
    expect(await read()).toEqual([]);
  });
});
