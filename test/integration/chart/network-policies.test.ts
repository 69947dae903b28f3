import type { V1NetworkPolicySpec } from '@kubernetes/client-node';
import { AGENT, APISERVER, COMPONENT_LABEL, CONTROLLER } from '@brupop/shared/api/names';
import { find, podOf, renderChart, type Rendered } from '../../framework/chart.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';

const cluster = connectSharedControlPlane();
const enabled = ['--set', 'networkPolicy.enabled=true'];
const prometheus = { podSelector: { matchLabels: { app: 'prometheus' } } };
const metricsFrom = ['--set', 'networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus'];

afterAll(async () => await cluster.close());

const policyOf = (objects: readonly Rendered[], name: string): V1NetworkPolicySpec =>
  find(objects, 'NetworkPolicy', name).spec as unknown as V1NetworkPolicySpec;
const podsOf = (component: string): object => ({ podSelector: { matchLabels: { [COMPONENT_LABEL]: component } } });

/** The port of a component's pods that has this name. */
function portOf(objects: readonly Rendered[], component: string, name: string): number | undefined {
  const { container } = podOf(find(objects, component === AGENT ? 'DaemonSet' : 'Deployment', component));
  return container.ports?.find((port) => port.name === name)?.containerPort;
}

describe('the network policies', () => {
  it('are rendered only when a value says so', async () => {
    expect((await renderChart(cluster)).filter(({ kind }) => kind === 'NetworkPolicy')).toEqual([]);
  });

  it('let agents and helm test call the API server and nobody else, and get no connection', async () => {
    const objects = await renderChart(cluster, ...enabled);
    const port = portOf(objects, APISERVER, 'https');
    expect(policyOf(objects, AGENT)).toEqual({
      ...podsOf(AGENT),
      policyTypes: ['Ingress', 'Egress'],
      egress: [{ to: [podsOf(APISERVER)], ports: [{ port }] }],
    });
    expect(policyOf(objects, 'brupop-test').egress).toEqual([{ to: [podsOf(APISERVER)], ports: [{ port }] }]);
    const from = [podsOf(AGENT), podsOf('brupop-test')];
    expect(policyOf(objects, APISERVER).ingress).toEqual([{ from, ports: [{ port }] }]);
  });

  it.each([CONTROLLER, APISERVER])('let %s call the Kubernetes API alone', async (component) => {
    const all = policyOf(await renderChart(cluster, ...enabled), component);
    expect([all.policyTypes, all.egress]).toEqual([
      ['Ingress', 'Egress'],
      [{ ports: [{ port: 443 }, { port: 6443 }] }],
    ]);
    const narrow = [
      '--set',
      'networkPolicy.kubernetesCIDRs[0]=fd00::/64',
      '--set',
      'networkPolicy.kubernetesPorts={6443}',
    ];
    expect(policyOf(await renderChart(cluster, ...enabled, ...narrow), component).egress).toEqual([
      { ports: [{ port: 6443 }], to: [{ ipBlock: { cidr: 'fd00::/64' } }] },
    ]);
    const any = ['--set', 'networkPolicy.kubernetesCIDRs={::/0,::1/128}'];
    expect(policyOf(await renderChart(cluster, ...enabled, ...any), component).egress).toMatchObject([
      { to: [{ ipBlock: { cidr: '::/0' } }, { ipBlock: { cidr: '::1/128' } }] },
    ]);
  });

  it('let the controller call Prometheus and Alertmanager if it has their URLs, and DNS for their names', async () => {
    const url = ['--set', 'checks.prometheus.url=http://prometheus:9090'];
    const egressOf = async (component: string, ...args: string[]): Promise<unknown> =>
      policyOf(await renderChart(cluster, ...enabled, ...url, ...args), component).egress;
    const kubernetes = { ports: [{ port: 443 }, { port: 6443 }] };
    const dns = { ports: ['UDP', 'TCP'].map((protocol) => ({ port: 53, protocol })) };
    expect(await egressOf(CONTROLLER)).toEqual([kubernetes, dns, { ports: [{ port: 9090 }, { port: 9093 }] }]);
    expect(await egressOf(APISERVER)).toEqual([kubernetes]);
    const peer = ['--set', 'networkPolicy.checksTo[0].podSelector.matchLabels.app=prometheus'];
    expect(await egressOf(CONTROLLER, ...peer, '--set', 'networkPolicy.checksPorts={9090}')).toEqual([
      kubernetes,
      dns,
      { ports: [{ port: 9090 }], to: [prometheus] },
    ]);
  });

  it('let nobody read metrics but whom a value names', async () => {
    const closed = await renderChart(cluster, ...enabled);
    expect(policyOf(closed, CONTROLLER).ingress).toBeUndefined();
    expect(closed.filter(({ metadata }) => metadata.name === 'brupop-metrics')).toEqual([]);

    const open = await renderChart(cluster, ...enabled, ...metricsFrom, '--set', 'healthPort=9090');
    expect(policyOf(open, 'brupop-metrics').ingress).toEqual([{ from: [prometheus], ports: [{ port: 9090 }] }]);
    expect([CONTROLLER, APISERVER].map((component) => portOf(open, component, 'health'))).toEqual([9090, 9090]);
  });

  it('let the nodes call the API server when agents are in the host network, which no policy selects', async () => {
    const nodeCIDRs = ['--set', 'networkPolicy.nodeCIDRs={10.0.0.0/16,fd00:1::/64}'];
    const ingressWith = async (...args: string[]): Promise<unknown> =>
      policyOf(await renderChart(cluster, ...enabled, ...args), APISERVER).ingress;
    const hostNetwork = ['--set', 'agent.hostNetwork=true'];
    const blocks = ['10.0.0.0/16', 'fd00:1::/64'].map((cidr) => ({ ipBlock: { cidr } }));
    const from = [podsOf('brupop-test'), ...blocks];
    expect(await ingressWith(...hostNetwork, ...nodeCIDRs)).toEqual([{ from, ports: [{ port: 8443 }] }]);
    expect(await ingressWith(...hostNetwork)).toEqual([{ ports: [{ port: 8443 }] }]);
    expect(await ingressWith(...nodeCIDRs)).toEqual([
      { from: [podsOf(AGENT), podsOf('brupop-test')], ports: [{ port: 8443 }] },
    ]);
  });
});
