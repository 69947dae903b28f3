import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { V1PolicyRule } from '@kubernetes/client-node';
import {
  AGENT,
  APISERVER,
  COMPONENT_LABEL,
  CONTROLLER,
  MANAGED_LABEL,
  MANAGED_LABEL_VALUE,
  STARTUP_TAINT,
  TOKEN_AUDIENCE,
} from '@brupop/shared/api/names';
import { RELEASE } from '../../../packages/shared/src/api/release.ts';
import { find, helm, podOf, releaseNamespace, renderChart, type Rendered } from '../../framework/chart.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { chartDir } from '../../framework/crds.ts';
import { codeOf, sectionOf, tablesOf } from '../../framework/markdown.ts';
import { grantedRights } from '../../framework/privileges.ts';

const cluster = connectSharedControlPlane();
let objects: Rendered[] = [];

beforeAll(async () => {
  objects = await renderChart(cluster);
});
afterAll(async () => await cluster.close());

const DEPENDENTS = [
  { kind: 'Deployment', namespace: 'kube-system', name: 'autoscaler' },
  { kind: 'StatefulSet', namespace: 'kube-system', name: 'repair' },
];

const components = [
  [AGENT, 'DaemonSet'],
  [CONTROLLER, 'Deployment'],
  [APISERVER, 'Deployment'],
] as const;

type Pod = ReturnType<typeof podOf>;
const podFor = (component: string): Pod => {
  const kind = components.find(([name]) => name === component)?.[1] ?? '';
  return podOf(find(objects, kind, component));
};

const envOf = ({ container }: Pod): Record<string, string> =>
  Object.fromEntries(
    (container.env ?? []).map(({ name, value, valueFrom }) => [name, value ?? valueFrom?.fieldRef?.fieldPath ?? '']),
  );

const everyProgram = {
  NODE_NAME: 'spec.nodeName',
  POD_NAME: 'metadata.name',
  POD_UID: 'metadata.uid',
  POD_NAMESPACE: 'metadata.namespace',
  POD_IP: 'status.podIP',
  HEALTH_PORT: '8080',
  LOG_FORMAT: 'json',
  LOG_LEVEL: 'info',
};
/** Of the kernel, in every container without a mount. */
const bootIDFile = '/proc/sys/kernel/random/boot_id';
const serviceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount';

describe('the chart', () => {
  it('passes helm lint --strict', async () => {
    expect(await helm(cluster, 'lint', '--strict', chartDir)).toContain('0 chart(s) failed');
  });

  it('is a package with its README, its LICENSE, and no file for developers', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'brupop-package-'));
    try {
      await helm(cluster, 'package', chartDir, '--destination', folder);
      const [archive = ''] = readdirSync(folder);
      const files = execFileSync('tar', ['-tzf', join(folder, archive)], { encoding: 'utf8' }).split('\n');
      const outside = files.filter((file) => !file.includes('/templates/') && !file.includes('/files/'));
      const names = ['.helmignore', 'Chart.yaml', 'LICENSE', 'README.md', 'values.schema.json', 'values.yaml'];
      expect(outside.filter((file) => file !== '').toSorted()).toEqual(
        names.map((name) => `bottlerocket-update-operator/${name}`),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('names its image by tag, by default its own version, or by digest', async () => {
    const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
    const images = async (...args: string[]): Promise<(string | undefined)[]> => {
      const rendered = await renderChart(cluster, ...args);
      return components.map(([name, kind]) => podOf(find(rendered, kind, name)).container.image);
    };
    expect(new Set(await images())).toEqual(new Set([`bottlerocket-update-operator:${RELEASE}`]));
    expect(new Set(await images('--set', 'image.tag=v9'))).toEqual(new Set(['bottlerocket-update-operator:v9']));
    expect(new Set(await images('--set', `image.tag=v9,image.digest=${digest}`))).toEqual(
      new Set([`bottlerocket-update-operator@${digest}`]),
    );
  });

  it('is refused in one sentence while no image is set', async () => {
    const sentence =
      'image.repository is empty: set it to the image in your registry, such as ' +
      'registry.example.com/bottlerocket-update-operator';
    for (const values of [[], ['--set', `image.digest=sha256:${'0'.repeat(64)}`], ['--set', 'image.tag=v9']]) {
      const refused = renderChart(cluster, '--set', 'image.repository=', ...values);
      await expect(refused).rejects.toThrow(sentence);
    }
  });

  it('puts everything that has a namespace into the namespace of the release, except for two rights', () => {
    const clusterScoped = [
      'CustomResourceDefinition',
      'ClusterRole',
      'ClusterRoleBinding',
      'ValidatingAdmissionPolicy',
      'ValidatingAdmissionPolicyBinding',
    ];
    const expected = ({ kind, metadata }: Rendered): string | undefined => {
      if (metadata.name === `${CONTROLLER}-events`) return 'default';
      if (metadata.name === `${CONTROLLER}-leases`) return 'kube-node-lease';
      return clusterScoped.includes(kind) ? undefined : releaseNamespace;
    };
    const misplaced = objects.filter((object) => object.metadata.namespace !== expected(object));
    expect(misplaced.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
  });

  it('grants what the documents list, and nothing else', async () => {
    const page = readFileSync(join(chartDir, '../../docs/security.md'), 'utf8');
    const [apiserver, controller] = tablesOf(sectionOf(page, 'Rights'));
    const documented = [
      [APISERVER, apiserver],
      [CONTROLLER, controller],
    ] as const;
    const rights = documented.flatMap(([account, table]) =>
      (table?.rows ?? []).flatMap(([resource, verbs = '']) =>
        verbs.split(', ').map((verb) => `${account} ${verb} ${codeOf(resource)}`),
      ),
    );
    const features =
      'drain.allowForce=true,checks.enabled=true,recovery.namespaces={shop},notifications.secrets={slack}';
    const args = ['--set', features, '--set-json', `dependents.targets=${JSON.stringify(DEPENDENTS)}`];
    const granted = grantedRights(await renderChart(cluster, ...args));
    expect(rights.toSorted()).toEqual([...granted].toSorted());
  });

  it.each(components)('excludes %s from service meshes, whose proxies give all agents one address', (component) => {
    const { labels, annotations } = podFor(component);
    expect(labels['sidecar.istio.io/inject']).toBe('false');
    expect(labels['istio.io/dataplane-mode']).toBe('none');
    expect(annotations['linkerd.io/inject']).toBe('disabled');
  });

  it('keeps its definitions when it is uninstalled, with Helm, Argo CD and Flux', () => {
    const definitions = objects.filter(({ kind }) => kind === 'CustomResourceDefinition');
    const kept = {
      'helm.sh/resource-policy': 'keep',
      'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
      'kustomize.toolkit.fluxcd.io/prune': 'disabled',
    };
    expect(definitions.map(({ metadata }) => metadata.annotations)).toEqual([kept, kept, kept]);
  });
});

describe.each(components)('%s', (component, kind) => {
  it('labels and selects its pods by the component', () => {
    const { labels } = podFor(component);
    const selector = find(objects, kind, component).spec?.['selector'];
    expect([labels[COMPONENT_LABEL], selector]).toEqual([component, { matchLabels: { [COMPONENT_LABEL]: component } }]);
  });

  it('may start on a node with the startup taint, which a controller removes, whatever the values tolerate', async () => {
    const starting = { key: STARTUP_TAINT, operator: 'Exists', effect: 'NoSchedule' };
    const other = { key: 'dedicated', operator: 'Exists' };
    const tolerated = async (values: string): Promise<unknown> => {
      const set = ['--set-json', `${component.replace('brupop-', '')}.tolerations=${values}`];
      return podOf(find(await renderChart(cluster, ...set), kind, component)).pod.tolerations;
    };
    expect(await tolerated('null')).toEqual([starting]);
    expect(await tolerated(JSON.stringify([starting, other]))).toEqual([starting, other]);
  });

  it('has a service account of its own', () => {
    expect(podFor(component).pod.serviceAccountName).toBe(component);
    expect(find(objects, 'ServiceAccount', component)).toBeDefined();
  });

  it('starts the bundle that the build makes', () => {
    const { args = [], command } = podFor(component).container;
    const source = join(import.meta.dirname, '../../../packages', component.replace('brupop-', ''), 'src');
    expect([command, args.at(-1)]).toEqual([undefined, `/app/${component.replace('brupop-', '')}.mjs`]);
    expect(existsSync(source)).toBe(true);
    expect(args.slice(0, -1).filter((arg) => !arg.startsWith('--'))).toEqual([]);
  });

  it('is probed on its health port', () => {
    const { startupProbe, livenessProbe, readinessProbe, ports = [] } = podFor(component).container;
    expect([startupProbe, livenessProbe, readinessProbe].map((probe) => probe?.httpGet)).toEqual([
      { path: '/livez', port: 'health' },
      { path: '/livez', port: 'health' },
      { path: '/readyz', port: 'health' },
    ]);
    expect(ports.find(({ name }) => name === 'health')?.containerPort).toBe(Number(everyProgram.HEALTH_PORT));
  });

  it('has only the permissions that it needs', () => {
    const { pod, container } = podFor(component);
    expect(container.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    const seccomp = container.securityContext?.seccompProfile ?? pod.securityContext?.seccompProfile;
    expect([seccomp, pod.hostNetwork, pod.hostPID, pod.hostIPC, container.securityContext?.privileged]).toEqual([
      { type: 'RuntimeDefault' },
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('finds every file that its environment names in one of its mounts', () => {
    const pod = podFor(component);
    const mounts = (pod.container.volumeMounts ?? []).map(({ mountPath }) => mountPath);
    if (component !== AGENT) mounts.push(serviceAccountDir);
    const paths = Object.values(envOf(pod)).filter((value) => value.startsWith('/') && value !== bootIDFile);
    expect(paths.filter((path) => !mounts.some((mount) => path === mount || path.startsWith(`${mount}/`)))).toEqual([]);
    expect(mounts.filter((mount) => !paths.some((path) => path === mount || path.startsWith(`${mount}/`)))).toEqual([]);
  });

  it('limits its memory', () => {
    const { resources } = podFor(component).container;
    expect([resources?.requests?.['memory'], resources?.limits?.['memory']]).toEqual([
      expect.any(String),
      expect.any(String),
    ]);
  });
});

describe('the agent', () => {
  it('reads this environment', () => {
    expect(envOf(podFor(AGENT))).toEqual({
      ...everyProgram,
      HOST_SOCKET: '/run/api.sock',
      BOOT_ID_FILE: bootIDFile,
      TOKEN_FILE: `/var/run/secrets/tokens/${TOKEN_AUDIENCE}`,
      CA_FILE: '/etc/brupop-ca/ca.crt',
      APISERVER_HOST: '$(BRUPOP_APISERVER_SERVICE_HOST)',
      APISERVER_PORT: '$(BRUPOP_APISERVER_SERVICE_PORT)',
      APISERVER_SERVER_NAME: `${APISERVER}.${releaseNamespace}.svc`,
      UPDATE_CHECK_INTERVAL_SECONDS: '1800',
    });
    expect(podFor(AGENT).pod.enableServiceLinks).toBe(true);
  });

  it('runs on every managed Linux node, whatever its taints', () => {
    const { nodeSelector, tolerations } = podFor(AGENT).pod;
    expect(nodeSelector).toEqual({ [MANAGED_LABEL]: MANAGED_LABEL_VALUE, 'kubernetes.io/os': 'linux' });
    expect(tolerations).toContainEqual({ operator: 'Exists' });
  });

  it('has one token, only for the apiserver', () => {
    const { pod } = podFor(AGENT);
    expect([pod.automountServiceAccountToken, pod.volumes?.filter(({ projected }) => projected)]).toEqual([
      false,
      [
        {
          name: 'token',
          projected: {
            sources: [
              { serviceAccountToken: { audience: TOKEN_AUDIENCE, expirationSeconds: 3600, path: TOKEN_AUDIENCE } },
            ],
          },
        },
      ],
    ]);
  });

  it('mounts the certificate authority from a ConfigMap of its own, and references no Secret', () => {
    const { pod, container } = podFor(AGENT);
    const configMaps = pod.volumes?.flatMap(({ configMap }) => (configMap ? [configMap] : []));
    expect(configMaps).toEqual([{ name: 'brupop-ca', items: [{ key: 'ca.crt', path: 'ca.crt' }] }]);
    expect(JSON.stringify([pod.volumes, container.env, container.envFrom])).not.toMatch(
      /secret"|secretName|secretRef|secretKeyRef/,
    );
  });

  it('mounts only the socket of the host', () => {
    const paths = podFor(AGENT).pod.volumes?.flatMap(({ hostPath }) => (hostPath ? [hostPath] : []));
    expect(paths).toEqual([{ path: '/run/api.sock', type: 'Socket' }]);
  });

  it('has the SELinux type that may open the socket', () => {
    expect(podFor(AGENT).container.securityContext?.seLinuxOptions).toEqual({
      user: 'system_u',
      role: 'system_r',
      type: 'control_t',
      level: 's0',
    });
  });

  it.each([
    ['not as root by default', [], { runAsNonRoot: true, runAsUser: 65532, runAsGroup: 274 }],
    [
      'as root if asked to',
      ['--set', 'agent.runAsUser=0,agent.runAsGroup=0'],
      { runAsNonRoot: false, runAsUser: 0, runAsGroup: 0 },
    ],
  ])('runs %s', async (_, args, expected) => {
    const { container } = podOf(find(await renderChart(cluster, ...args), 'DaemonSet', AGENT));
    expect(container.securityContext).toMatchObject(expected);
  });

  it('is bound to no role', () => {
    const bound = objects.flatMap(({ kind, ...rest }) => (kind.endsWith('RoleBinding') ? [JSON.stringify(rest)] : []));
    expect(bound).toHaveLength(9);
    expect(bound.filter((binding) => binding.includes(AGENT) || binding.includes('"Group"'))).toEqual([]);
  });
});

describe('the controller', () => {
  it('reads this environment', () => {
    expect(envOf(podFor(CONTROLLER))).toEqual({
      ...everyProgram,
      SERVICE_ACCOUNT_DIR: serviceAccountDir,
      TLS_MODE: 'self',
      TLS_SECRET: 'brupop-apiserver-tls',
      CA_CONFIG_MAP: 'brupop-ca',
    });
  });

  it('knows that the API server may delete pods', async () => {
    const rendered = await renderChart(cluster, '--set', 'drain.allowForce=true');
    const env = envOf(podOf(find(rendered, 'Deployment', CONTROLLER)));
    expect(env).toMatchObject({ DRAIN_ALLOW_FORCE: 'true' });
  });

  it('may run Jobs in a namespace of their own alone, as an account without rights', async () => {
    const withChecks = await renderChart(cluster, '--set', 'checks.enabled=true');
    const added = withChecks.filter(
      ({ kind, metadata: { name } }) => !objects.some((one) => one.kind === kind && one.metadata.name === name),
    );
    expect(added.map(({ kind, metadata: { name, namespace } }) => `${kind} ${namespace}/${name}`).toSorted()).toEqual([
      'Role brupop-checks/brupop-controller-checks',
      'RoleBinding brupop-checks/brupop-controller-checks',
      'ServiceAccount brupop-checks/brupop-checks',
    ]);
    expect(find(withChecks, 'ServiceAccount', 'brupop-checks')).toMatchObject({ automountServiceAccountToken: false });
    expect(envOf(podOf(find(withChecks, 'Deployment', CONTROLLER)))).toMatchObject({
      CHECKS_NAMESPACE: 'brupop-checks',
      CHECKS_SERVICE_ACCOUNT: 'brupop-checks',
    });
    for (const namespace of [releaseNamespace, 'kube-system'])
      await expect(renderChart(cluster, '--set', `checks.enabled=true,checks.namespace=${namespace}`)).rejects.toThrow(
        /expected another namespace than that of the release/u,
      );
  });

  it('may scale dependents by their names alone, and before an uninstallation a Job scales them back', async () => {
    const targets = (list: readonly object[]): string[] => ['--set-json', `dependents.targets=${JSON.stringify(list)}`];
    const mesh =
      'controller.podLabels.sidecar\\.istio\\.io/inject=true,controller.podAnnotations.linkerd\\.io/inject=enabled';
    const labels = ['--set-string', `controller.podLabels.team=platform,${mesh}`];
    const nodeAffinity = { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: {} }] };
    const affinity = ['--set-json', `controller.affinity.nodeAffinity=${JSON.stringify(nodeAffinity)}`];
    const rendered = await renderChart(cluster, ...targets(DEPENDENTS), ...labels, ...affinity);
    expect(find(rendered, 'Role', 'brupop-controller-dependents')).toMatchObject({
      metadata: { namespace: 'kube-system' },
      rules: [
        { apiGroups: ['apps'], resources: ['deployments'], resourceNames: ['autoscaler'], verbs: ['get', 'patch'] },
        { apiGroups: ['apps'], resources: ['statefulsets'], resourceNames: ['repair'], verbs: ['get', 'patch'] },
      ],
    });
    const listed = 'Deployment kube-system/autoscaler,StatefulSet kube-system/repair';
    expect(envOf(podOf(find(rendered, 'Deployment', CONTROLLER)))).toMatchObject({ DEPENDENTS: listed });
    const job = find(rendered, 'Job', 'brupop-restore-dependents');
    expect(job.metadata.annotations).toMatchObject({ 'helm.sh/hook': 'pre-delete' });
    expect(envOf(podOf(job))).toMatchObject({ DEPENDENTS: listed, RESTORE_DEPENDENTS: 'true' });
    expect(podOf(job)).toMatchObject({
      labels: { team: 'platform', 'sidecar.istio.io/inject': 'false', [COMPONENT_LABEL]: 'brupop-restore-dependents' },
      annotations: { 'linkerd.io/inject': 'disabled' },
    });
    // It starts beside the controllers, which may have to be on different nodes.
    expect(podOf(job).pod.affinity).toEqual({ nodeAffinity });
    expect(podOf(job).pod.topologySpreadConstraints).toBeUndefined();
    const own = { kind: 'Deployment', namespace: releaseNamespace, name: CONTROLLER };
    await expect(renderChart(cluster, ...targets([own]))).rejects.toThrow(/cannot scale itself back/u);
  });

  it('knows Prometheus and Alertmanager from the values, with the Secrets of their credentials', async () => {
    const urls = 'checks.prometheus.url=http://prometheus:9090,checks.alertmanager.url=https://alertmanager:9093';
    const rendered = await renderChart(cluster, '--set', `${urls},checks.prometheus.secretName=token`);
    const { pod, container } = podOf(find(rendered, 'Deployment', CONTROLLER));
    expect(container.env?.filter(({ name }) => /PROMETHEUS|ALERTMANAGER/u.test(name))).toEqual([
      { name: 'PROMETHEUS_URL', value: 'http://prometheus:9090' },
      { name: 'PROMETHEUS_CREDENTIALS', value: '/etc/brupop-checks/prometheus' },
      { name: 'ALERTMANAGER_URL', value: 'https://alertmanager:9093' },
    ]);
    expect([pod.volumes, container.volumeMounts]).toEqual([
      [{ name: 'prometheus', secret: { secretName: 'token', optional: true } }],
      [{ name: 'prometheus', mountPath: '/etc/brupop-checks/prometheus', readOnly: true }],
    ]);
    const withoutUrl = await renderChart(cluster, '--set', 'checks.prometheus.secretName=token');
    expect(find(withoutUrl, 'Deployment', CONTROLLER)).toEqual(find(objects, 'Deployment', CONTROLLER));
  });

  it.each([
    [
      'self',
      ['create configmaps', 'get update brupop-ca', 'create secrets', 'get update brupop-apiserver-tls brupop-ca'],
    ],
    ['cert-manager', ['create configmaps', 'get update brupop-ca', 'get brupop-apiserver-tls']],
    ['provided', []],
  ])('may read and change only the objects of the certificate that tls.mode %s needs', async (mode, rights) => {
    const rendered = await renderChart(cluster, '--set', `tls.mode=${mode}`);
    const rules = rendered
      .filter(({ kind, metadata }) => kind === 'Role' && /-(?:agents|certificate)$/u.test(metadata.name))
      .flatMap((role) => (role as unknown as { rules: V1PolicyRule[] }).rules)
      .filter(({ resources = [] }) => resources.some((one) => one === 'configmaps' || one === 'secrets'));
    expect(
      rules.map(({ verbs, resources = [], resourceNames = resources }) => [...verbs, ...resourceNames].join(' ')),
    ).toEqual(rights);
    const issuers = rendered.filter(({ apiVersion }) => apiVersion.startsWith('cert-manager.io/'));
    expect(issuers.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual(
      mode === 'cert-manager'
        ? ['Certificate brupop-ca', 'Certificate brupop-apiserver', 'Issuer brupop-ca-root', 'Issuer brupop-ca']
        : [],
    );
  });
});

describe('the apiserver', () => {
  it('reads this environment', () => {
    expect(envOf(podFor(APISERVER))).toEqual({
      ...everyProgram,
      SERVICE_ACCOUNT_DIR: serviceAccountDir,
      LISTEN_PORT: '8443',
      TLS_CERT_FILE: '/etc/brupop-tls/tls.crt',
      TLS_KEY_FILE: '/etc/brupop-tls/tls.key',
      MAX_CONNECTIONS: '12000',
      MAX_CONNECTIONS_PER_ADDRESS: '32',
    });
  });

  it('is the only program that mounts the Secret with the private key', () => {
    const expected = {
      secretName: 'brupop-apiserver-tls',
      items: [
        { key: 'tls.crt', path: 'tls.crt' },
        { key: 'tls.key', path: 'tls.key' },
      ],
    };
    const secrets = components.flatMap(([component]) =>
      (podFor(component).pod.volumes ?? []).flatMap(({ secret }) => (secret ? [{ component, secret }] : [])),
    );
    expect(secrets).toEqual([{ component: APISERVER, secret: expected }]);
  });

  it('is reached through its Service on 443', () => {
    expect(find(objects, 'Service', APISERVER).spec).toEqual({
      selector: { [COMPONENT_LABEL]: APISERVER },
      ports: [{ name: 'https', port: 443, targetPort: 'https' }],
    });
    const https = podFor(APISERVER).container.ports?.find(({ name }) => name === 'https');
    expect(String(https?.containerPort)).toBe(envOf(podFor(APISERVER))['LISTEN_PORT']);
  });
});

describe.each([CONTROLLER, APISERVER])('the replicas of %s', (component) => {
  const selector = { matchLabels: { [COMPONENT_LABEL]: component } };

  it('can be evicted one at a time only, and always if they are not ready', async () => {
    const rendered = await renderChart(cluster, '--set', 'controller.podDisruptionBudget.enabled=true');
    expect(find(rendered, 'PodDisruptionBudget', component).spec).toEqual({
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector,
    });
  });

  it('prefer other nodes and zones than each other', () => {
    const { affinity, topologySpreadConstraints } = podFor(component).pod;
    const term = { topologyKey: 'kubernetes.io/hostname', labelSelector: selector };
    expect(affinity).toEqual({
      podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, podAffinityTerm: term }] },
    });
    expect(topologySpreadConstraints).toEqual([
      {
        maxSkew: 1,
        topologyKey: 'topology.kubernetes.io/zone',
        whenUnsatisfiable: 'ScheduleAnyway',
        labelSelector: selector,
      },
    ]);
  });
});
