import { existsSync } from 'node:fs';
import { join } from 'node:path';
import {
  AGENT,
  APISERVER,
  COMPONENT_LABEL,
  CONTROLLER,
  MANAGED_LABEL,
  MANAGED_LABEL_VALUE,
  TOKEN_AUDIENCE,
} from '@brupop/shared/api/names';
import { find, helm, podOf, releaseNamespace, renderChart, type Rendered } from '../../framework/chart.ts';
import { connectSharedControlPlane } from '../../framework/control-plane/shared.ts';
import { chartDir } from '../../framework/crds.ts';

const cluster = connectSharedControlPlane();
let objects: Rendered[] = [];

beforeAll(async () => {
  objects = await renderChart(cluster);
});
afterAll(async () => await cluster.close());

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
  LOG_LEVEL: 'info',
};
const serviceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount';

describe('the chart', () => {
  it('passes helm lint --strict', async () => {
    expect(await helm(cluster, 'lint', '--strict', chartDir)).toContain('0 chart(s) failed');
  });

  it.each([
    ['a misspelt value', 'logLvel=debug'],
    ['a misspelt value of a component', 'agent.updateCheckIntervalSecond=60'],
    ['an unknown log level', 'logLevel=verbose'],
    ['an interval that hammers the update repository', 'agent.updateCheckIntervalSeconds=1'],
    ['an SELinux type that may not open the socket', 'agent.seLinuxType=container_t'],
    ['no agents at a time', 'agent.maxUnavailable=0'],
    ['a percentage over 100', 'agent.maxUnavailable=101%'],
    ['a program argument in place of an option', 'controller.nodeFlags={/app/agent.mjs}'],
    ['no API server', 'apiserver.replicas=0'],
    ['a digest that is none', 'image.digest=latest'],
    ['an empty repository', 'image.repository='],
  ])('refuses %s', async (_, value) => {
    await expect(renderChart(cluster, '--set', value)).rejects.toThrow("don't meet the specifications of the schema");
  });

  it('names its image by tag, by default its own version, or by digest', async () => {
    const digest = `sha256:${'0123456789abcdef'.repeat(4)}`;
    const images = async (...args: string[]): Promise<(string | undefined)[]> => {
      const rendered = await renderChart(cluster, ...args);
      return components.map(([name, kind]) => podOf(find(rendered, kind, name)).container.image);
    };
    expect(new Set(await images())).toEqual(new Set(['bottlerocket-update-operator:0.1.0']));
    expect(new Set(await images('--set', 'image.tag=v9'))).toEqual(new Set(['bottlerocket-update-operator:v9']));
    expect(new Set(await images('--set', `image.tag=v9,image.digest=${digest}`))).toEqual(
      new Set([`bottlerocket-update-operator@${digest}`]),
    );
  });

  it('puts everything that has a namespace into the namespace of the release, except for the right to write Events', () => {
    const clusterScoped = ['CustomResourceDefinition', 'ClusterRole', 'ClusterRoleBinding'];
    const expected = ({ kind, metadata }: Rendered): string | undefined => {
      if (metadata.name === `${CONTROLLER}-events`) return 'default';
      return clusterScoped.includes(kind) ? undefined : releaseNamespace;
    };
    const misplaced = objects.filter((object) => object.metadata.namespace !== expected(object));
    expect(misplaced.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([]);
  });

  it('keeps its definitions when it is uninstalled', () => {
    const definitions = objects.filter(({ kind }) => kind === 'CustomResourceDefinition');
    expect(definitions.map(({ metadata }) => metadata.annotations?.['helm.sh/resource-policy'])).toEqual([
      'keep',
      'keep',
    ]);
  });
});

describe.each(components)('%s', (component, kind) => {
  it('labels and selects its pods by the component', () => {
    const { labels } = podFor(component);
    const selector = find(objects, kind, component).spec?.['selector'];
    expect([labels[COMPONENT_LABEL], selector]).toEqual([component, { matchLabels: { [COMPONENT_LABEL]: component } }]);
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
    const paths = Object.values(envOf(pod)).filter((value) => value.startsWith('/'));
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
      BOOT_ID_FILE: '/run/brupop/boot_id',
      TOKEN_FILE: `/var/run/secrets/tokens/${TOKEN_AUDIENCE}`,
      CA_FILE: '/etc/brupop-tls/ca.crt',
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
    expect(tolerations).toEqual([{ operator: 'Exists' }]);
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

  it('mounts only the certificate authority of the Secret', () => {
    const secrets = podFor(AGENT).pod.volumes?.flatMap(({ secret }) => (secret ? [secret] : []));
    expect(secrets).toEqual([{ secretName: 'brupop-apiserver-tls', items: [{ key: 'ca.crt', path: 'ca.crt' }] }]);
  });

  it('mounts only the socket and the boot ID of the host', () => {
    const paths = podFor(AGENT).pod.volumes?.flatMap(({ hostPath }) => (hostPath ? [hostPath] : []));
    expect(paths).toEqual([
      { path: '/run/api.sock', type: 'Socket' },
      { path: '/proc/sys/kernel/random/boot_id', type: 'File' },
    ]);
  });

  it('has the SELinux type that may open the socket', () => {
    expect(podFor(AGENT).container.securityContext?.seLinuxOptions).toEqual({
      user: 'system_u',
      role: 'system_r',
      type: 'control_t',
      level: 's0',
    });
  });

  it('is bound to no role', () => {
    const bound = objects.flatMap(({ kind, ...rest }) => (kind.endsWith('RoleBinding') ? [JSON.stringify(rest)] : []));
    expect(bound).toHaveLength(5);
    expect(bound.filter((binding) => binding.includes(AGENT) || binding.includes('"Group"'))).toEqual([]);
  });
});

describe('the controller', () => {
  it('reads this environment', () => {
    expect(envOf(podFor(CONTROLLER))).toEqual({
      ...everyProgram,
      SERVICE_ACCOUNT_DIR: serviceAccountDir,
    });
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

  it('is reached through its Service on 443', () => {
    expect(find(objects, 'Service', APISERVER).spec).toEqual({
      selector: { [COMPONENT_LABEL]: APISERVER },
      ports: [{ name: 'https', port: 443, targetPort: 'https' }],
    });
    const https = podFor(APISERVER).container.ports?.find(({ name }) => name === 'https');
    expect(String(https?.containerPort)).toBe(envOf(podFor(APISERVER))['LISTEN_PORT']);
  });

  it('allows the eviction of one replica at a time, and always of unready ones', () => {
    expect(find(objects, 'PodDisruptionBudget', APISERVER).spec).toEqual({
      maxUnavailable: 1,
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
      selector: { matchLabels: { [COMPONENT_LABEL]: APISERVER } },
    });
  });
});
