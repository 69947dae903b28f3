import type { Wait } from '../reasons.ts';
import type { Gate } from './gate.ts';

/** A node that is not well is neither drained nor rebooted: the update would add to whatever is going on. */
export const nodeReady: Gate = ({ candidate: { node, status } }) => {
  if (node.metadata.deletionTimestamp !== undefined) return wait('The Node is being deleted');
  if (!node.ready) return wait('The Node is not Ready');
  if (node.bootID !== '' && status.bootID !== '' && node.bootID !== status.bootID) {
    return wait('The host has booted since its agent last reported');
  }
  return undefined;
};

function wait(message: string): Wait {
  return { reason: 'NodeNotReady', message };
}
