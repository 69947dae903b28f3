import { aNode } from '../testing/objects.ts';
import type { JobRun } from '../plan/facts/jobs.ts';
import { jobOf } from './job-template.ts';

const RUN: JobRun = {
  node: 'ip-10-0-1-1',
  key: 'Before/check/smoke',
  kind: 'check',
  name: 'smoke',
  phase: 'Before',
  cronJob: 'smoke',
  jobName: 'brupop-smoke-0123',
  jobOf: 'uid/2026-11-22T10:00:00Z/Before/check/smoke',
  timeoutMs: 90_000,
  proceeds: false,
  versions: { from: '1.20.0', to: '1.21.0' },
};
const PLACE = { namespace: 'brupop-checks', serviceAccount: 'brupop-checks' };
const cronJob = (spec: object, metadata?: object): object => ({
  spec: { jobTemplate: { ...(metadata && { metadata }), spec } },
});
const container = {
  name: 'main',
  image: 'curl',
  env: [
    { name: 'BRUPOP_NODE', value: 'forged' },
    { name: 'A', value: 'b' },
  ],
};

test('a Job has the limits, the account and the environment of its check, and belongs to the Node', () => {
  const template = {
    metadata: { labels: { app: 'smoke' } },
    spec: {
      serviceAccountName: 'admin',
      restartPolicy: 'OnFailure',
      containers: [container],
      initContainers: [{ name: 'init' }],
    },
  };
  const raw = cronJob(
    { suspend: true, completions: 2, template },
    { labels: { team: 'a' }, annotations: { note: 'x' } },
  );
  const variables = [
    { name: 'BRUPOP_NODE', value: 'node-a' },
    { name: 'BRUPOP_FROM_VERSION', value: '1.20.0' },
    { name: 'BRUPOP_TO_VERSION', value: '1.21.0' },
    { name: 'BRUPOP_PHASE', value: 'Before' },
    { name: 'BRUPOP_CHECK', value: 'smoke' },
  ];
  expect(jobOf(raw, RUN, aNode(), PLACE)).toEqual({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: 'brupop-smoke-0123',
      namespace: 'brupop-checks',
      labels: { team: 'a', 'brupop.bottlerocket.aws/check': 'smoke' },
      annotations: { note: 'x', 'brupop.bottlerocket.aws/job-of': RUN.jobOf },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'node-a', uid: 'uid-node-a' }],
    },
    spec: {
      completions: 2,
      suspend: false,
      backoffLimit: 0,
      activeDeadlineSeconds: 90,
      ttlSecondsAfterFinished: 3600,
      template: {
        metadata: { labels: { app: 'smoke', 'brupop.bottlerocket.aws/check': 'smoke' }, annotations: {} },
        spec: {
          serviceAccountName: 'brupop-checks',
          serviceAccount: 'brupop-checks',
          restartPolicy: 'Never',
          containers: [{ name: 'main', image: 'curl', env: [...variables, { name: 'A', value: 'b' }] }],
          initContainers: [{ name: 'init', env: variables }],
        },
      },
    },
  });
});

test('a value of the template may refer to the node and the versions, since these come before it', () => {
  const env = [{ name: 'TARGET', value: 'db-$(BRUPOP_NODE)-$(BRUPOP_TO_VERSION)' }];
  const spec = { containers: [{ name: 'main', env }], initContainers: [{ name: 'init', env }] };
  const made = jobOf(cronJob({ template: { spec } }), RUN, aNode(), PLACE);
  const order = ['BRUPOP_NODE', 'BRUPOP_FROM_VERSION', 'BRUPOP_TO_VERSION', 'BRUPOP_PHASE', 'BRUPOP_CHECK', 'TARGET'];
  const named = [{ env: order.map((name) => ({ name })) }];
  expect(made).toMatchObject({ spec: { template: { spec: { containers: named, initContainers: named } } } });
});

test('the template decides how often a pod is retried', () => {
  const raw = cronJob({ backoffLimit: 2, template: { spec: { containers: [container] } } });
  expect(jobOf(raw, RUN, aNode(), PLACE)).toMatchObject({ spec: { backoffLimit: 2 } });
});

test('the template decides how often a pod of each index is retried', () => {
  const spec = { completionMode: 'Indexed', completions: 3, backoffLimitPerIndex: 2 };
  const made = jobOf(cronJob({ ...spec, template: { spec: { containers: [container] } } }), RUN, aNode(), PLACE);
  expect(made).toMatchObject({ spec });
  // Kubernetes sets none then, and the first failure of any index would exceed 0.
  expect(made).not.toHaveProperty('spec.backoffLimit');
});

test('a CronJob that is none is named with its field', () => {
  const raw = cronJob({ template: { spec: {} } });
  expect(() => jobOf(raw, RUN, aNode(), PLACE)).toThrow(
    'the CronJob brupop-checks/smoke.spec.jobTemplate.spec.template.spec.containers: expected an object, found nothing',
  );
});
