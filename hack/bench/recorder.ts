import type { BottlerocketShadow } from '../../packages/shared/src/api/shadow.ts';
import type { Fleet } from '../../test/framework/fleet/fleet.ts';
import { type Milestone, milestonesOf, type Timeline } from './timeline.ts';

/** Records when each milestone of each node's update was first seen, in epoch milliseconds. */
export class Recorder {
  readonly #timelines = new Map<string, Timeline>();
  readonly #fleet: Fleet;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
    fleet.observer.shadows.subscribe(({ object }) => this.#note(object));
  }

  /** One timeline per node that was updated. */
  timelines(): Timeline[] {
    return [...this.#timelines].map(([node, timeline]) => ({ ...timeline, ...this.#ofHost(node) }));
  }

  /**
   * The host went down at the reboot call; the first request after it comes from the agent that was
   * started again.
   */
  #ofHost(node: string): Timeline {
    const { history } = this.#fleet.node(node).host;
    const at = history.findIndex(({ path }) => path === '/actions/reboot');
    const [call, next] = [history[at], history[at + 1]];
    return { ...(call && { hostDown: call.time }), ...(next && { agentBack: next.time }) };
  }

  #note(shadow: BottlerocketShadow): void {
    const node = shadow.metadata.name.replace(/^brs-/u, '');
    if (!this.#timelines.has(node) && shadow.spec.state === 'Idle') return;
    const timeline = this.#timelines.get(node) ?? {};
    const first = (milestone: Milestone): boolean => timeline[milestone] === undefined;
    for (const milestone of milestonesOf(shadow).filter(first)) timeline[milestone] = Date.now();
    this.#timelines.set(node, timeline);
  }
}
