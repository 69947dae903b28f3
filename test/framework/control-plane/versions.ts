/**
 * The versions of the programs of the test control plane. A change changes the name of the cache
 * folder, so all programs are obtained again.
 */
export const versions = { kubernetes: 'v1.36.3', etcd: 'v3.7.2', kwok: 'v0.8.0', helm: 'v4.3.1' } as const;

export type Project = keyof typeof versions;

export const programs = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
  'etcd',
  'kwok',
  'helm',
] as const;

export type Program = (typeof programs)[number];

/** The path of each program. */
export type Assets = Readonly<Record<Program, string>>;

/** The project that a program comes from. */
export function projectOf(program: Program): Project {
  return program === 'etcd' || program === 'kwok' || program === 'helm' ? program : 'kubernetes';
}

/** Where each project publishes its programs. */
export const publishedAt: Readonly<Record<Project, string>> = {
  kubernetes: 'https://dl.k8s.io/release',
  etcd: 'https://github.com/etcd-io/etcd/releases/download',
  kwok: 'https://github.com/kubernetes-sigs/kwok/releases/download',
  helm: 'https://get.helm.sh',
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
export function publishedProgram(program: Program, os: string, architecture: string): Published {
  const version = versions[projectOf(program)];
  if (program === 'etcd') {
    const name = `etcd-${version}-${os}-${architecture}`;
    return { path: `${version}/${name}.tar.gz`, member: `${name}/etcd`, checksum: { path: `${version}/SHA256SUMS` } };
  }
  if (program === 'helm') {
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

/** Without these the API server calls itself v0.0.0, and kubectl and client-go do. */
const kubernetesFlags = [
  `-X k8s.io/component-base/version.gitVersion=${versions.kubernetes}`,
  `-X k8s.io/client-go/pkg/version.gitVersion=${versions.kubernetes}`,
  `-X k8s.io/component-base/version.gitMajor=${versions.kubernetes.slice(1).split('.')[0]}`,
  `-X k8s.io/component-base/version.gitMinor=${versions.kubernetes.split('.')[1]}`,
];

/**
 * How a program is built: the folder of its Go module below `modules`, the package, the linker's
 * flags.
 */
export function buildOf(program: Program): { module: Project; package: string; ldflags: string } {
  const module = projectOf(program);
  const strip = '-s -w';
  if (module === 'etcd') return { module, package: 'go.etcd.io/etcd/server/v3', ldflags: strip };
  if (module === 'helm') return { module, package: 'helm.sh/helm/v4/cmd/helm', ldflags: strip };
  if (module === 'kwok') {
    const ldflags = `${strip} -X sigs.k8s.io/kwok/pkg/consts.Version=${versions.kwok}`;
    return { module, package: 'sigs.k8s.io/kwok/cmd/kwok', ldflags };
  }
  return { module, package: `k8s.io/kubernetes/cmd/${program}`, ldflags: [strip, ...kubernetesFlags].join(' ') };
}

/**
 * How long a build takes on two cores with nothing in Go's build cache, in seconds; the first of a
 * module builds what they share.
 */
export const buildSeconds: Readonly<Record<Program, number>> = {
  'kube-apiserver': 170,
  'kube-controller-manager': 50,
  'kube-scheduler': 15,
  kubectl: 20,
  etcd: 20,
  kwok: 60,
  helm: 95,
};
