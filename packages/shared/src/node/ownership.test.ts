import {
  CORDONED_ANNOTATION,
  EXCLUDED_ANNOTATION,
  EXCLUSION_LABEL,
  AUTOSCALER_HOLDS_ANNOTATION,
  AUTOSCALER_HOLDS,
  RECORDONED_ANNOTATION,
} from '../api/names.ts';
import { ownedByUs, holdAnnotations, type OwnableNode, releasePatch } from './ownership.ts';

const [autoscaler, karpenter] = AUTOSCALER_HOLDS;
const records = {
  [CORDONED_ANNOTATION]: null,
  [RECORDONED_ANNOTATION]: null,
  [EXCLUDED_ANNOTATION]: null,
  [AUTOSCALER_HOLDS_ANNOTATION]: null,
};
const node = (
  annotations: Record<string, string>,
  more: { unschedulable?: boolean; exclusion?: string } = {},
): OwnableNode => ({
  metadata: { annotations, labels: more.exclusion === undefined ? {} : { [EXCLUSION_LABEL]: more.exclusion } },
  unschedulable: more.unschedulable ?? false,
});

describe('autoscaler holds', () => {
  it('are set and recorded where they are not set', () => {
    expect(holdAnnotations(node({}))).toEqual({
      [autoscaler]: 'true',
      [karpenter]: 'true',
      [AUTOSCALER_HOLDS_ANNOTATION]: `${autoscaler},${karpenter}`,
    });
  });

  it('of another actor stay, whatever their value', () => {
    expect(holdAnnotations(node({ [autoscaler]: 'false' }))).toEqual({
      [karpenter]: 'true',
      [AUTOSCALER_HOLDS_ANNOTATION]: karpenter,
    });
    expect(holdAnnotations(node({ [autoscaler]: 'true', [karpenter]: 'true' }))).toEqual({});
  });

  it('do not change the second time', () => {
    expect(holdAnnotations(node(holdAnnotations(node({}))))).toEqual({});
  });
});

describe('a release patch', () => {
  it('removes cordon, label and holds that the operator owns', () => {
    const held = holdAnnotations(node({}));
    const found = node(
      { ...held, [CORDONED_ANNOTATION]: 't', [EXCLUDED_ANNOTATION]: 't', other: 'x' },
      { unschedulable: true, exclusion: 'true' },
    );
    expect(releasePatch(found)).toEqual({
      metadata: {
        annotations: { ...records, [autoscaler]: null, [karpenter]: null },
        labels: { [EXCLUSION_LABEL]: null },
      },
      spec: { unschedulable: null },
    });
  });

  it.each<[string, OwnableNode]>([
    ['a cordon and a label', node({}, { unschedulable: true, exclusion: 'true' })],
    ['holds', node({ [autoscaler]: 'true', [karpenter]: 'true' })],
  ])('leaves %s of another actor', (_what, found) => {
    expect(ownedByUs(found)).toBe(false);
    expect(releasePatch(found)).toBeUndefined();
  });

  it('leaves a hold whose value another actor changed', () => {
    const patch = releasePatch(node({ ...holdAnnotations(node({})), [autoscaler]: 'false' }));
    expect(patch?.metadata?.annotations).toEqual({ ...records, [karpenter]: null });
  });

  it.each([
    ['removes the exclusion of the operator', 'true', true],
    ['removes the exclusion of the Rust operator, which a takeover has adopted', 'True', true],
    ['leaves an exclusion whose value another actor changed', 'karpenter', false],
  ])('%s', (_what, exclusion, isRemoved) => {
    const patch = releasePatch(node({ [EXCLUDED_ANNOTATION]: 't' }, { exclusion }));
    expect(patch?.metadata).toEqual({
      annotations: records,
      ...(isRemoved && { labels: { [EXCLUSION_LABEL]: null } }),
    });
  });

  it('removes nothing but holds, whatever the record names', () => {
    expect(
      releasePatch(node({ [AUTOSCALER_HOLDS_ANNOTATION]: 'important,other', important: 'true' }))?.metadata
        ?.annotations,
    ).toEqual(records);
  });

  it('removes only the records when what they recorded is gone', () => {
    expect(releasePatch(node({ [CORDONED_ANNOTATION]: 't', [EXCLUDED_ANNOTATION]: 't' }))).toEqual({
      metadata: { annotations: records },
    });
  });

  it('for the label does not uncordon what another actor cordoned', () => {
    expect(
      releasePatch(node({ [EXCLUDED_ANNOTATION]: 't' }, { unschedulable: true, exclusion: 'true' })),
    ).not.toHaveProperty('spec');
  });
});
