/**
 * A program that floods an apiserver: each slot opens a connection, writes a text, reads nothing but
 * the end of the connection, and starts again. It reads a {@link Flood} in one line of JSON, runs until
 * its standard input ends, prints how many connections it opened, and leaves the processor to others.
 */
import { constants, setPriority } from 'node:os';
import { createInterface } from 'node:readline';
import { connect } from 'node:tls';

export interface Flood {
  readonly port: number;
  readonly ca: string;
  /** Loopback addresses to connect from, in turn. */
  readonly addresses: readonly string[];
  /** What connections write, in turn. */
  readonly texts: readonly string[];
  /** Connections at a time. */
  readonly slots: number;
  /** A connection that the server leaves open is closed after this time. */
  readonly holdMs: number;
}

/** Milliseconds that a slot waits after each connection. */
const PAUSE_MS = 2;

function flood({ port, ca, addresses, texts, slots, holdMs }: Flood): void {
  let opened = 0;
  const next = (): void => {
    const localAddress = addresses[opened % addresses.length];
    const text = texts[opened % texts.length] ?? '';
    opened += 1;
    const socket = connect({ host: '127.0.0.1', port, ca, ...(localAddress !== undefined && { localAddress }) });
    const timer = setTimeout(() => socket.destroy(), holdMs);
    socket.once('secureConnect', () => socket.write(text, 'latin1'));
    socket.on('error', () => undefined).resume();
    socket.once('close', () => {
      clearTimeout(timer);
      setTimeout(next, PAUSE_MS);
    });
  };
  for (let slot = 0; slot < slots; slot += 1) next();
  lines.once('close', () => {
    process.stdout.write(String(opened), () => process.exit(0));
  });
}

setPriority(constants.priority.PRIORITY_LOW);
const lines = createInterface(process.stdin);
lines.once('line', (line) => flood(JSON.parse(line) as Flood));
