import { createLogger } from '@brupop/shared/runtime/log';
import type { LostNode } from '../upkeep/lost-nodes.ts';
import { LossReporter } from './lost-nodes.ts';

const lost = (name: string, generation = 3): LostNode => {
  const about = { apiVersion: 'v1', kind: 'Node', name, uid: name };
  const message = 'The node is lost';
  return { name, message, event: { reason: 'NodeLost', warning: true, about, message, key: `${name}/${generation}` } };
};

test('a loss is told once while it lasts, in the log and as an Event, and again after another update', () => {
  const events: string[] = [];
  const lines: string[] = [];
  const log = createLogger({ write: (line) => lines.push(line) });
  const reporter = new LossReporter();
  const report = (...nodes: LostNode[]): void =>
    reporter.report({ logOf: (node) => log.with({ node }), events: { record: ({ key }) => events.push(key) } }, nodes);
  report(lost('a'));
  report(lost('a'), lost('b'));
  report(lost('a'), lost('b'));
  report();
  report(lost('a', 5));
  expect(events).toEqual(['a/3', 'b/3', 'a/5']);
  expect(lines).toHaveLength(3);
});
