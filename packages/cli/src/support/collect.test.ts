import { KubeError } from '@brupop/shared/kube/error';
import { systemClock } from '@brupop/shared/runtime/clock';
import type { Client } from '../cluster/client.ts';
import { Collection } from './collect.ts';
import { Redaction } from './redact.ts';

const pod = (name: string, namespace: string) => ({
  metadata: { name, namespace, labels: { 'brupop.bottlerocket.aws/component': 'brupop-controller' } },
});

/** Returns the files of a bundle, and the parts of it that were not read. */
async function collected(get: (path: string, query: object) => unknown) {
  const files = new Map<string, string>();
  const client: Client = {
    context: 'c',
    server: 's',
    namespace: undefined,
    request: async <T>({ path, query = {} }: Parameters<Client['request']>[0]) =>
      await Promise.resolve(get(path, query) as T),
    text: async () => await Promise.resolve('a line\n'),
    time: async () => await Promise.resolve(undefined),
    stream: () => {
      throw new Error('expected no stream');
    },
  };
  const add = async (name: string, text: string): Promise<void> => {
    files.set(name, text);
    await Promise.resolve();
  };
  const collection = new Collection({
    client,
    clock: systemClock,
    signal: new AbortController().signal,
    archive: { add },
    redaction: new Redaction(undefined),
    shadows: [],
    namespace: 'brupop',
    lines: 10,
    agents: 10,
  });
  await collection.run();
  return { files, missing: collection.parts.filter(({ isRead }) => !isRead).map(({ file, result }) => [file, result]) };
}

const LATE = new KubeError(0, 'Unreachable', 'no response from s: not complete within 30 s');
const TIMEOUT = new KubeError(504, 'Timeout', '504 the server was unable to return a response in time');

it.each([LATE, TIMEOUT])(
  'has pods and logs of the operator if the list of all namespaces fails with %s',
  async (error) => {
    const { files, missing } = await collected((path) => {
      if (path === '/api/v1/pods') throw error;
      const items = path === '/api/v1/namespaces/brupop/pods' ? [pod('brupop-controller-1', 'brupop')] : [];
      return { items, metadata: { resourceVersion: '1' } };
    });
    expect(missing).toEqual([['objects/pods.json', `in other namespaces: ${error.message}`]]);
    expect([...files.keys()]).toEqual(expect.arrayContaining(['objects/pods.json', 'logs/brupop-controller-1.log']));
  },
);

it('has each log once if a later page of the list of all namespaces fails', async () => {
  const { files } = await collected((path, query) => {
    if (path === '/api/v1/namespaces/brupop/pods')
      return { items: [pod('one', 'brupop')], metadata: { resourceVersion: '1' } };
    if (path !== '/api/v1/pods') return { items: [], metadata: { resourceVersion: '1' } };
    if ('continue' in query) throw TIMEOUT;
    return {
      items: [pod('one', 'brupop'), pod('other', 'agents')],
      metadata: { resourceVersion: '1', continue: 'page-2' },
    };
  });
  const names = [...files.keys()].filter((name) => /^logs|^objects.events-in/u.test(name));
  expect(names).toEqual(['logs/one.log']);
});
