import { unsupportedFields } from './supported-fields.ts';

const container = { name: 'main', image: 'brupop' };
const pod = (spec: object): object => ({ containers: [container], restartPolicy: 'Always', ...spec });
const withContainer = (more: object): object => pod({ containers: [{ ...container, ...more }] });

/** As the API server returns it, with its defaults and what admission adds. */
const usual = pod({
  containers: [
    {
      ...container,
      imagePullPolicy: 'IfNotPresent',
      args: ['/app/agent.mjs'],
      env: [
        { name: 'POD_IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } },
        { name: 'ZONE', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: "metadata.labels['zone']" } } },
        { name: 'LIMIT', valueFrom: { resourceFieldRef: { resource: 'limits.memory', divisor: '1Mi' } } },
      ],
      ports: [{ name: 'health', containerPort: 8080, protocol: 'TCP' }],
      resources: { limits: { memory: '50Mi' }, requests: { cpu: '10m' } },
      securityContext: { readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
      readinessProbe: { httpGet: { path: '/readyz', port: 'health', scheme: 'HTTP' }, periodSeconds: 10 },
      terminationMessagePath: '/dev/termination-log',
      terminationMessagePolicy: 'FallbackToLogsOnError',
      volumeMounts: [{ name: 'run', mountPath: '/run/api.sock', readOnly: true }],
    },
  ],
  volumes: [
    { name: 'run', hostPath: { path: '/run/api.sock', type: 'Socket' } },
    { name: 'token', projected: { sources: [{ serviceAccountToken: { path: 'token' } }], defaultMode: 420 } },
    { name: 'tls', secret: { secretName: 'tls', items: [{ key: 'a', path: 'b' }], defaultMode: 256 } },
  ],
  dnsPolicy: 'ClusterFirst',
  enableServiceLinks: true,
  nodeName: 'node-1',
  preemptionPolicy: 'PreemptLowerPriority',
  priority: 0,
  schedulerName: 'default-scheduler',
  securityContext: {},
  serviceAccount: 'default',
  serviceAccountName: 'default',
  terminationGracePeriodSeconds: 30,
  tolerations: [{ operator: 'Exists' }],
});

describe('the pod spec fields that the stand-in kubelet supports', () => {
  test('a pod as the API server returns it', () => {
    expect(unsupportedFields(usual)).toEqual([]);
  });

  test.each<[string, object, string]>([
    ['initContainers', pod({ initContainers: [container] }), 'spec.initContainers:'],
    ['hostNetwork', pod({ hostNetwork: true }), 'spec.hostNetwork: true'],
    ['restartPolicy OnFailure', pod({ restartPolicy: 'OnFailure' }), 'spec.restartPolicy: "OnFailure"'],
    ['readinessGates', pod({ readinessGates: [] }), 'spec.readinessGates:'],
    ['hostAliases', pod({ hostAliases: [] }), 'spec.hostAliases:'],
    ['a field that Kubernetes does not have yet', pod({ fromTheFuture: 1 }), 'spec.fromTheFuture: 1'],
    ['a volume of another kind', pod({ volumes: [{ name: 'a', nfs: {} }] }), 'spec.volumes[0].nfs:'],
    ['an exec probe', withContainer({ livenessProbe: { exec: {} } }), 'spec.containers[0].livenessProbe.exec:'],
    ['a grpc probe', withContainer({ startupProbe: { grpc: {} } }), 'spec.containers[0].startupProbe.grpc:'],
    ['a preStop exec', withContainer({ lifecycle: { preStop: { exec: {} } } }), 'lifecycle.preStop.exec:'],
    ['a postStart hook', withContainer({ lifecycle: { postStart: {} } }), 'lifecycle.postStart:'],
    ['privileged', withContainer({ securityContext: { privileged: true } }), 'securityContext.privileged: true'],
    ['subPath', withContainer({ volumeMounts: [{ name: 'a', mountPath: '/a', subPath: 'b' }] }), '.subPath: "b"'],
    ['a mount over /proc', withContainer({ volumeMounts: [{ name: 'a', mountPath: '/proc/sys' }] }), '.mountPath:'],
    ['hostPort', withContainer({ ports: [{ containerPort: 1, hostPort: 1 }] }), '.ports[0].hostPort: 1'],
    ['a tty', withContainer({ tty: true }), 'spec.containers[0].tty: true'],
    [
      'an unknown field reference',
      withContainer({ env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'status.phase' } } }] }),
      '.fieldRef.fieldPath: "status.phase"',
    ],
  ])('%s is refused by name', (_name, spec, expected) => {
    expect(unsupportedFields(spec)).toEqual([expect.stringContaining(expected)]);
  });
});
