/**
 * A test run of its own that will be killed: starts a kubelet for the node given as argument in the
 * folder given, prints `started`, and waits.
 * Arguments: namespace, node, folder.
 */
import { connectSharedControlPlane } from '../../../framework/control-plane/shared.ts';
import { arrange } from './arrangement.ts';

const [namespace = '', node = '', dir = ''] = process.argv.slice(2);
await arrange(connectSharedControlPlane(), namespace, { node, dir });
console.log('started');
