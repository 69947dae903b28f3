import { type EndpointSlice, targetsOf } from './service-proxy.ts';

type Conditions = NonNullable<NonNullable<EndpointSlice['endpoints']>[number]['conditions']>;

function slice(...endpoints: [address: string, conditions: Conditions][]): EndpointSlice {
  return {
    metadata: { name: 's', uid: 'u', resourceVersion: '1' },
    ports: [{ name: 'https', port: 8443 }],
    endpoints: endpoints.map(([address, conditions]) => ({ addresses: [address], conditions })),
  };
}

const hosts = (slices: EndpointSlice[], port = 'https'): string[] => targetsOf(slices, port).map(({ host }) => host);

describe('where a new connection goes', () => {
  const ready = { ready: true, serving: true, terminating: false };
  const unready = { ready: false, serving: false, terminating: false };
  const ending = { ready: false, serving: true, terminating: true };

  test('to ready endpoints of all slices, at their loopback addresses', () => {
    expect(hosts([slice(['10.7.1.1', ready], ['10.7.1.2', unready]), slice(['10.7.1.3', ready])])).toEqual([
      '127.7.1.1',
      '127.7.1.3',
    ]);
  });

  test('an endpoint that says nothing about readiness is ready', () => {
    expect(hosts([slice(['10.7.1.1', {}])])).toEqual(['127.7.1.1']);
  });

  test('to endpoints that serve while they end only when no other is left', () => {
    expect(hosts([slice(['10.7.1.1', ending], ['10.7.1.2', ready])])).toEqual(['127.7.1.2']);
    expect(hosts([slice(['10.7.1.1', ending], ['10.7.1.2', unready])])).toEqual(['127.7.1.1']);
  });

  test('nowhere without endpoints, or for a port that the slices do not have', () => {
    expect(hosts([slice(), { ...slice(), endpoints: null }])).toEqual([]);
    expect(hosts([slice(['10.7.1.1', ready])], 'metrics')).toEqual([]);
  });
});
