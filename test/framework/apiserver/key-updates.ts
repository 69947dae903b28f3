/** A client of TLS 1.3 that sends KeyUpdates, which Node's own does not. */
import { createCipheriv, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';

/** RFC 8446, 5.2 and 5.1: the type of a record, its protected length, and the types of what it protects. */
const HEADER = Buffer.from([23, 3, 3, 0, 22]);
/** RFC 8446, 4.6.3, with the type of its record: the peer does not have to send one as well. */
const KEY_UPDATE = Buffer.from([24, 0, 0, 1, 0, 22]);

/** Opens a connection, sends `request`, waits for a part of its response, and sends this number of KeyUpdates. */
export async function sendKeyUpdates(
  to: { readonly port: number; readonly ca: string },
  request: string,
  count: number,
): Promise<Socket> {
  const transport = connectTcp(to.port, '127.0.0.1');
  const socket = connect({ socket: transport, host: '127.0.0.1', ca: to.ca, ciphers: 'TLS_AES_256_GCM_SHA384' });
  let secret: Buffer | undefined;
  socket.on('keylog', (line: Buffer) => (secret = secretIn(String(line)) ?? secret));
  for (const one of [transport, socket]) one.on('error', () => undefined);
  await once(socket, 'secureConnect');
  socket.write(request);
  await once(socket, 'data');
  if (secret === undefined) throw new Error('the secret of the client was not logged');
  transport.write(keyUpdates(secret, count));
  // The server reads them.
  await sleep(100);
  return transport;
}

function secretIn(line: string): Buffer | undefined {
  const [label, , secret = ''] = line.trim().split(' ');
  return label === 'CLIENT_TRAFFIC_SECRET_0' ? Buffer.from(secret, 'hex') : undefined;
}

/** Each is protected with the keys that the one before has set; before the first one, the request was sent. */
function keyUpdates(first: Buffer, count: number): Buffer {
  const records: Buffer[] = [];
  let secret = first;
  for (let number = 0; number < count; number += 1) {
    const nonce = expand(secret, 'iv', 12);
    if (number === 0) nonce.writeUInt8(nonce.readUInt8(11) ^ 1, 11);
    const cipher = createCipheriv('aes-256-gcm', expand(secret, 'key', 32), nonce).setAAD(HEADER);
    records.push(HEADER, cipher.update(KEY_UPDATE), cipher.final(), cipher.getAuthTag());
    secret = expand(secret, 'traffic upd', 48);
  }
  return Buffer.concat(records);
}

/** HKDF-Expand-Label (RFC 8446, 7.1) of an output that is no longer than a hash. */
function expand(secret: Buffer, label: string, length: number): Buffer {
  const name = `tls13 ${label}`;
  const info = Buffer.from([0, length, name.length, ...Buffer.from(name), 0, 1]);
  return Buffer.from(createHmac('sha384', secret).update(info).digest().subarray(0, length));
}
