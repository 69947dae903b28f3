/** A line longer than this is no watch event: etcd refuses objects over 1.5 MiB. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;

/** Parses newline-delimited JSON as it comes. Throws when a line is no JSON or too long, or when the stream ends within a line. */
export async function* jsonLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_LINE_CHARS)
      throw new Error(`a line of the stream is longer than ${MAX_LINE_CHARS} characters`);
    for (const line of lines) if (line.trim() !== '') yield JSON.parse(line);
  }
  if (rest.trim() !== '') throw new Error('the stream ended in the middle of a line');
}
