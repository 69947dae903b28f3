/** The Jobs of checks and hooks, for tests. */
import type { V1Job, V1PodList } from '@kubernetes/client-node';
import type { BrupopConfigSpec } from '../../../packages/shared/src/api/config-spec.ts';
import type { Connection } from '../control-plane/connection.ts';
import { jobEndAnnotation } from '../control-plane/stages.ts';

type Cluster = Pick<Connection, 'api'>;

export const CHECKS_NAMESPACE = 'brupop-checks';
const JOBS = `/apis/batch/v1/namespaces/${CHECKS_NAMESPACE}/jobs`;

/** How the pods of a Job end. */
export type JobEnd = 'complete' | 'fail' | 'hold';

export async function createChecksNamespace({ api }: Cluster): Promise<void> {
  await api.create('/api/v1/namespaces', { metadata: { name: CHECKS_NAMESPACE } });
}

/** Creates a suspended CronJob, whose Jobs end in this way. */
export async function createTemplate({ api }: Cluster, name: string, end: JobEnd = 'complete'): Promise<void> {
  const annotations = end === 'complete' ? {} : { [jobEndAnnotation]: end };
  const template = {
    metadata: { annotations },
    spec: {
      restartPolicy: 'OnFailure',
      tolerations: [{ operator: 'Exists' }],
      containers: [{ name: 'main', image: 'check' }],
    },
  };
  await api.create(`/apis/batch/v1/namespaces/${CHECKS_NAMESPACE}/cronjobs`, {
    metadata: { name },
    spec: { schedule: '0 0 1 1 *', suspend: true, jobTemplate: { spec: { template } } },
  });
}

export async function jobsOfChecks({ api }: Cluster): Promise<V1Job[]> {
  return (await api.get<{ items: V1Job[] }>(JOBS)).items;
}

export async function deleteJob({ api }: Cluster, name: string): Promise<void> {
  await api.delete(`${JOBS}/${name}?propagationPolicy=Background`);
}

/** Lets the pods of Jobs that run on end in this way. */
export async function endJobs({ api }: Cluster, end: 'complete' | 'fail'): Promise<void> {
  const pods = `/api/v1/namespaces/${CHECKS_NAMESPACE}/pods`;
  const { items } = await api.get<V1PodList>(pods);
  const annotations = { [jobEndAnnotation]: end === 'fail' ? end : null };
  for (const { metadata } of items) await api.patch(`${pods}/${metadata?.name}`, { metadata: { annotations } });
}

type Hook = NonNullable<NonNullable<BrupopConfigSpec['hooks']>['before']>[number];
export const hook = (name: string, cronJob: string, more: Partial<Hook> = {}): Hook => ({
  name,
  job: { cronJob },
  ...more,
});
