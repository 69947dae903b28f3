import { KubeError } from '@brupop/shared/kube/error';
import { systemClock } from '@brupop/shared/runtime/clock';
import type { Client } from '../cluster/client.ts';
import { Collection } from './collect.ts';
import { Redaction } from './redact.ts';

const pod = (name: string, namespace: string) => ({
  metadata: { name, namespace, labels: { 'brupop.bottlerocket.aws/component': 'brupop-controller' } },
});

/** Returns the files of a bundle, and the parts of it that were not read. */
async function collected(get: (path: string, query: object) => unknown, logOf = (_path: string) => 'a line\n') {
  const files = new Map<string, string>();
  const client: Client = {
    context: 'c',
    server: 's',
    namespace: undefined,
    request: async <T>({ path, query = {} }: Parameters<Client['request']>[0]) =>
      await Promise.resolve(get(path, query) as T),
    text: async ({ path }) => await Promise.resolve(logOf(path)),
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

describe('pods of others with the label of the operator', () => {
  const MIB = 1024 * 1024;
  const controller = pod('brupop-controller-1', 'brupop');
  const only = (path: string, items: readonly object[]): object => ({
    items: path === '/api/v1/pods' ? items : [],
    metadata: { resourceVersion: '1' },
  });

  it('neither take the place of the logs of the operator nor their names', async () => {
    const others = Array.from({ length: 140 }, (_, index) => pod(`x-${index}`, 'apps'));
    const { files, missing } = await collected(
      (path) => only(path, [pod('brupop-controller-1', 'apps'), ...others, controller]),
      (path) => (path.includes('/apps/') ? 'x'.repeat(MIB) : 'of the operator\n'),
    );
    expect(files.get('logs/brupop-controller-1.log')).toBe('of the operator\n');
    expect([...files.keys()]).toContain('logs/apps/brupop-controller-1.log');
    expect([...files.keys()].filter((file) => file.startsWith('logs/'))).toHaveLength(11);
    expect(missing).toEqual([]);
  });

  it('leave space for those of the operator', async () => {
    const sized = (one: object, length: number): object => ({
      ...one,
      spec: { containers: [{ args: ['x'.repeat(length)] }] },
    });
    const large = Array.from({ length: 20 }, () => sized(pod('large', 'apps'), MIB));
    const small = Array.from({ length: 500 }, () => sized(pod('small', 'apps'), 4_096));
    const { files } = await collected((path) => only(path, [...large, ...small, sized(controller, 8_192)]));
    const { items } = JSON.parse(files.get('objects/pods.json') ?? '') as { items: ReturnType<typeof pod>[] };
    expect(items.map(({ metadata }) => metadata.name)).toContain('brupop-controller-1');
  });
});
