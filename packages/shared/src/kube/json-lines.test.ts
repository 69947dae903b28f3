import { jest } from '@jest/globals';
import fc from 'fast-check';
import { jsonLines } from './watch-protocol.ts';

async function read(chunks: readonly Uint8Array[]): Promise<unknown[]> {
  async function* stream(): AsyncGenerator<Uint8Array> {
    yield* chunks;
  }
  return Array.fromAsync(jsonLines(stream()));
}

describe('newline-delimited JSON', () => {
  it('is read the same wherever the stream is cut into chunks', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.jsonValue()),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        async (values, sizes) => {
          const expected = values.map((value) => JSON.parse(JSON.stringify(value)) as unknown);
          const bytes = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(''));
          const chunks: Uint8Array[] = [];
          for (let at = 0; at < bytes.length; at += chunks.at(-1)?.length ?? 0) {
            chunks.push(bytes.subarray(at, at + (sizes[chunks.length % sizes.length] ?? 1)));
          }
          expect(await read(chunks)).toEqual(expected);
        },
      ),
    );
  });

  it('is read the same wherever a character of several bytes or the end of a line is cut', async () => {
    const bytes = Buffer.from('{"a":"ä€😀"}\r\n\r\n{"b":"\\u003c"}\n');
    for (let at = 1; at < bytes.length; at += 1)
      expect(await read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual([{ a: 'ä€😀' }, { b: '<' }]);
  });

  it('is searched for ends of lines once, however many chunks a line has', async () => {
    const chunk = Buffer.from('x'.repeat(16 * 1024));
    const chunks = [Buffer.from('"'), ...Array.from({ length: 512 }, () => chunk), Buffer.from('"\n')];
    const split = jest.spyOn(String.prototype, 'split');
    try {
      expect(await read(chunks)).toEqual(['x'.repeat(512 * chunk.length)]);
      const searched = split.mock.contexts.reduce<number>((sum, text) => sum + String(text).length, 0);
      expect(searched).toBe(Buffer.concat(chunks).length);
    } finally {
      split.mockRestore();
    }
  });

  it('has at most 16 Mi characters in a line', async () => {
    const half = Buffer.from('é'.repeat(8 * 1024 * 1024 - 1));
    const longest = [Buffer.from('"'), half, half, Buffer.from('"')];
    expect(await read([...longest, Buffer.from('\n7\n')])).toHaveLength(2);
    await expect(read([...longest, Buffer.from(' '), Buffer.from('\n')])).rejects.toThrow(
      'longer than 16777216 characters',
    );
  });

  it('is an error when the stream ends within a line', async () => {
    await expect(read([Buffer.from('{"a":1}\n{"b":')])).rejects.toThrow('ended in the middle of a line');
  });

  it('is an error when a line is no JSON', async () => {
    await expect(read([Buffer.from('{"a":1}\nnonsense\n')])).rejects.toThrow(SyntaxError);
  });
});
