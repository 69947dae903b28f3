import { EventEmitter } from 'node:events';
import { Server, type Socket } from 'node:net';
import { createRegistry } from '@brupop/shared/runtime/metrics';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { recordingLogger } from '../../../../test/framework/recording-logger.ts';
import { createMetrics } from '../metrics.ts';
import { networkOf } from './addresses.ts';
import { Connections } from './connections.ts';

interface World {
  readonly clock: FakeClock;
  readonly lines: readonly string[];
  /** The nodes that claim an address. */
  readonly agents: Map<string, string>;
  /** Opens a connection; undefined when it is closed at once. */
  readonly open: (address: string) => FakeSocket | undefined;
  /** Opens a connection, on which a call of the node is admitted. */
  readonly call: (address: string, node: string) => boolean;
  /** The same; then the connection is closed for its overhead. */
  readonly abuse: (address: string, node: string) => boolean;
  /** How many of these connections are accepted; none makes a call. */
  readonly accepted: (addresses: readonly string[]) => number;
  /** How many TLS handshakes were started. */
  readonly handshakes: () => number;
}

class FakeSocket extends EventEmitter {
  destroyed = false;
  readonly remoteAddress: string;
  readonly remotePort: number;

  constructor(remoteAddress: string, remotePort: number) {
    super();
    this.remoteAddress = remoteAddress;
    this.remotePort = remotePort;
  }

  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

function setUp(maxConnectionsPerAddress = 32): World {
  const clock = new FakeClock();
  const { log, lines } = recordingLogger();
  const agents = new Map<string, string>();
  const metrics = createMetrics(createRegistry('test'));
  const connections = new Connections({
    maxConnections: 12_000,
    maxConnectionsPerAddress,
    agents: { nodesAt: (address) => agents.get(address) },
    clock,
    log,
    metrics,
  });
  let handshakes = 0;
  const server = new Server(() => (handshakes += 1));
  connections.limit(server);
  let port = 1024;
  const open = (address: string): FakeSocket | undefined => {
    const socket = new FakeSocket(address, (port += 1));
    server.emit('connection', socket);
    return socket.destroyed ? undefined : socket;
  };
  const call = (address: string, node: string): boolean => {
    const socket = open(address);
    if (socket === undefined) return false;
    connections.admit(socket as unknown as Socket, node);
    socket.destroy();
    return true;
  };
  const abuse = (address: string, node: string): boolean => {
    const socket = open(address) as unknown as Socket | undefined;
    if (socket === undefined) return false;
    connections.admit(socket, node);
    connections.expel(socket, 'overhead');
    return true;
  };
  const accepted = (addresses: readonly string[]): number =>
    addresses.map((address) => open(address)).filter((socket) => socket !== undefined).length;
  return { clock, lines, agents, open, call, abuse, accepted, handshakes: () => handshakes };
}

const subnet = (third: number, count = 254): readonly string[] =>
  Array.from({ length: count }, (_, index) => `10.9.${third}.${index + 1}`);
/** Addresses that are each in a network of their own. */
const spread = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, index) => `11.${index >> 8}.${index & 255}.1`);
const times = (count: number, address: string): readonly string[] => Array.from({ length: count }, () => address);

describe('while a node opens connections from all of its addresses', () => {
  it('agents that have never called are accepted from the addresses of their pods', () => {
    const { agents, accepted, call } = setUp();
    const victims = subnet(1);
    for (const [index, address] of victims.entries()) agents.set(address, `node-${index}`);
    accepted([...subnet(9), ...subnet(9), ...spread(1_000)]);
    expect(victims.filter((address, index) => !call(address, `node-${index}`))).toEqual([]);
  });

  it('other addresses that have never called are also accepted', async () => {
    const { clock, accepted, call } = setUp();
    for (let second = 0; second < 60; second += 1) {
      accepted([...subnet(9), ...subnet(9)]);
      expect(call(`10.8.${second}.1`, `node-${second}`)).toBe(true);
      await clock.advance(1_000);
    }
  });

  it('an address from which an agent has called is accepted whatever the number of other addresses', () => {
    const { call, accepted } = setUp();
    call('10.1.0.1', 'node-1');
    accepted(spread(20_001));
    expect(call('10.1.0.1', 'node-1')).toBe(true);
  });
});

it('the open connections of an address are counted whatever the number of other addresses', async () => {
  const { clock, accepted } = setUp(4);
  const mine = '10.1.0.1';
  expect(accepted(times(10, mine))).toBe(4);
  accepted(spread(20_001));
  await clock.advance(3_600_000);
  expect(accepted(times(10, mine))).toBe(0);
});

it('one token makes at most two addresses known', async () => {
  const { clock, call, accepted } = setUp();
  const addresses = subnet(9);
  for (const address of addresses) {
    call(address, 'node-1');
    await clock.advance(1_000);
  }
  expect(accepted(addresses.flatMap((address) => times(32, address)))).toBeLessThanOrEqual(2 * 32 + 64);
});

describe('a kubelet that reports false addresses for the pod of its agent', () => {
  it('gets no more than the budget of its node', () => {
    const { agents, accepted } = setUp();
    let count = 0;
    for (const address of subnet(9)) {
      agents.clear();
      agents.set(address, 'node-9');
      count += accepted(times(32, address));
    }
    expect(count).toBeLessThanOrEqual(32 + 64);
  });

  it('does not reduce the budget of the agent whose address it reports', () => {
    const { agents, accepted, call } = setUp();
    agents.set('10.9.0.1', 'node-9');
    accepted(times(200, '10.9.0.1'));
    agents.set('10.1.0.1', 'node-1 node-9');
    expect(call('10.1.0.1', 'node-1')).toBe(true);
  });

  it('does not reduce the budget of agents that share the address which it reports', () => {
    const { agents, accepted, call } = setUp();
    agents.set('10.9.0.1', 'node-9').set('10.1.0.1', 'node-9');
    accepted(times(200, '10.9.0.1'));
    expect(call('10.1.0.1', 'node-1')).toBe(true);
  });
});

it('a connection that is closed for its overhead is charged, although its calls were admitted', async () => {
  const { clock, agents, abuse, call } = setUp();
  agents.set('10.9.0.1', 'node-9');
  expect(times(200, '10.9.0.1').filter((address) => abuse(address, 'node-9'))).toHaveLength(32 + 32);
  await clock.advance(60_000);
  expect(call('10.9.0.1', 'node-9')).toBe(true);
});

it('a rejected connection starts no TLS handshake', () => {
  const { accepted, handshakes } = setUp();
  expect(accepted(times(1_000, '10.9.0.1'))).toBe(32);
  expect(handshakes()).toBe(32);
});

it('an IPv4 address and its IPv4-mapped IPv6 address are the same', () => {
  const { agents, accepted } = setUp();
  agents.set('10.1.0.1', 'node-1');
  accepted([...subnet(9), ...subnet(9)]);
  expect(accepted(times(4, '::ffff:10.1.0.1'))).toBe(4);
});

it.each([
  ['10.1.2.3', '10.1.2.0/24'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['fd00:1:2:3::', 'fd00:1:2:3::/64'],
  ['::1', '0:0:0:0::/64'],
])('%s is in the network %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});

describe('the log', () => {
  it('has one line per address and minute, which names the chart value to change', async () => {
    const { clock, lines, accepted } = setUp();
    accepted(times(100, '127.0.0.6'));
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      level: 'warn',
      msg: expect.stringMatching(/^closing connections: .*apiserver\.maxConnectionsPerAddress/) as unknown,
      address: '127.0.0.6',
      limit: 'address',
      count: 1,
    });
    await clock.advance(60_000);
    accepted(times(10, '127.0.0.6'));
    expect(lines).toHaveLength(2);
    expect(JSON.parse(lines[1] ?? '')).toMatchObject({ count: 68 });
  });

  it('stays short when the connections come from many addresses', () => {
    const { lines, accepted } = setUp();
    accepted(spread(5_000));
    expect(lines.length).toBeLessThanOrEqual(20);
  });
});
