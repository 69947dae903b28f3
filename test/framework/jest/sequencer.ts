import { createRequire } from 'node:module';
import type { Test } from '@jest/test-result';

type Base = new (options: unknown) => { sort(tests: Test[]): Test[] | Promise<Test[]> };
const { default: Sequencer } = createRequire(import.meta.url)('@jest/test-sequencer') as { readonly default: Base };

/** Files that take minutes: when one of them starts last, the other workers wait for it. A wrong name costs time only. */
const LONG = [
  'e2e/freeze',
  'e2e/drain',
  'e2e/rollout',
  'e2e/waiting-nodes',
  'e2e/campaign',
  'controller/recovery',
  'controller/brupop-config',
  'cli/plan-with',
  'host/settings-stories',
];

function isLong({ path }: Test): boolean {
  return LONG.some((name) => path.endsWith(`/${name}.test.ts`));
}

/** The order of Jest, after the files that take longest. */
// oxlint-disable-next-line import/no-default-export -- Jest takes the default export
export default class extends Sequencer {
  override async sort(tests: Test[]): Promise<Test[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- it is not one of an array
    const sorted = await super.sort(tests);
    return [...sorted.filter(isLong), ...sorted.filter((test) => !isLong(test))];
  }
}
