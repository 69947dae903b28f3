/**
 * The stages with which KWOK simulates nodes and pods.
 *
 * Nodes: KWOK makes a node Ready if its condition is missing or Unknown; `node-leases.ts` renews
 * the leases. A condition Ready=False stays, so that tests can stop a node.
 * Pods: KWOK ignores the operator's workloads (they have the component label), which the stand-in
 * kubelet runs. Other pods become ready, complete (if a Job owns them) or end as their annotation says,
 * and terminate at once or after the time in their termination-delay annotation.
 */

/** Nodes with this annotation (value `fake`) are KWOK's. */
export const kwokNodeAnnotation = 'kwok.x-k8s.io/node';
/** On a node: it is rebooting. KWOK does not touch it. */
export const rebootingAnnotation = 'test.brupop/rebooting';
/** On a pod: how long its containers take to end, as a Go duration such as `3s`. */
export const terminationDelayAnnotation = 'test.brupop/termination-delay';

/** On a pod of a Job: `fail` makes it fail, `hold` makes it run on. Without it, it completes. */
export const jobEndAnnotation = 'test.brupop/job-end';

/** The operator's pods have this label. */
export const ourPodLabel = 'brupop.bottlerocket.aws/component';

interface Expression {
  key: string;
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  values?: string[];
}

const readyStatus = '.status.conditions.[] | select( .type == "Ready" ) | .status';
const readyReason = '.status.conditions.[] | select( .type == "Ready" ) | .reason';
const absent = (key: string): Expression => ({ key, operator: 'DoesNotExist' });
const present = (key: string): Expression => ({ key, operator: 'Exists' });
const oneOf = (key: string, ...values: string[]): Expression => ({ key, operator: 'In', values });
const noneOf = (key: string, ...values: string[]): Expression => ({ key, operator: 'NotIn', values });

const ownPod = absent(`.metadata.labels["${ourPodLabel}"]`);
const alive = absent('.metadata.deletionTimestamp');

const jobEnd = `.metadata.annotations["${jobEndAnnotation}"]`;
const runningOfJob = [
  ownPod,
  alive,
  oneOf('.status.phase', 'Running'),
  oneOf('.metadata.ownerReferences.[].kind', 'Job'),
];

const nodeReady = `
{{ $now := Now | Quote }}
conditions:
{{ range NodeConditions }}
- {type: {{ .type | Quote }}, status: {{ .status | Quote }}, reason: {{ .reason | Quote }}, message: {{ .message | Quote }}, lastHeartbeatTime: {{ $now }}, lastTransitionTime: {{ $now }}}
{{ end }}
{{ if not .status.allocatable }}
allocatable: {cpu: "16", memory: 64Gi, pods: "250"}
{{ end }}
{{ if not .status.capacity }}
capacity: {cpu: "16", memory: 64Gi, pods: "250"}
{{ end }}
`;

const podReady = `
{{ $now := Now | Quote }}
phase: Running
startTime: {{ $now }}
conditions:
{{ range $type := list "PodReadyToStartContainers" "Initialized" "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now }}}
{{ end }}
{{ range .spec.readinessGates }}
- {type: {{ .conditionType | Quote }}, status: "True", lastTransitionTime: {{ $now }}}
{{ end }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  restartCount: 0
  ready: true
  {{ if eq .restartPolicy "Always" }}
  started: true
  state: {running: {startedAt: {{ $now }}}}
  {{ else }}
  state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now }}, finishedAt: {{ $now }}}}
  {{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", restartCount: 0, ready: true, started: true, state: {running: {startedAt: {{ $now }}}}}
{{ end }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
{{ with PodIPsWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
podIP: {{ index . 0 | Quote }}
podIPs:
{{ range . }}
- ip: {{ . | Quote }}
{{ end }}
{{ end }}
`;

const podReadyAgain = `
conditions:
- {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
`;

const podComplete = `
{{ $now := Now | Quote }}
phase: Succeeded
conditions:
{{ range $type := list "ContainersReady" "Ready" }}
- {type: {{ $type }}, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", restartCount: 0, ready: false, started: false, state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now }}, finishedAt: {{ $now }}}}}
{{ end }}
`;

const podFail = podComplete
  .replace('phase: Succeeded', 'phase: Failed')
  .replaceAll('PodCompleted', 'PodFailed')
  .replace('exitCode: 0, reason: Completed', 'exitCode: 1, reason: Error');

function stage(name: string, kind: 'Node' | 'Pod', matchExpressions: Expression[], rest: object): object {
  const spec = { resourceRef: { apiGroup: 'v1', kind }, selector: { matchExpressions }, ...rest };
  return { apiVersion: 'kwok.x-k8s.io/v1alpha1', kind: 'Stage', metadata: { name }, spec };
}

const stages = [
  stage(
    'node-ready',
    'Node',
    [noneOf(readyStatus, 'True', 'False'), absent(`.metadata.annotations["${rebootingAnnotation}"]`)],
    {
      next: { statusTemplate: nodeReady },
    },
  ),
  stage('pod-ready', 'Pod', [ownPod, alive, oneOf('.status.phase', 'Pending'), noneOf(readyStatus, 'True')], {
    next: { statusTemplate: podReady },
  }),
  stage(
    'pod-ready-again',
    'Pod',
    [ownPod, alive, oneOf('.status.phase', 'Running'), oneOf(readyStatus, 'False'), absent(readyReason)],
    { delay: { durationMilliseconds: 1000 }, next: { statusTemplate: podReadyAgain } },
  ),
  stage('pod-complete', 'Pod', [...runningOfJob, absent(jobEnd)], { next: { statusTemplate: podComplete } }),
  stage('pod-fail', 'Pod', [...runningOfJob, oneOf(jobEnd, 'fail')], { next: { statusTemplate: podFail } }),
  stage('pod-delete', 'Pod', [ownPod, present('.metadata.deletionTimestamp')], {
    delay: {
      durationMilliseconds: 0,
      durationFrom: { expressionFrom: `.metadata.annotations["${terminationDelayAnnotation}"]` },
    },
    next: { delete: true },
  }),
];

/** The text of the file that KWOK gets with `--config`. */
export const kwokConfig = stages.map((document) => JSON.stringify(document)).join('\n---\n');
