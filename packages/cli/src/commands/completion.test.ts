import { systemClock } from '@brupop/shared/runtime/clock';
import { KubeError, TOO_LARGE } from '@brupop/shared/kube/error';
import type { Client, TextRequest } from '../cluster/client.ts';
import { programOf } from '../program.ts';
import { candidates } from './completion.ts';

/** Of the metadata of a shadow with ten updates, as measured. */
const METADATA_BYTES = 5_500;
const MAX_BYTES = 16 * 1024 * 1024;

it('the names of a large fleet are candidates, although its metadata is more than one response may have', async () => {
  const names = Array.from({ length: 5_000 }, (_, index) => `brs-node-${index}`);
  const request = async <T>({ accept = '', query = {} }: TextRequest): Promise<T> => {
    const isTable = accept.includes('as=Table') && query['includeObject'] === 'None';
    if (!isTable && names.length * METADATA_BYTES > MAX_BYTES) throw new KubeError(0, TOO_LARGE, 'too large');
    return await Promise.resolve({ rows: names.map((name) => ({ cells: [name, 'Idle', '1.21.0'] })) } as T);
  };
  const client: Partial<Client> = { request };
  const program = programOf({
    clock: systemClock,
    signal: new AbortController().signal,
    screen: { width: 80, hasColors: false },
    print: () => undefined,
    warn: () => undefined,
    connect: () => {
      throw new Error('connects');
    },
  });
  const found = await candidates(program, ['explain', 'node-499'], () => client as Client);
  expect(found).toEqual(['node-499', ...Array.from({ length: 10 }, (_, index) => `node-499${index}`), ':4']);
});
