/** The one table of what the test control plane is made of. Changing it changes the cache folder's name, and so obtains anew. */
export const versions = { kubernetes: 'v1.36.3', etcd: 'v3.7.2', kwok: 'v0.8.0', helm: 'v4.3.1' } as const;

export type Project = keyof typeof versions;

export const programs = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
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
