import { ApiError } from '../control-plane/api.ts';
import type { Connection } from '../control-plane/connection.ts';

const NAME = 'no-evictions';
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const POLICIES = `${ADMISSION}/validatingadmissionpolicies`;
const BINDINGS = `${ADMISSION}/validatingadmissionpolicybindings`;

type Cluster = Pick<Connection, 'api'>;

/** Rejects every eviction with 403, from about a second after the call. */
export async function forbidEvictions(cluster: Cluster): Promise<void> {
  const rule = {
    apiGroups: [''],
    apiVersions: ['v1'],
    operations: ['CREATE'],
    resources: ['pods/eviction'],
    scope: '*',
  };
  await create(cluster, POLICIES, {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules: [rule] },
    validations: [{ expression: 'false', message: 'evictions are forbidden', reason: 'Forbidden' }],
  });
  await create(cluster, BINDINGS, { policyName: NAME, validationActions: ['Deny'] });
}

/** Allows evictions again. */
export async function allowEvictions(cluster: Cluster): Promise<void> {
  await cluster.api.delete(`${BINDINGS}/${NAME}`);
  await cluster.api.delete(`${POLICIES}/${NAME}`);
}

async function create({ api }: Cluster, path: string, spec: object): Promise<void> {
  await api.create(path, { metadata: { name: NAME }, spec }).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  });
}
