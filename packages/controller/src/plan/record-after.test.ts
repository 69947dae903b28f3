import type { ShadowState } from '@brupop/shared/api/shadow';
import { aManagedNode, aSnapshot, MINUTE, NEW, NOW, type ShadowParts, underWay } from '../testing/objects.ts';
import { wholePlan as plan } from '../whole-plan.ts';

describe('an update under way of which nothing is recorded', () => {
  it.each<[ShadowState, ShadowParts, string]>([
    ['StagedAndPerformedUpdate', {}, 'Advanced'],
    ['RebootedIntoUpdate', { status: { current_version: NEW } }, 'Advanced'],
    ['MonitoringUpdate', { status: { current_version: NEW } }, 'Succeeded'],
  ])('goes on from %s, and is on record from then on', (state, parts, outcome) => {
    const node = aManagedNode('a', {}, { spec: underWay(state, 2 * MINUTE), record: {}, ...parts });
    const [change] = plan(aSnapshot([node]), NOW).specs;
    expect(change?.outcome).toBe(outcome);
    expect(Object.keys(change?.record ?? {})).toContain(outcome === 'Advanced' ? 'rebootRequestedAt' : 'succeeded');
  });
});
