import { readEvent, readPage } from './watch-protocol.ts';

const object = { metadata: { name: 'a', uid: 'u', resourceVersion: '7' } };

describe('a page of a list', () => {
  it('names the next one until it is the last', () => {
    const page = (next?: string): unknown => ({ metadata: { resourceVersion: '5', continue: next }, items: [object] });
    expect(readPage(page('token'))).toEqual({ items: [object], resourceVersion: '5', next: 'token' });
    expect(readPage(page('')).next).toBeUndefined();
    expect(readPage(page()).next).toBeUndefined();
  });

  it.each([
    null,
    [],
    'x',
    {},
    { items: [] },
    { items: [], metadata: {} },
    { metadata: { resourceVersion: '5' } },
    { items: {}, metadata: { resourceVersion: '5' } },
  ])('is not taken for one when it is %j', (answer) => {
    expect(() => readPage(answer)).toThrow('the list sent something other');
  });
});

describe('a line of a watch', () => {
  it.each(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'])('is an event when it is %s', (type) => {
    expect(readEvent({ type, object })).toEqual({ type, object });
  });

  it.each([
    null,
    7,
    [],
    {},
    { type: 'ADDED' },
    { type: 'ADDED', object: {} },
    { type: 'ADDED', object: { metadata: { resourceVersion: '' } } },
    { type: 'MOVED', object },
  ])('is not taken for one when it is %j', (line) => {
    expect(() => readEvent(line)).toThrow('the watch sent something other');
  });

  it('is thrown when it is an ERROR, with its status and the time to wait', () => {
    const status = { code: 429, reason: 'TooManyRequests', message: 'later', details: { retryAfterSeconds: 2 } };
    const thrown = (object: unknown): unknown => {
      try {
        return readEvent({ type: 'ERROR', object });
      } catch (error) {
        return error;
      }
    };
    expect(thrown(status)).toMatchObject({ status: 429, reason: 'TooManyRequests', retryAfterMs: 2_000 });
    expect(thrown(null)).toMatchObject({ name: 'KubeError', status: 0 });
  });
});
