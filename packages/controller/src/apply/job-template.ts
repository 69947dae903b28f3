/** The Job of a check or hook, made of the CronJob that the configuration names. */
import * as v from 'valibot';
import { CHECK_LABEL, JOB_OF_ANNOTATION } from '@brupop/shared/api/names';
import { type Infer, parse } from '@brupop/shared/api/schema';
import type { NodeView } from '../cluster/node.ts';
import type { JobRun } from '../plan/facts/jobs.ts';

const texts = v.exactOptional(v.record(v.string(), v.string('a text'), 'an object'), {});
const metadata = v.exactOptional(v.looseObject({ labels: texts, annotations: texts }, 'an object'), {
  labels: {},
  annotations: {},
});
const env = v.exactOptional(v.array(v.looseObject({ name: v.string('a text') }, 'an object'), 'a list'), []);
const containers = v.array(v.looseObject({ env }, 'an object'), 'a list');
const podSpec = v.looseObject({ containers, initContainers: v.exactOptional(containers) }, 'an object');
const template = v.looseObject({ metadata, spec: podSpec }, 'an object');
const jobSpec = v.looseObject({ template }, 'an object');
const cronJob = v.looseObject(
  { spec: v.looseObject({ jobTemplate: v.looseObject({ metadata, spec: jobSpec }, 'an object') }, 'an object') },
  'an object',
);

/** Kubernetes deletes a Job that was not deleted before this long after its end. */
const TTL_SECONDS = 3600;

interface Place {
  readonly namespace: string;
  readonly serviceAccount: string;
}

/**
 * As `kubectl create job --from` makes it, with a time limit, an end, the account that the chart names, and
 * an environment that names the node and the versions. It belongs to the Node, so that it is deleted with
 * it. Throws an error that names the field of the CronJob which is not as expected.
 */
export function jobOf(raw: unknown, run: JobRun, { metadata: { name, uid } }: NodeView, place: Place): object {
  const { jobTemplate } = parse(cronJob, raw, `the CronJob ${place.namespace}/${run.cronJob}`).spec;
  const { template: pod, ...spec } = jobTemplate.spec;
  const labels = { [CHECK_LABEL]: run.name };
  const annotations = { [JOB_OF_ANNOTATION]: run.jobOf };
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: run.jobName,
      namespace: place.namespace,
      labels: { ...jobTemplate.metadata.labels, ...labels },
      annotations: { ...jobTemplate.metadata.annotations, ...annotations },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }],
    },
    spec: {
      // It would be the limit of all indexes together.
      ...(spec['backoffLimitPerIndex'] === undefined && { backoffLimit: 0 }),
      ...spec,
      suspend: false,
      activeDeadlineSeconds: Math.ceil(run.timeoutMs / 1000),
      ttlSecondsAfterFinished: TTL_SECONDS,
      template: {
        ...pod,
        metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, ...labels } },
        spec: {
          ...pod.spec,
          ...accountOf(place),
          restartPolicy: 'Never',
          ...withEnvironment(pod.spec, environment(run, name)),
        },
      },
    },
  };
}

/** `serviceAccount` is the deprecated name of the same field. */
function accountOf({ serviceAccount }: Place): object {
  return { serviceAccountName: serviceAccount, serviceAccount };
}

type Variable = { readonly name: string; readonly value: string };

function environment({ name, phase, versions }: JobRun, node: string): readonly Variable[] {
  const values = { NODE: node, FROM_VERSION: versions.from, TO_VERSION: versions.to, PHASE: phase, CHECK: name };
  return Object.entries(values).map(([key, value]) => ({ name: `BRUPOP_${key}`, value }));
}

/** The variables come first, since a value may refer only to those before it, as in $(BRUPOP_NODE). */
function withEnvironment(spec: Infer<typeof podSpec>, variables: readonly Variable[]): object {
  const names = new Set(variables.map(({ name }) => name));
  const given = (some: Infer<typeof containers>): object[] =>
    some.map((one) => ({ ...one, env: [...variables, ...one.env.filter(({ name }) => !names.has(name))] }));
  const { initContainers } = spec;
  return { containers: given(spec.containers), ...(initContainers && { initContainers: given(initContainers) }) };
}
