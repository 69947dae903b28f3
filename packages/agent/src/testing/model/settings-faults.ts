import type { Fault } from './faults.ts';
import type { SimWorld } from './sim-world.ts';

/** Lets the configuration, a group or a user change settings. Returns false for any other fault. */
export function changeSettings({ cluster, invariants }: SimWorld, fault: Fault): boolean {
  switch (fault.kind) {
    case 'pin':
      cluster.want(fault.wanted);
      return true;
    case 'settings by hand':
      invariants.userActions.set(fault.settings);
      return true;
    case 'group':
      cluster.wantMotd(fault.motd);
      return true;
    case 'motd by hand':
      invariants.userActions.setMotd(fault.motd);
      return true;
    default:
      return false;
  }
}
