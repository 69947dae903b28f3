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
const signatures = {
  [CORDONED_ANNOTATION]: null,
  [RECORDONED_ANNOTATION]: null,
  [EXCLUDED_ANNOTATION]: null,
  [AUTOSCALER_HOLDS_ANNOTATION]: null,
};
const node = (
  annotations: Record<string, string>,
  more: { unschedulable?: boolean; labelled?: boolean } = {},
): OwnableNode => ({
  metadata: { annotations, labels: more.labelled === true ? { [EXCLUSION_LABEL]: 'true' } : {} },
  unschedulable: more.unschedulable ?? false,
});

describe('holding autoscalers off', () => {
  it('sets and signs what nobody has set', () => {
    expect(holdAnnotations(node({}))).toEqual({
      [autoscaler]: 'true',
      [karpenter]: 'true',
      [AUTOSCALER_HOLDS_ANNOTATION]: `${autoscaler},${karpenter}`,
    });
  });

  it('leaves what somebody else has set, whatever its value', () => {
    expect(holdAnnotations(node({ [autoscaler]: 'false' }))).toEqual({
      [karpenter]: 'true',
      [AUTOSCALER_HOLDS_ANNOTATION]: karpenter,
    });
    expect(holdAnnotations(node({ [autoscaler]: 'true', [karpenter]: 'true' }))).toEqual({});
  });

  it('changes nothing the second time', () => {
    expect(holdAnnotations(node(holdAnnotations(node({}))))).toEqual({});
  });
});

describe('a release', () => {
  it('takes back cordon, label and holds that are ours', () => {
    const held = holdAnnotations(node({}));
    const found = node(
      { ...held, [CORDONED_ANNOTATION]: 't', [EXCLUDED_ANNOTATION]: 't', other: 'x' },
      { unschedulable: true, labelled: true },
    );
    expect(releasePatch(found)).toEqual({
      metadata: {
        annotations: { ...signatures, [autoscaler]: null, [karpenter]: null },
        labels: { [EXCLUSION_LABEL]: null },
      },
      spec: { unschedulable: null },
    });
  });

  it.each<[string, OwnableNode]>([
    ['a cordon and a label', node({}, { unschedulable: true, labelled: true })],
    ['holds', node({ [autoscaler]: 'true', [karpenter]: 'true' })],
  ])('leaves %s of somebody else', (_what, found) => {
    expect(ownedByUs(found)).toBe(false);
    expect(releasePatch(found)).toBeUndefined();
  });

  it('leaves a hold whose value somebody has changed', () => {
    const patch = releasePatch(node({ ...holdAnnotations(node({})), [autoscaler]: 'false' }));
    expect(patch?.metadata?.annotations).toEqual({ ...signatures, [karpenter]: null });
  });

  it('removes nothing but holds, whatever the signature says', () => {
    expect(
      releasePatch(node({ [AUTOSCALER_HOLDS_ANNOTATION]: 'important,other', important: 'true' }))?.metadata
        ?.annotations,
    ).toEqual(signatures);
  });

  it('takes only the signatures away when what they signed is gone', () => {
    expect(releasePatch(node({ [CORDONED_ANNOTATION]: 't', [EXCLUDED_ANNOTATION]: 't' }))).toEqual({
      metadata: { annotations: signatures },
    });
  });

  it('of our label does not uncordon for somebody else', () => {
    expect(
      releasePatch(node({ [EXCLUDED_ANNOTATION]: 't' }, { unschedulable: true, labelled: true })),
    ).not.toHaveProperty('spec');
  });
});
