import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { TcpForwarder } from './tcp-forwarder.ts';

describe('forwarding TCP connections', () => {
  let echo: Server;
  let forwarder: TcpForwarder;
  let available = true;
  const sockets: Socket[] = [];

  beforeEach(async () => {
    available = true;
    echo = createServer((socket) => socket.on('error', () => undefined).pipe(socket));
    echo.listen(0, '127.0.0.1');
    await once(echo, 'listening');
    const { port } = echo.address() as AddressInfo;
    forwarder = await TcpForwarder.start(() => (available ? { host: '127.0.0.1', port } : undefined));
  });

  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await forwarder.stop();
    echo.close();
  });

  const dial = (): Socket => {
    const socket = connect({ ...forwarder.address });
    socket.on('error', () => undefined);
    sockets.push(socket);
    return socket;
  };
  const open = async (): Promise<Socket> => {
    const socket = dial();
    await once(socket, 'connect');
    return socket;
  };
  const ask = async (socket: Socket, word: string): Promise<string> => {
    socket.write(word);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    return answer.toString();
  };
  const errorOf = async (socket: Socket): Promise<string | undefined> =>
    await new Promise((resolve) => {
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
      socket.once('end', () => resolve('end'));
      socket.resume();
    });

  test('passes bytes both ways and a half-closed connection to its end', async () => {
    const socket = await open();
    expect(await ask(socket, 'hello')).toBe('hello');
    socket.end();
    await once(socket, 'close');
    expect(forwarder.connections).toBe(0);
  });

  test('resets a connection when there is nowhere to go, and lets open ones be', async () => {
    const before = await open();
    expect(await ask(before, 'a')).toBe('a');
    available = false;
    expect(await errorOf(dial())).toBe('ECONNRESET');
    expect(await ask(before, 'b')).toBe('b');
  });

  test('a cut by reset ends open and new connections until it heals', async () => {
    const before = await open();
    await ask(before, 'a');
    const ended = errorOf(before);
    forwarder.cut('reset');
    expect(await ended).toBe('ECONNRESET');
    expect(await errorOf(dial())).toBe('ECONNRESET');
    forwarder.heal();
    expect(await ask(await open(), 'b')).toBe('b');
  });

  test('a hanging connection delays bytes, and they arrive when it heals', async () => {
    const before = await open();
    await ask(before, 'a');
    forwarder.cut('hang');
    const during = await open();
    const heard: string[] = [];
    before.once('data', () => heard.push('before'));
    during.once('data', () => heard.push('during'));
    before.write('x');
    during.write('y');
    await once(await pinged(echo), 'close');
    expect(heard).toEqual([]);
    const both = Promise.all([once(before, 'data'), once(during, 'data')]);
    forwarder.heal();
    await both;
    expect(heard.toSorted()).toEqual(['before', 'during']);
  });

  test('a cut in one direction lets the other pass', async () => {
    const socket = await open();
    await ask(socket, 'a');
    const heard: string[] = [];
    socket.on('data', (bytes: Buffer) => heard.push(bytes.toString()));
    const arrived = once(echo, 'connection') as Promise<[Socket]>;
    forwarder.cut('answers lost');
    const other = await open();
    const [there] = await arrived;
    other.write('arrives');
    expect(String(((await once(there, 'data')) as [Buffer])[0])).toBe('arrives');
    socket.write('b');
    forwarder.cut('requests lost');
    await once(await pinged(echo), 'close');
    expect(heard).toEqual([]);
  });

  test('a lost machine closes no open connections, and new ones pass', async () => {
    const before = await open();
    await ask(before, 'a');
    const said: string[] = [];
    for (const event of ['data', 'end', 'error', 'close']) before.on(event, () => said.push(event));
    forwarder.strand();
    before.write('b');
    expect(await ask(await open(), 'c')).toBe('c');
    forwarder.heal();
    await once(await pinged(echo), 'close');
    expect(said).toEqual([]);
  });
});

/**
 * Waits for a direct connection to be answered: bytes that others sent before have arrived by then.
 */
async function pinged(server: Server): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: (server.address() as AddressInfo).port });
  socket.write('ping');
  await once(socket, 'data');
  socket.end();
  socket.resume();
  return socket;
}
