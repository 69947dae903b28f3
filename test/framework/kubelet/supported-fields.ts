/**
 * Everything in a pod spec that this kubelet supports, or may ignore for a stated reason. Whatever
 * is not on the list is rejected.
 *
 * Accepted, though local processes cannot be held to it, for want of cgroups and mount namespaces of
 * their own: `resources`, the listed fields of `securityContext` but for the user and group (see
 * `users.ts`), `readOnly` of a mount, `sizeLimit` of an emptyDir. Accepted because others have acted on it (scheduler,
 * admission) or because nothing is pulled: `tolerations`, `affinity`, `priority`,
 * `imagePullSecrets` and their like.
 */
type Rule = (value: unknown, path: string) => string[];

const any: Rule = () => [];
const refused: Rule = (value, path) => [`${path}: ${JSON.stringify(value)}`];
const only =
  (...values: unknown[]): Rule =>
  (value, path) =>
    values.includes(value) ? [] : refused(value, path);
const like =
  (pattern: RegExp): Rule =>
  (value, path) =>
    pattern.test(String(value)) ? [] : refused(value, path);
const list =
  (item: Rule): Rule =>
  (value, path) =>
    Array.isArray(value) ? value.flatMap((one, index) => item(one, `${path}[${index}]`)) : refused(value, path);
const fields =
  (rules: Readonly<Record<string, Rule>>): Rule =>
  (value, path) => {
    if (typeof value !== 'object' || value === null) return refused(value, path);
    return Object.entries(value).flatMap(([name, inner]) =>
      inner == null ? [] : (rules[name] ?? refused)(inner, `${path}.${name}`),
    );
  };
const all = (...names: string[]): Rule => fields(Object.fromEntries(names.map((name) => [name, any])));

const FIELDS =
  /^(metadata\.(name|namespace|uid|(labels|annotations)\['[^']+'\])|spec\.(nodeName|serviceAccountName)|status\.(podIPs?|hostIPs?))$/;
const FILE_FIELDS = /^metadata\.(name|namespace|uid|labels|annotations|(labels|annotations)\['[^']+'\])$/;

const resourceFieldRef = fields({ containerName: any, resource: like(/^limits\.(cpu|memory)$/), divisor: any });
const fieldRef = (paths: RegExp): Rule => fields({ apiVersion: only('v1'), fieldPath: like(paths) });

const securityContext = all(
  'readOnlyRootFilesystem',
  'runAsNonRoot',
  'runAsUser',
  'runAsGroup',
  'seLinuxOptions',
  'capabilities',
  'allowPrivilegeEscalation',
  'seccompProfile',
);

const env = fields({
  name: any,
  value: any,
  valueFrom: fields({
    fieldRef: fieldRef(FIELDS),
    secretKeyRef: all('name', 'key', 'optional'),
    configMapKeyRef: all('name', 'key', 'optional'),
    resourceFieldRef,
  }),
});

const envFrom = fields({ prefix: any, secretRef: all('name', 'optional'), configMapRef: all('name', 'optional') });

const httpGet = fields({
  path: any,
  port: any,
  scheme: only('HTTP', 'HTTPS'),
  httpHeaders: list(all('name', 'value')),
});

const probe = fields({
  httpGet,
  tcpSocket: all('port'),
  initialDelaySeconds: any,
  periodSeconds: any,
  timeoutSeconds: any,
  successThreshold: any,
  failureThreshold: any,
  terminationGracePeriodSeconds: any,
});

const container = fields({
  name: any,
  image: any,
  imagePullPolicy: any,
  command: any,
  args: any,
  workingDir: any,
  env: list(env),
  envFrom: list(envFrom),
  ports: list(fields({ name: any, containerPort: any, protocol: only('TCP') })),
  resources: all('limits', 'requests'),
  resizePolicy: any,
  securityContext,
  volumeMounts: list(
    fields({
      name: any,
      mountPath: like(/^\/(?!proc(\/|$)|sys(\/|$))./), // the container runtime refuses mounts over kernel file systems
      readOnly: any,
      mountPropagation: only('None', 'HostToContainer'),
    }),
  ),
  startupProbe: probe,
  readinessProbe: probe,
  livenessProbe: probe,
  lifecycle: fields({ preStop: fields({ sleep: all('seconds'), httpGet }) }),
  terminationMessagePath: only('/dev/termination-log'),
  terminationMessagePolicy: only('File', 'FallbackToLogsOnError'),
});

const items = list(all('key', 'path', 'mode'));
const downwardItems = list(fields({ path: any, mode: any, fieldRef: fieldRef(FILE_FIELDS), resourceFieldRef }));

const volume = fields({
  name: any,
  secret: fields({ secretName: any, items, optional: any, defaultMode: any }),
  configMap: fields({ name: any, items, optional: any, defaultMode: any }),
  downwardAPI: fields({ items: downwardItems, defaultMode: any }),
  projected: fields({
    defaultMode: any,
    sources: list(
      fields({
        secret: fields({ name: any, items, optional: any }),
        configMap: fields({ name: any, items, optional: any }),
        downwardAPI: fields({ items: downwardItems }),
        serviceAccountToken: all('audience', 'expirationSeconds', 'path'),
      }),
    ),
  }),
  hostPath: all('path', 'type'),
  emptyDir: fields({ medium: only('', 'Memory'), sizeLimit: any }),
});

const podSpec = fields({
  containers: list(container),
  volumes: list(volume),
  restartPolicy: only('Always', 'Never'),
  terminationGracePeriodSeconds: any,
  nodeName: any,
  serviceAccountName: any,
  serviceAccount: any,
  automountServiceAccountToken: any,
  enableServiceLinks: any,
  dnsPolicy: only('ClusterFirst', 'Default'),
  os: fields({ name: only('linux') }),
  hostNetwork: only(false),
  hostPID: only(false),
  hostIPC: only(false),
  shareProcessNamespace: only(false),
  securityContext,
  nodeSelector: any,
  affinity: any,
  tolerations: any,
  topologySpreadConstraints: any,
  priority: any,
  priorityClassName: any,
  preemptionPolicy: any,
  schedulerName: any,
  imagePullSecrets: any,
});

/**
 * The fields of a pod spec that are not supported, each with its value; empty when there are none.
 */
export function unsupportedFields(spec: unknown): string[] {
  return podSpec(spec, 'spec');
}
