/** Which writes are in flight beside the reconciles, and in which order. */
import { setImmediate as turn } from 'node:timers/promises';
import { type Wish, WriteQueue } from './queue.ts';

/** A queue of three at a time whose writes end when the test lets them. */
function setUp(canWrite: (key: string) => boolean = () => true) {
  const stop = new AbortController();
  const sent: string[] = [];
  const waiting = new Map<string, { end: () => void; fail: (error: Error) => void }>();
  const write = async ({ key }: Wish): Promise<void> => {
    sent.push(key);
    await new Promise<void>((end, fail) => waiting.set(key, { end, fail }));
  };
  const queue = new WriteQueue({ writer: { canWrite }, signal: stop.signal, parallel: 3, write });
  const end = async (key: string, error?: Error): Promise<void> => {
    const one = waiting.get(key);
    if (one === undefined) throw new Error(`expected ${key} in flight, found ${[...waiting.keys()].join(', ')}`);
    waiting.delete(key);
    if (error === undefined) one.end();
    else one.fail(error);
    await turn();
  };
  return { queue, sent, stop, end };
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
  const backsOff = new Set<string>();
  const { queue, sent, end } = setUp((key) => !backsOff.has(key));
  queue.offer(wishes('a', 'b', 'c', 'd', 'e'));
  backsOff.add('label of d');
  await end('label of a');
  expect(sent.at(-1)).toBe('label of e');
});

it('after the Lease is lost nothing more is sent', async () => {
  const { queue, sent, end } = setUp();
  queue.offer(wishes('a', 'b', 'c', 'd'));
  await end('label of a', new Error('lost leadership'));
  expect([sent.length, queue.left.length]).toEqual([3, 2]);
});

it('after the end of the process it is idle when what is in flight has ended', async () => {
  const { queue, sent, stop, end } = setUp();
  queue.offer(wishes('a', 'b', 'c', 'd'));
  stop.abort();
  for (const name of ['a', 'b', 'c']) await end(`label of ${name}`);
  await queue.idle();
  expect(sent).toHaveLength(3);
});
