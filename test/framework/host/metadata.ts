/**
 * What a host tells about its settings: which services a setting affects, and how they restart. The
 * tables are those of the variants aws-k8s-* of Bottlerocket 1.26 (`sources/shared-defaults` of
 * bottlerocket-os/bottlerocket).
 */
import { joinKey, splitKey } from './settings.ts';

/** A service as `GET /services` has it. */
export interface Service {
  readonly 'configuration-files': readonly string[];
  readonly 'restart-commands': readonly string[];
}

/** A restart command that ran because a setting of its service was applied. */
export interface Restart {
  readonly service: string;
  readonly command: string;
}

function service(files: string, ...commands: string[]): Service {
  return { 'configuration-files': files.split(' '), 'restart-commands': commands };
}

const KUBELET_FILES =
  'kubelet-env kubelet-config kubelet-kubeconfig kubelet-bootstrap-kubeconfig kubelet-exec-start-conf ' +
  'kubernetes-ca-crt proxy-env kubelet-server-crt kubelet-server-key credential-provider-config-yaml';

const SERVICES: Readonly<Record<string, Service>> = {
  'autoscaling-warm-pool': service('warm-pool-wait-toml'),
  aws: service('aws-config aws-credentials'),
  bootconfig: service('prairiedog-toml', '/usr/bin/prairiedog generate-boot-config'),
  'bootstrap-commands': service('bootstrap-commands-toml'),
  'bootstrap-containers': service(
    'host-ctr-toml bootstrap-containers-toml',
    '/usr/bin/bootstrap-containers create-containers',
  ),
  cfsignal: service('cfsignal-toml', '/bin/systemctl try-restart cfsignal.service'),
  containerd: service('containerd-config-toml proxy-env', '/bin/systemctl try-restart containerd.service'),
  dns: service('netdog-toml', 'netdog write-resolv-conf'),
  'host-containerd': service('proxy-env', '/bin/systemctl try-restart host-containerd.service'),
  'host-containers': service('host-ctr-toml host-containers-toml', '/usr/bin/host-containers'),
  hostname: service('hostname', '/bin/systemctl try-restart set-hostname.service'),
  hosts: service('hosts'),
  'kernel-modules': service('modprobe-conf modules-load', '/usr/bin/systemctl try-restart systemd-modules-load'),
  kubernetes: service(KUBELET_FILES, '/usr/bin/systemctl try-restart kubelet.service'),
  lockdown: service('corndog-toml', '/usr/bin/corndog lockdown'),
  motd: service('motd'),
  ntp: service('chrony-conf', '/bin/systemctl try-reload-or-restart chronyd.service'),
  'oci-defaults': service('oci-defaults'),
  'oci-hooks': service('oci-hooks'),
  pki: service('certdog-toml', '/usr/bin/certdog'),
  'static-pods': service('static-pods-toml', '/usr/bin/static-pods'),
  sysctl: service('corndog-toml', '/usr/bin/corndog sysctl'),
  'thar-be-updates': service('thar-be-updates-toml'),
  updog: service('updog-toml'),
};

/** Settings without a row, such as `settings.metrics`, have no metadata. */
const AFFECTED: Readonly<Record<string, string>> = {
  'settings.autoscaling': 'autoscaling-warm-pool',
  'settings.aws': 'aws',
  'settings.aws.profile': 'kubernetes',
  'settings.boot': 'bootconfig',
  'settings.bootstrap-commands': 'bootstrap-commands',
  'settings.bootstrap-containers': 'bootstrap-containers',
  'settings.cloudformation': 'cfsignal',
  'settings.container-registry': 'containerd host-containers bootstrap-containers',
  'settings.container-runtime': 'containerd',
  'settings.dns': 'dns',
  'settings.host-containers': 'host-containers',
  'settings.kernel.lockdown': 'lockdown',
  'settings.kernel.modules': 'kernel-modules',
  'settings.kernel.sysctl': 'sysctl',
  'settings.kubernetes': 'kubernetes',
  'settings.kubernetes.static-pods': 'static-pods',
  'settings.motd': 'motd',
  'settings.network': 'containerd kubernetes host-containerd host-containers updog',
  'settings.network.hostname': 'hostname hosts',
  'settings.network.hosts': 'hosts',
  'settings.ntp': 'ntp',
  'settings.oci-defaults': 'oci-defaults containerd',
  'settings.oci-hooks': 'oci-hooks',
  'settings.pki': 'pki containerd',
  'settings.updates': 'updog thar-be-updates',
};

/** What the variants with NVIDIA drivers add. */
const NVIDIA_SERVICES: typeof SERVICES = {
  'nvidia-container-toolkit': service('nvidia-container-toolkit'),
  'nvidia-k8s-device-plugin': service(
    'nvidia-k8s-device-plugin-conf nvidia-k8s-device-plugin-exec-start-conf',
    '/bin/systemctl try-reload-or-restart nvidia-k8s-device-plugin.service',
  ),
};
const NVIDIA_AFFECTED: typeof AFFECTED = {
  'settings.kubelet-device-plugins.nvidia': 'nvidia-k8s-device-plugin',
  'settings.nvidia-container-runtime': 'nvidia-container-toolkit',
};

/** The metadata of a variant. */
export class Metadata {
  readonly services: ReadonlyMap<string, Service>;
  readonly #affected: ReadonlyMap<string, string>;

  constructor(variant: string) {
    const nvidia = variant.endsWith('-nvidia');
    this.services = new Map(Object.entries({ ...SERVICES, ...(nvidia && NVIDIA_SERVICES) }));
    this.#affected = new Map(Object.entries({ ...AFFECTED, ...(nvidia && NVIDIA_AFFECTED) }));
  }

  /** The names of the services that the nearest key with metadata has: the setting's or one above it. */
  affectedServices(key: string): string[] | undefined {
    const segments = splitKey(key);
    for (let length = segments.length; length > 0; length -= 1) {
      const services = this.#affected.get(joinKey(segments.slice(0, length)));
      if (services !== undefined) return services.split(' ');
    }
    return undefined;
  }

  /** What runs when these settings are applied: each service restarts once. */
  restarts(keys: readonly string[]): Restart[] {
    const names = new Set(keys.flatMap((key) => this.affectedServices(key) ?? []));
    return [...names].flatMap((name) =>
      (this.services.get(name)?.['restart-commands'] ?? []).map((command) => ({ service: name, command })),
    );
  }
}
