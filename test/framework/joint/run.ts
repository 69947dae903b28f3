/**
 * The real agent and the real planner with one Node, through a scenario. An agent or its host may die at any call; the
 * leader may change, or be absent; users edit whatever they may; etcd may lose what was written. Each attempt goes
 *
 *     Idle -> StagedAndPerformedUpdate -> RebootedIntoUpdate -> MonitoringUpdate -> Idle
 *
 * and back to Idle from each of these. All along the invariants of the agent's model hold, and the controller restores no
 * Node whose reboot may still come. A long time after the last fault the node is updated or waits for a user; nothing is
 * left activated, cordoned or excluded; no slot is kept; the host has rebooted at most once for each start; no failure was
 * counted twice; and the host has the requested settings, with no change of them under way.
 */
import type { Outcome } from '../../../packages/controller/src/plan/specs/transition.ts';
import { SimWorld } from '../../../packages/agent/src/testing/model/sim-world.ts';
import { Planner } from '../oracle/planned.ts';
import { JointCluster } from './cluster.ts';
import { type AnyPlanner, JointController } from './controller.ts';
import { CONFIG, type Scenario } from './scenarios.ts';

const MINUTE = 60_000;
const FAULTS_MS = 25 * MINUTE;
const QUIET_MS = 10 * MINUTE;
const MOST_QUIET = 15;
const REST_MS = 20 * MINUTE;
/** With waits of 1 to 10 minutes. */
const MOST_STARTS = 25;
const MOTD = 'settings.motd';
const NEEDS_USER = ['ManualRetryRequired', 'Frozen', 'Aborted', 'Reverted', 'Held'];
const UNSUCCESSFUL: readonly Outcome[] = ['Failed', 'Cancelled', 'CheckFailed', 'Reverting', 'Deferred'];
/**
 * With an earlier etcd the cordon of a drained node, the failure of a version or the end of an attempt may be gone, and no
 * operator can know of them. So the model's checks of each reboot do not hold then, nor do counts. What must be true at
 * rest is checked all the same.
 */
const LOST_WITH_ETCD = /^rebooted |goes down for the agent|without a fresh drain/u;

/** Parts in which a fault may be planted. */
export interface Parts {
  readonly newPlanner: () => AnyPlanner;
  readonly Cluster: typeof JointCluster;
}
const REAL: Parts = { newPlanner: () => new Planner(), Cluster: JointCluster };

class JointWorld extends SimWorld {
  declare readonly cluster: JointCluster;
  declare readonly controller: JointController;

  constructor({ faults, needsReboot }: Scenario, { Cluster, newPlanner }: Parts) {
    super(faults, undefined, (clock, host) => {
      const cluster = new Cluster(clock, () => host.boots, CONFIG);
      return { cluster, controller: new JointController(cluster, host, clock, newPlanner) };
    });
    this.host.classOf = () => (needsReboot ? 'NeedsReboot' : 'Live');
  }

  /** Whether the node is updated, or waits for a user. */
  get settled(): boolean {
    const { cluster, host } = this;
    const { spec, status, generation } = cluster.shadow ?? {};
    const isIdle = spec?.state === 'Idle' && status?.current_state === 'Idle';
    if (!isIdle || status.observedGeneration !== generation || cluster.marked) return false;
    return NEEDS_USER.includes(this.#reason) || (this.#reason !== 'Backoff' && host.choice === undefined);
  }

  get #reason(): string {
    return this.controller.shadow?.progressing?.reason ?? '';
  }

  /** Returns what is wrong after a long time without faults. */
  atRest(): string[] {
    const { invariants, controller } = this;
    const { isRestored } = controller;
    const all = [...invariants.violations, ...controller.wrong];
    const known = isRestored ? all.filter((what) => !LOST_WITH_ETCD.test(what)) : all;
    return [
      ...known,
      ...this.#left(),
      ...this.#wrongSettings(),
      ...this.#wrongMotd(),
      ...(isRestored ? [] : this.#wrongCounts()),
    ];
  }

  #left(): string[] {
    const { cluster, controller, host } = this;
    return named({
      [`neither updated nor waiting for a user: ${this.#reason} ${JSON.stringify(cluster.shadow)}`]: !this.settled,
      'the host is left activated': host.armed,
      'the Node is left cordoned or excluded': cluster.marked,
      [`a slot is kept: ${this.#reason}`]: controller.slots.length > 0,
    });
  }

  #wrongSettings(): string[] {
    const { status, spec } = this.controller.shadow ?? {};
    const { allow = 'None' } = spec?.settings ?? {};
    return named({
      'settings are in flight': status?.settings?.inFlight !== undefined,
      [`changes of settings are still allowed: ${allow}`]: allow !== 'None',
    });
  }

  /** Of a node that is done; one that waits for a user may wait with its settings as well. */
  #wrongMotd(): string[] {
    if (this.#reason !== 'UpToDate') return [];
    const { cluster, host } = this;
    const { motd } = (cluster.kept.group?.spec['settings'] ?? {}) as { readonly motd?: string };
    const [stored, applied] = [host.valueOf(MOTD), host.appliedOf(MOTD)];
    return named({
      [`motd ${stored} is stored, ${motd} is requested`]: motd !== undefined && stored !== JSON.stringify(motd),
      [`motd ${stored} is stored, ${applied} applied`]: stored !== applied,
    });
  }

  #wrongCounts(): string[] {
    const { invariants, controller } = this;
    const { record, status } = controller.shadow ?? {};
    const { unsuccessful = 0, attempts } = record ?? {};
    const starts = controller.outcomes.filter((one) => one === 'Started').length;
    const ends = controller.outcomes.filter((one) => UNSUCCESSFUL.includes(one)).length;
    const reboots = invariants.log.filter((line) => line.endsWith('host shuts down: asked')).length;
    const crashes = status?.crash_count ?? 0;
    return named({
      [`${reboots} reboots for ${starts} starts`]: reboots > starts,
      [`${starts} starts`]: starts > MOST_STARTS,
      [`${unsuccessful} and ${attempts?.count} attempts are counted, ${ends} were unsuccessful`]:
        Math.max(unsuccessful, attempts?.count ?? 0) > ends,
      [`the agent has counted ${crashes} failures of ${ends}`]: crashes > ends + 1,
    });
  }
}

/** The names of those that are so. */
function named(found: Readonly<Record<string, boolean>>): string[] {
  return Object.entries(found).flatMap(([what, isSo]) => (isSo ? [what] : []));
}

/** Returns the scenario, what is wrong with it, and its log; empty when nothing is. */
export async function wrongIn(scenario: Scenario, parts: Partial<Parts> = {}): Promise<string> {
  const world = new JointWorld(scenario, { ...REAL, ...parts });
  await world.run(FAULTS_MS);
  world.heal(false);
  world.controller.heal(CONFIG);
  // First without a look: the node may seem settled until the last change is seen.
  await world.run(QUIET_MS);
  for (let quiet = 0; quiet < MOST_QUIET && !world.settled; quiet += 1) await world.run(QUIET_MS);
  await world.run(REST_MS);
  const wrong = world.atRest();
  world.killAgent();
  return wrong.length === 0 ? '' : [JSON.stringify(scenario), ...wrong, world.invariants.transcript()].join('\n');
}
