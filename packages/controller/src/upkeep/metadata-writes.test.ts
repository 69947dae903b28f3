/** Which writes bring a Node what its group gives it. */
import fc from 'fast-check';
import { GROUP_KEYS_ANNOTATION, GROUP_TAINTS_ANNOTATION } from '@brupop/shared/api/names';
import type { Rendered } from '@brupop/shared/api/node-metadata';
import { type AppliedKeys, keysRecord, type MetadataState, taintsRecord } from '../cluster/group-metadata.ts';
import { knownKeys } from '../policy/rendered.ts';
import { decideMetadata, type MetadataInput, type MetadataWrite } from './metadata-writes.ts';

const TAINT = { key: 'example.com/dedicated', value: 'gpu', effect: 'NoSchedule' } as const;

function rendered(parts: Partial<Rendered> = {}): Rendered {
  const nothing = { labels: [], annotations: [], taints: [] };
  return {
    generation: 1,
    conflicts: 'Respect',
    labels: {},
    annotations: {},
    taints: [],
    settings: {},
    dropped: nothing,
    ...parts,
  };
}

function aState(parts: Partial<MetadataState> = {}): MetadataState {
  return { labels: {}, annotations: {}, taints: [], applied: [], ...parts };
}

const applied = (group: string, ...labels: string[]): AppliedKeys => {
  return { group, labels, annotations: [GROUP_KEYS_ANNOTATION] };
};

function decide(
  state: MetadataState,
  groups: Readonly<Record<string, Rendered>>,
  wanted?: string,
  others: Readonly<Record<string, string>> = {},
): ReturnType<typeof decideMetadata> {
  const of = wanted === undefined ? undefined : groups[wanted];
  const input: MetadataInput = {
    state,
    wanted: wanted === undefined || of === undefined ? undefined : { group: wanted, rendered: of },
    known: new Map(Object.entries(groups).map(([name, one]) => [name, knownKeys(one)])),
    otherOwner: (_, key) => others[key],
  };
  return decideMetadata(input);
}

const kinds = (writes: readonly MetadataWrite[]): string[] =>
  writes.map(({ kind, groups }) => `${kind} ${groups.join('+')}`);

describe('nothing is written', () => {
  const record = keysRecord({ group: 'gpu', labels: ['team'], annotations: [] });
  const inPlace = aState({
    labels: { team: 'ml' },
    annotations: { [GROUP_KEYS_ANNOTATION]: record },
    applied: [applied('gpu', 'team')],
  });
  it.each<[string, MetadataState, Rendered]>([
    ['to a Node that has everything', inPlace, rendered({ labels: { team: 'ml' } })],
    ['when a group gives nothing', aState({ labels: { team: 'mine' } }), rendered()],
    ['to a Node with the same taint of a user', aState({ taints: [TAINT] }), rendered({ taints: [{ ...TAINT }] })],
  ])('%s', (_, state, given) => {
    expect(decide(state, { gpu: given }, 'gpu')).toEqual({ writes: [], conflicts: [] });
  });

  it('for a key of another manager', () => {
    const state = aState({ labels: { team: 'mine' } });
    const { writes, conflicts } = decide(state, { gpu: rendered({ labels: { team: 'ml' } }) }, 'gpu', {
      team: 'kubectl',
    });
    expect(writes).toEqual([]);
    expect(conflicts).toEqual([{ field: 'labels', key: 'team', found: 'mine', manager: 'kubectl' }]);
  });
});

describe('a Node', () => {
  it('that moves gets what its new group gives before the old one is released', () => {
    const state = aState({ labels: { team: 'ml' }, applied: [applied('gpu', 'team')] });
    const groups = { gpu: rendered({ labels: { team: 'ml' } }), web: rendered({ labels: { team: 'web' } }) };
    expect(kinds(decide(state, groups, 'web').writes)).toEqual(['Apply web', 'Apply gpu']);
  });

  it('without managed fields is adopted by the group that the record names', () => {
    const record = keysRecord({ group: 'gpu', labels: ['team', 'protected'], annotations: [] });
    const state = aState({ labels: { team: 'ml', protected: 'x' }, annotations: { [GROUP_KEYS_ANNOTATION]: record } });
    const [first] = decide(state, { gpu: rendered({ labels: { team: 'ml' } }) }, 'gpu').writes;
    expect(first).toMatchObject({ kind: 'Adopt', keys: { labels: ['team'] } });
  });

  it('keeps a recorded taint that another writer has changed', () => {
    const state = aState({
      taints: [{ ...TAINT, value: 'mine' }],
      annotations: { [GROUP_TAINTS_ANNOTATION]: taintsRecord([{ group: 'gpu', ...TAINT }]) ?? '' },
    });
    const [write] = decide(state, { gpu: rendered({ taints: [TAINT] }) }).writes;
    expect(write).toMatchObject({ kind: 'Taints', taints: [{ value: 'mine' }], record: null });
  });
});

describe('a group', () => {
  it('removes nothing that a Node only claims to have of the group', () => {
    const quarantine = { key: 'example.com/quarantine', value: '', effect: 'NoExecute' } as const;
    const state = aState({
      labels: { team: 'ml', 'node-restriction.kubernetes.io/pool': 'db' },
      annotations: { [GROUP_TAINTS_ANNOTATION]: taintsRecord([{ group: 'gpu', ...quarantine }]) ?? '' },
      taints: [quarantine],
      applied: [applied('gpu', 'team', 'node-restriction.kubernetes.io/pool')],
    });
    const groups = { gpu: rendered({ dropped: { labels: ['team'], annotations: [], taints: [] } }) };
    const kept = { 'node-restriction.kubernetes.io/pool': 'db' };
    const release = { kind: 'Apply', groups: ['gpu'], body: { labels: kept, annotations: {} } };
    expect(decide(state, groups).writes).toEqual([release]);
    expect(decide(state, groups, 'gpu').writes).toEqual([
      release,
      { kind: 'Taints', groups: ['gpu'], taints: [quarantine], record: null },
    ]);
  });

  it('removes what a Node claims to have of it if it gives that key to others, whatever the value is', () => {
    const trust = 'node-restriction.kubernetes.io/trust';
    const byUser = { ...TAINT, value: 'quarantine' };
    const state = aState({
      labels: { [trust]: 'low' },
      annotations: { [GROUP_TAINTS_ANNOTATION]: taintsRecord([{ group: 'gpu', ...byUser }]) ?? '' },
      taints: [byUser],
      applied: [applied('gpu', trust)],
    });
    expect(decide(state, { gpu: rendered({ labels: { [trust]: 'high' }, taints: [TAINT] }) }).writes).toEqual([
      { kind: 'Apply', groups: ['gpu'], body: { labels: {}, annotations: {} } },
      { kind: 'Taints', groups: ['gpu'], taints: [], record: null },
    ]);
  });

  it('that does not exist removes nothing', () => {
    expect(decide(aState({ labels: { team: 'ml' }, applied: [applied('gone', 'team')] }), {}).writes).toEqual([]);
  });

  it('by Force takes over labels and taints', () => {
    const state = aState({ labels: { team: 'mine' }, taints: [{ ...TAINT, value: 'mine' }] });
    const given = rendered({ conflicts: 'Force', labels: { team: 'ml' }, taints: [TAINT] });
    const { writes, conflicts } = decide(state, { gpu: given }, 'gpu', { team: 'kubectl' });
    expect(conflicts).toEqual([]);
    expect(writes).toMatchObject([
      { kind: 'Apply', body: { labels: { team: 'ml' } } },
      { kind: 'Taints', taints: [TAINT] },
    ]);
  });
});

it('taints of others stay, whatever groups give and drop, and one write settles them', () => {
  const taint = fc.record({
    key: fc.constantFrom('a', 'b', 'c'),
    value: fc.constantFrom('', 'x'),
    effect: fc.constantFrom('NoSchedule' as const, 'NoExecute' as const),
  });
  const taints = fc.uniqueArray(taint, { selector: ({ key, effect }) => `${key}:${effect}`, maxLength: 4 });
  const force = fc.constantFrom('Respect' as const, 'Force' as const);
  const property = fc.property(taints, taints, taints, force, (there, before, after, conflicts) => {
    const settle = (state: MetadataState, given: Rendered): MetadataState => {
      const [write] = decide(state, { gpu: given }, 'gpu').writes;
      if (write === undefined) return state;
      if (write.kind !== 'Taints') throw new Error('expected taints only');
      const annotations = write.record === null ? {} : { [GROUP_TAINTS_ANNOTATION]: write.record };
      const next = { ...state, taints: write.taints, annotations };
      expect(decide(next, { gpu: given }, 'gpu').writes).toEqual([]);
      return next;
    };
    const ids = before.map(({ key, effect }) => `${key}:${effect}`);
    const first = settle(aState({ taints: there }), rendered({ taints: before }));
    const second = settle(
      first,
      rendered({ taints: after, conflicts, dropped: { labels: [], annotations: [], taints: ids } }),
    );
    const last = settle(
      second,
      rendered({
        dropped: {
          labels: [],
          annotations: [],
          taints: [...ids, ...after.map(({ key, effect }) => `${key}:${effect}`)],
        },
      }),
    );
    const isTaken = (one: (typeof there)[number]): boolean =>
      conflicts === 'Force' &&
      after.some(({ key, effect, value }) => key === one.key && effect === one.effect && value !== one.value);
    const text = (list: readonly object[]): string[] => list.map((one) => JSON.stringify(one)).toSorted();
    expect(text(last.taints)).toEqual(text(there.filter((one) => !isTaken(one))));
  });
  fc.assert(property);
});
