import type { Fault } from './faults.ts';
import type { SimWorld } from './sim-world.ts';

/** Lets the configuration, a group or a user change settings, or objects of the controller. Returns false for any other fault. */
export function changeSettings({ cluster, controller, invariants }: SimWorld, fault: Fault): boolean {
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
    case 'act':
      if (fault.act.kind === 'retry' || fault.act.kind === 'edit spec') invariants.forgive();
      controller.act(fault.act);
      return true;
    default:
      return false;
  }
}
