/** What the model is worth: faults planted in the agent's calls and in the planner are all found by the first scenarios. */
import fc from 'fast-check';
import type { DrainResult } from '../../../packages/shared/src/api/agent-protocol.ts';
import { RECORD_ANNOTATION } from '../../../packages/shared/src/api/names.ts';
import type { NodeRecord } from '../../../packages/shared/src/api/record.ts';
import { Planner } from '../oracle/planned.ts';
import type { Write } from '../oracle/told.ts';
import { JointCluster } from './cluster.ts';
import type { AnyPlanner } from './controller.ts';
import { type Parts, wrongIn } from './run.ts';
import { type Scenario, scenarios } from './scenarios.ts';

/** As many as run by default, and the same ones. */
const SCENARIOS = fc.sample(scenarios, { seed: 20_261_201, numRuns: 120 });

/** The real planner, whose writes are changed. */
function planner(changed: (write: Write) => readonly Write[]): AnyPlanner {
  const real = new Planner();
  return {
    plan: (objects) => {
      const { told, writes } = real.plan(objects);
      return { told, writes: writes.flatMap(changed) };
    },
  };
}

function withoutEnd(write: Write): readonly Write[] {
  const isEnd = write.kind === 'spec' && write.spec.state === 'Idle';
  return isEnd ? [] : [write];
}

/** Every slot that was taken is kept. */
function withoutRelease(): AnyPlanner {
  const real = new Planner();
  const taken = new Set<string>();
  return {
    plan: (objects) => {
      const { told, writes } = real.plan(objects);
      for (const slot of told['slots'] as readonly string[]) taken.add(slot);
      return { told: { ...told, slots: [...taken] }, writes };
    },
  };
}

function countedTwice(write: Write): readonly Write[] {
  if (write.kind !== 'spec') return [write];
  const { unsuccessful, ...others } = JSON.parse(write.annotations[RECORD_ANNOTATION] ?? '{}') as NodeRecord;
  if (unsuccessful === undefined) return [write];
  const record = JSON.stringify({ ...others, unsuccessful: unsuccessful + 1 });
  return [{ ...write, annotations: { ...write.annotations, [RECORD_ANNOTATION]: record } }];
}

/** It answers every drain at once, and does nothing. */
class Undrained extends JointCluster {
  override drain(): DrainResult {
    return { done: true, evicted: 0, remaining: 0, blockedBy: [] };
  }
}

async function firstWrong(parts: Partial<Parts>): Promise<readonly Scenario[]> {
  for (const scenario of SCENARIOS) if ((await wrongIn(scenario, parts)) !== '') return [scenario];
  return [];
}

it.each<[string, Partial<Parts>]>([
  ['an agent that reboots the host without a drain', { Cluster: Undrained }],
  ['a planner that forgets to release a slot', { newPlanner: withoutRelease }],
  ['a planner that ends no update', { newPlanner: () => planner(withoutEnd) }],
  ['a planner that counts each unsuccessful attempt twice', { newPlanner: () => planner(countedTwice) }],
])(
  'finds %s',
  async (_what, parts) => {
    expect(await firstWrong(parts)).toHaveLength(1);
  },
  120_000,
);
