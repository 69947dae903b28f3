/** What keeps kube-apiserver from accepting the pods of Jobs of checks. */
import { ApiError } from '../control-plane/api.ts';
import type { Connection } from '../control-plane/connection.ts';
import { eventually } from '../eventually.ts';
import { CHECKS_NAMESPACE, jobsOfChecks } from './checks.ts';

type Cluster = Pick<Connection, 'api'>;

interface Refusal {
  readonly refuse: (cluster: Cluster) => Promise<void>;
  /** Succeeds also when nothing is refused. */
  readonly allow: (cluster: Cluster) => Promise<void>;
  /** In what kube-apiserver says. */
  readonly reason: string;
  readonly isQuota?: boolean;
}

const NAMESPACE = `/api/v1/namespaces/${CHECKS_NAMESPACE}`;
const QUOTA = `${NAMESPACE}/resourcequotas`;
const ADMISSION = '/apis/admissionregistration.k8s.io/v1';
const POLICIES = `${ADMISSION}/validatingadmissionpolicies`;
const BINDINGS = `${ADMISSION}/validatingadmissionpolicybindings`;
const WEBHOOKS = `${ADMISSION}/validatingwebhookconfigurations`;
const NAME = 'no-pods-of-checks';
const SELECTOR = { matchLabels: { 'kubernetes.io/metadata.name': CHECKS_NAMESPACE } };
const PODS = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] };

/** For good. */
export const REFUSALS: Readonly<Record<string, Refusal>> = {
  'Pod Security': {
    refuse: (cluster) => enforce(cluster, 'restricted'),
    allow: (cluster) => enforce(cluster, null),
    reason: 'violates PodSecurity',
  },
  // Its words are those of a failure that passes.
  'a policy': { refuse: createPolicy, allow: deletePolicy, reason: 'denied request: a timeout is required' },
  'a quota': {
    refuse: (cluster) => createQuota(cluster, 'pods'),
    allow: deleteQuota,
    reason: 'exceeded quota',
    isQuota: true,
  },
};

const UNANSWERED: Refusal = {
  refuse: createWebhook,
  allow: ({ api }) => api.delete(`${WEBHOOKS}/${NAME}`),
  reason: 'failed calling webhook',
};

export function refusalBy(what: string): Refusal {
  return REFUSALS[what] ?? UNANSWERED;
}

/** A quota of none of `resource`, such as `pods`. */
export async function createQuota({ api }: Cluster, resource: string): Promise<void> {
  await api.create(QUOTA, { metadata: { name: NAME }, spec: { hard: { [resource]: '0' } } });
}

export async function deleteQuota({ api }: Cluster): Promise<void> {
  await api.delete(`${QUOTA}/${NAME}`);
}

/** Returns when kube-apiserver refuses pods for this reason, some moments after what refuses them was created. */
export async function untilRefused({ api }: Cluster, reason: string): Promise<void> {
  const pod = { metadata: { name: 'any' }, spec: { containers: [{ name: 'main', image: 'check' }] } };
  await eventually(async () => {
    const said = await api.create(`${NAMESPACE}/pods?dryRun=All`, pod).then(
      () => 'accepted',
      (error: unknown) => (error instanceof ApiError ? error.message : String(error)),
    );
    if (!said.includes(reason)) throw new Error(`expected a refusal: ${reason}; found: ${said}`);
  });
}

/** What the controller of Jobs says of pods that it cannot create for the first Job that exists. */
export async function failedCreates({ api }: Cluster): Promise<string> {
  const [job] = await jobsOfChecks({ api });
  const path = `${NAMESPACE}/events?fieldSelector=reason%3DFailedCreate,involvedObject.uid%3D${job?.metadata?.uid ?? 'none'}`;
  const { items } = await api.get<{ items: { message?: string }[] }>(path);
  return items.map(({ message }) => message).join('\n');
}

async function enforce({ api }: Cluster, level: string | null): Promise<void> {
  await api.patch(NAMESPACE, { metadata: { labels: { 'pod-security.kubernetes.io/enforce': level } } });
}

async function createPolicy({ api }: Cluster): Promise<void> {
  await api.create(POLICIES, {
    metadata: { name: NAME },
    spec: {
      failurePolicy: 'Fail',
      matchConstraints: { namespaceSelector: SELECTOR, resourceRules: [PODS] },
      validations: [{ expression: 'false', message: 'a timeout is required' }],
    },
  });
  await api.create(BINDINGS, { metadata: { name: NAME }, spec: { policyName: NAME, validationActions: ['Deny'] } });
}

async function deletePolicy({ api }: Cluster): Promise<void> {
  await api.delete(`${BINDINGS}/${NAME}`);
  await api.delete(`${POLICIES}/${NAME}`);
}

async function createWebhook({ api }: Cluster): Promise<void> {
  const webhook = {
    name: 'pods.example.com',
    // Nothing listens on the port.
    clientConfig: { url: 'https://127.0.0.1:1/' },
    rules: [PODS],
    namespaceSelector: SELECTOR,
    failurePolicy: 'Fail',
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
    timeoutSeconds: 5,
  };
  await api.create(WEBHOOKS, { metadata: { name: NAME }, webhooks: [webhook] });
}
