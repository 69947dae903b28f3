/** Which writes are in flight beside the reconciles, and in which order. */
import { setImmediate as turn } from 'node:timers/promises';
import { createLogger } from '@brupop/shared/runtime/log';
import { type Wish, WriteQueue } from './queue.ts';
import { NotLeading } from './writer.ts';

/** A queue of three at a time whose writes end when the test lets them. */
function setUp() {
  const stop = new AbortController();
  const sent: string[] = [];
  const lines: string[] = [];
  const backsOff = new Set<string>();
  const writer = { canWrite: (key: string) => !backsOff.has(key), backOff: (key: string) => backsOff.add(key) };
  const log = createLogger({ write: (line) => lines.push(line) });
  const waiting = new Map<string, { end: () => void; fail: (error: Error) => void }>();
  const write = async ({ key }: Wish): Promise<void> => {
    sent.push(key);
    await new Promise<void>((end, fail) => waiting.set(key, { end, fail }));
  };
  const queue = new WriteQueue({ writer, log, signal: stop.signal, parallel: 3, write });
  const end = async (key: string, error?: Error): Promise<void> => {
    const one = waiting.get(key);
    if (one === undefined) throw new Error(`expected ${key} in flight, found ${[...waiting.keys()].join(', ')}`);
    waiting.delete(key);
    if (error === undefined) one.end();
    else one.fail(error);
    await turn();
  };
  return { queue, sent, lines, backsOff, stop, end };
}

const wish = (object: string, what = 'label', priority = 1): Wish => ({
  key: `${what} of ${object}`,
  object,
  priority,
});
const wishes = (...objects: string[]): Wish[] => objects.map((object) => wish(object));

it('an object that hangs delays no other one', async () => {
  const { queue, sent, end } = setUp();
  queue.offer(wishes('hangs', 'a', 'b', 'c', 'd'));
  for (const name of ['a', 'b', 'c', 'd']) await end(`label of ${name}`);
  expect(sent).toEqual(wishes('hangs', 'a', 'b', 'c', 'd').map(({ key }) => key));
  expect(queue.left).toEqual(wishes('hangs'));
});

it('of one object one write is in flight at a time, and the next one follows it', async () => {
  const { queue, sent, end } = setUp();
  queue.offer([wish('a', 'label'), wish('a', 'taint')]);
  expect(sent).toEqual(['label of a']);
  await end('label of a');
  expect(sent).toEqual(['label of a', 'taint of a']);
});

it('what frees a node goes before what was wanted earlier', async () => {
  const { queue, sent, end } = setUp();
  queue.offer(wishes('a', 'b', 'c', 'd'));
  queue.offer([...wishes('d'), wish('e', 'uncordon', 0)]);
  for (const name of ['a', 'b', 'c']) await end(`label of ${name}`);
  expect(sent.slice(3)).toEqual(['uncordon of e', 'label of d']);
});

it('what backs off since it was wanted is not sent', async () => {
  const { queue, sent, backsOff, end } = setUp();
  queue.offer(wishes('a', 'b', 'c', 'd', 'e'));
  backsOff.add('label of d');
  await end('label of a');
  expect(sent.at(-1)).toBe('label of e');
});

it('after the Lease is lost nothing more is sent', async () => {
  const { queue, sent, end } = setUp();
  queue.offer(wishes('a', 'b', 'c', 'd'));
  await end('label of a', new NotLeading('lost leadership'));
  expect([sent.length, queue.left.length]).toEqual([3, 2]);
});

it('after an error that is not of the API it logs what failed, backs off and writes the others', async () => {
  const { queue, sent, lines, backsOff, end } = setUp();
  queue.offer(wishes('a', 'b', 'c', 'd'));
  await end('label of a', new Error('a mistake'));
  expect([sent.at(-1), [...backsOff]]).toEqual(['label of d', ['label of a']]);
  expect(lines.join('')).toContain('"key":"label of a","error":"a mistake"');
});

it('those of one priority that hang keep back none of another one', async () => {
  const { queue, sent, end } = setUp();
  queue.offer(['a', 'b', 'c', 'd'].map((name) => wish(name, 'uncordon', 0)));
  queue.offer([...['a', 'b', 'c', 'd'].map((name) => wish(name, 'uncordon', 0)), ...wishes('e', 'f')]);
  await end('uncordon of a');
  await end('label of e');
  expect(sent).toEqual(['uncordon of a', 'uncordon of b', 'uncordon of c', 'label of e', 'label of f']);
});

it('after the end of the process it is idle when what is in flight has ended', async () => {
  const { queue, sent, stop, end } = setUp();
  queue.offer(wishes('a', 'b', 'c', 'd'));
  stop.abort();
  for (const name of ['a', 'b', 'c']) await end(`label of ${name}`);
  await queue.idle();
  expect(sent).toHaveLength(3);
});

it.each([1, 2, 3, 4, 5])('what is wanted right after the last write has ended is sent (%i)', async (turns) => {
  const { queue, sent, end } = setUp();
  queue.offer(wishes('hangs', 'hangs too', 'a'));
  const ended = end('label of a');
  for (let i = 0; i < turns; i += 1) await Promise.resolve();
  queue.offer(wishes('b'));
  await ended;
  expect(sent.at(-1)).toBe('label of b');
});
