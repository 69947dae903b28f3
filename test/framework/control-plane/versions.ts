/**
 * The versions of the programs of the test control plane. A change changes the name of the cache
 * folder, so all programs are obtained again.
 */
export const versions = { kubernetes: 'v1.36.3', etcd: 'v3.7.2', kwok: 'v0.8.0', helm: 'v4.2.3' } as const;

/**
 * The versions of the programs that only tests of checks need, in a cache folder of their own. The Go module of
 * Prometheus 3.16.0 has the version v0.316.0.
 */
export const monitoringVersions = { prometheus: 'v3.16.0', alertmanager: 'v0.28.1' } as const;

/** Helm 3, for tests of the takeover; the other tests use Helm 4. In a cache folder of its own. */
export const helm3Versions = { helm3: 'v3.22.0' } as const;

/** The version of the library of the program that one test needs, in a cache folder of its own. */
export const kstatusVersions = { kstatus: 'v0.37.2' } as const;

/** A registry with a client of registries, and the linter of workflows, in a cache folder of their own. */
export const releaseVersions = { crane: 'v0.22.1', actionlint: 'v1.7.12' } as const;

/**
 * The oldest Kubernetes that the operator supports; `make compat` runs the tests on it. Chart.yaml,
 * README.md and docs/support.md name its minor version.
 */
export const oldestKubernetes = 'v1.31.0';

export type Kubernetes = typeof versions.kubernetes | typeof oldestKubernetes;

export type Project =
  | keyof typeof versions
  | keyof typeof monitoringVersions
  | keyof typeof helm3Versions
  | keyof typeof kstatusVersions
  | keyof typeof releaseVersions;

export const programs = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
  'etcd',
  'kwok',
  'helm',
] as const;

export const monitoringPrograms = ['prometheus', 'promtool', 'alertmanager'] as const;

export const releasePrograms = ['crane', 'actionlint'] as const;

export type Program =
  | (typeof programs)[number]
  | (typeof monitoringPrograms)[number]
  | (typeof releasePrograms)[number]
  | 'helm3'
  | 'kstatus';

/** The path of each program. */
export type Assets = Readonly<Record<Program, string>>;

/** The project that a program comes from. */
export function projectOf(program: Program): Project {
  if (program === 'promtool') return 'prometheus';
  const isOfOwnProject = program !== 'kubectl' && !program.startsWith('kube-');
  return isOfOwnProject ? (program as Project) : 'kubernetes';
}

/** Where each project publishes its programs. */
export const publishedAt: Readonly<Record<Project, string>> = {
  kubernetes: 'https://dl.k8s.io/release',
  etcd: 'https://github.com/etcd-io/etcd/releases/download',
  kwok: 'https://github.com/kubernetes-sigs/kwok/releases/download',
  helm: 'https://get.helm.sh',
  helm3: 'https://get.helm.sh',
  prometheus: 'https://github.com/prometheus/prometheus/releases/download',
  alertmanager: 'https://github.com/prometheus/alertmanager/releases/download',
  // It is of this repository, and always built.
  kstatus: '',
  // Small enough to be always built.
  crane: '',
  actionlint: '',
};

/** One published program: paths are below the project's address. */
export interface Published {
  path: string;
  /** The program's path inside of the tar.gz that `path` is, when it is one. */
  member?: string;
  /**
   * SHA-256: a file that the project publishes (a bare sum, or lines of `sum name`), or the sum
   * where it publishes none.
   */
  checksum: { path: string } | { sum: string | undefined };
}

/**
 * SHA-256 of published programs whose project publishes no sums. One that is not listed is built
 * instead.
 */
const pinned: Readonly<Record<string, string>> = {
  'v0.8.0/kwok-linux-amd64': 'f5a4385a2ae1b9dd7f8acae18e002a75c0ebba124ae9d7259aa8dadb50711f46',
};

/** Where a program is published for a platform such as `linux`, `amd64`. */
export function publishedProgram(
  program: Program,
  os: string,
  architecture: string,
  kubernetes: Kubernetes = versions.kubernetes,
): Published {
  const project = projectOf(program);
  const version = {
    ...versions,
    ...monitoringVersions,
    ...helm3Versions,
    ...kstatusVersions,
    ...releaseVersions,
    kubernetes,
  }[project];
  if (project === 'prometheus' || project === 'alertmanager') {
    const name = `${project}-${version.slice(1)}.${os}-${architecture}`;
    const checksum = { path: `${version}/sha256sums.txt` };
    return { path: `${version}/${name}.tar.gz`, member: `${name}/${program}`, checksum };
  }
  if (program === 'etcd') {
    const name = `etcd-${version}-${os}-${architecture}`;
    return { path: `${version}/${name}.tar.gz`, member: `${name}/etcd`, checksum: { path: `${version}/SHA256SUMS` } };
  }
  if (program === 'helm' || program === 'helm3') {
    const path = `helm-${version}-${os}-${architecture}.tar.gz`;
    return { path, member: `${os}-${architecture}/helm`, checksum: { path: `${path}.sha256sum` } };
  }
  if (program === 'kwok') {
    const path = `${version}/kwok-${os}-${architecture}`;
    return { path, checksum: { sum: pinned[path] } };
  }
  const path = `${version}/bin/${os}/${architecture}/${program}`;
  return { path, checksum: { path: `${path}.sha256` } };
}

/** The folders below `modules` with what one `go build` makes. */
export const modules = [
  'etcd',
  'kubernetes',
  'oldest-kubernetes',
  'prometheus',
  'alertmanager',
  'helm3',
  'kstatus',
  'crane',
  'actionlint',
] as const;

export type Module = (typeof modules)[number];

/** How many packages Go compiles for all programs of a module when nothing is in its cache. */
export const packagesOf: Readonly<Record<Module, number>> = {
  kubernetes: 2_945,
  'oldest-kubernetes': 2_000,
  etcd: 564,
  prometheus: 0,
  alertmanager: 0,
  helm3: 965,
  kstatus: 270,
  crane: 330,
  actionlint: 110,
};

/** The module that a program is built from. */
export function moduleOf(program: Program, kubernetes: Kubernetes): Module {
  const project = projectOf(program);
  if (project !== 'kubernetes' && project !== 'kwok' && project !== 'helm') return project;
  return kubernetes === oldestKubernetes ? 'oldest-kubernetes' : 'kubernetes';
}

/** The package of a program. Its last element, without a version, is the program's name. */
export function packageOf(program: Program): string {
  if (program === 'etcd') return 'go.etcd.io/etcd/server/v3';
  if (program === 'helm') return 'helm.sh/helm/v4/cmd/helm';
  if (program === 'helm3') return 'helm.sh/helm/v3/cmd/helm';
  if (program === 'kstatus') return 'brupop.test/control-plane/kstatus';
  if (program === 'crane') return 'github.com/google/go-containerregistry/cmd/crane';
  if (program === 'actionlint') return 'github.com/rhysd/actionlint/cmd/actionlint';
  if (program === 'kwok') return 'sigs.k8s.io/kwok/cmd/kwok';
  const project = projectOf(program);
  if (project !== 'kubernetes') return `github.com/prometheus/${project}/cmd/${program}`;
  return `k8s.io/kubernetes/cmd/${program}`;
}

/** Without the discovery of clouds, which takes most of the time to build and no test needs. */
export function tagsOf(module: Module): string {
  return module === 'prometheus' ? 'remove_all_sd' : '';
}

/** The linker's flags. Without the values kube-apiserver, kubectl and client-go call themselves v0.0.0. */
export function ldflags(kubernetes: Kubernetes): string {
  const [major, minor] = kubernetes.slice(1).split('.');
  return [
    '-s -w',
    `-X k8s.io/component-base/version.gitVersion=${kubernetes}`,
    `-X k8s.io/client-go/pkg/version.gitVersion=${kubernetes}`,
    `-X k8s.io/component-base/version.gitMajor=${major}`,
    `-X k8s.io/component-base/version.gitMinor=${minor}`,
    `-X sigs.k8s.io/kwok/pkg/consts.Version=${versions.kwok}`,
  ].join(' ');
}
