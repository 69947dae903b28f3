/** When the other Nodes of a group wait because some were rejected. */
import { KubeError } from '@brupop/shared/kube/client';
import { FakeClock } from '@brupop/shared/testing/fake-clock';
import { MetadataNotes } from '../cluster/metadata-notes.ts';
import { anApplyContext } from '../testing/apply-context.ts';
import { aNode, NOW } from '../testing/objects.ts';
import type { MetadataChange } from '../upkeep/node-metadata.ts';
import { NodeMetadataWriter } from './node-metadata.ts';

/** A writer of Nodes of which an admission policy rejects those whose names start with `no-`. */
function setUp() {
  const clock = new FakeClock(NOW);
  const request = async ({ path }: { path: string }): Promise<unknown> => {
    if (path.includes('/nodes/no-')) throw new KubeError(403, 'Forbidden', 'denied by a policy');
    return await Promise.resolve({ metadata: { name: 'other', uid: 'of another Node' } });
  };
  const metadata = new NodeMetadataWriter(anApplyContext({ clock, client: { request } }), new MetadataNotes());
  /** Writes one Node after the other. */
  const write = async (...names: string[]): Promise<void> => {
    for (const one of metadata.due(names.map(removal)).writes) await one.write();
  };
  const isDue = (name: string): boolean => metadata.due([removal(name)]).writes.length > 0;
  return { clock, write, isDue };
}

/** What a group that was deleted has left on a Node. */
function removal(name: string): MetadataChange {
  return {
    node: aNode({ name }),
    wanted: undefined,
    known: new Map(),
    groups: ['gpu'],
    evicts: false,
    isRejected: false,
    isChangedBack: false,
    isOnOthers: false,
  };
}

const rejected = (count: number, first = 0): string[] => Array.from({ length: count }, (_, i) => `no-${first + i}`);

it('a few Nodes that are rejected delay no others', async () => {
  const { write, isDue } = setUp();
  await write(...rejected(9));
  expect(isDue('another')).toBe(true);
  await write('yes-0', ...rejected(9, 9));
  expect(isDue('another')).toBe(true);
});

it('after ten that were rejected in a row the others wait, longer each time', async () => {
  const { clock, write, isDue } = setUp();
  await write(...rejected(10));
  expect(isDue('another')).toBe(false);
  await clock.advance(2_000);
  expect(isDue('another')).toBe(true);
  await write('no-10');
  await clock.advance(1_000);
  expect(isDue('another')).toBe(false);
});

it('a Node that is accepted lets the others go on', async () => {
  const { clock, write, isDue } = setUp();
  await write(...rejected(10));
  await clock.advance(2_000);
  await write('yes-0');
  await write('no-10');
  expect(isDue('another')).toBe(true);
});
