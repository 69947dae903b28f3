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

  it('is an error when the stream ends within a line', async () => {
    await expect(read([Buffer.from('{"a":1}\n{"b":')])).rejects.toThrow('ended in the middle of a line');
  });

  it('is an error when a line is no JSON', async () => {
    await expect(read([Buffer.from('{"a":1}\nnonsense\n')])).rejects.toThrow(SyntaxError);
  });
});
