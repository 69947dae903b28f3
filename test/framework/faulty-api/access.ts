import type { ClusterAccess } from '../../../packages/shared/src/kube/client.ts';
import { showFiles } from '../kubelet/atomic-files.ts';
import type { FaultyApi } from './faulty-api.ts';

const mode = 0o600;

/** Connection of a pod with its service account's files in `dir` to the proxy. */
export function accessThrough(api: FaultyApi, dir: string): ClusterAccess {
  return { host: '127.0.0.1', port: api.wire.address.port, serviceAccountDir: dir };
}

/** Writes a service account's files, or replaces them atomically, as a kubelet does. */
export async function presentCredentials(dir: string, { token, ca }: { token: string; ca: string }): Promise<void> {
  await showFiles(
    dir,
    new Map([
      ['token', { data: Buffer.from(token), mode }],
      ['ca.crt', { data: Buffer.from(ca), mode }],
    ]),
  );
}
