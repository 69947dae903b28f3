/** Other clients of the host API, and the repository of the host. */
import type { Fault } from './faults.ts';
import type { SimHost } from './sim-host.ts';

export function actOnHost(host: SimHost, fault: Fault): void {
  switch (fault.kind) {
    case 'other client':
      return host.runForOthers(fault.command);
    case 'withdrawn':
      return host.withdraw(fault.version);
    case 'republished':
      return host.publish(host.offered);
    case 'repository gone':
      return host.loseRepository(fault.ms);
    default:
      return undefined;
  }
}
