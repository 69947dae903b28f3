import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { makeServingCertificate } from '../certificates.ts';

/**
 * The users of the control plane, each with a token of its own, so that the audit log distinguishes
 * them.
 */
export const users = {
  admin: { user: 'admin', groups: ['system:masters'] },
  'kube-controller-manager': { user: 'system:kube-controller-manager', groups: [] },
  'kube-scheduler': { user: 'system:kube-scheduler', groups: [] },
  kwok: { user: 'kwok', groups: ['system:masters'] },
  'stand-in-kubelet': { user: 'stand-in-kubelet', groups: ['system:masters'] },
  /** Has only the permissions of every authenticated user. */
  unprivileged: { user: 'unprivileged', groups: [] },
  /** The kubelet of the node with this name, with what the Node authorizer grants it. */
  'kubelet-of-compromised': { user: 'system:node:compromised', groups: ['system:nodes'] },
} as const satisfies Record<string, { user: string; groups: readonly string[] }>;

export type User = keyof typeof users;

export interface Identities {
  tokens: Readonly<Record<User, string>>;
  tokenFile: string;
  caFile: string;
  certFile: string;
  keyFile: string;
  serviceAccountKeyFile: string;
  serviceAccountPublicKeyFile: string;
}

/** The curve of the key that service-account tokens are signed with. */
export type SigningCurve = 'P-256' | 'P-384' | 'P-521';

/**
 * Writes the API server's certificate, the token file and the keys that service-account tokens are
 * signed with into `dir`.
 */
export function writeIdentities(dir: string, namedCurve: SigningCurve = 'P-256'): Identities {
  const file = (name: string, text: string): string => {
    const path = resolve(dir, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const names = [
    'localhost',
    'kubernetes',
    'kubernetes.default',
    'kubernetes.default.svc',
    'kubernetes.default.svc.cluster.local',
  ];
  const serving = makeServingCertificate({
    commonName: 'kube-apiserver',
    dnsNames: names,
    ipAddresses: ['127.0.0.1', '10.96.0.1'],
  });
  const signing = generateKeyPairSync('ec', { namedCurve });
  const tokens = Object.fromEntries(
    Object.keys(users).map((user) => [user, randomBytes(24).toString('hex')]),
  ) as Record<User, string>;
  const lines = (Object.keys(users) as User[]).map(
    (key) => `${tokens[key]},${users[key].user},${key},"${users[key].groups.join(',')}"`,
  );
  for (const [user, token] of Object.entries(tokens)) {
    const credentials = credentialsDir(dir, user);
    mkdirSync(credentials, { recursive: true });
    file(join(credentials, 'token'), token);
    file(join(credentials, 'ca.crt'), serving.caCert);
  }
  return {
    tokens,
    tokenFile: file('tokens.csv', `${lines.join('\n')}\n`),
    caFile: file('ca.crt', serving.caCert),
    certFile: file('apiserver.crt', serving.cert),
    keyFile: file('apiserver.key', serving.key),
    serviceAccountKeyFile: file(
      'service-accounts.key',
      signing.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    ),
    serviceAccountPublicKeyFile: file(
      'service-accounts.pub',
      signing.publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    ),
  };
}

/** The folder with `token` and `ca.crt` of a user, as a pod has it of its service account. */
export function credentialsDir(dir: string, user: string): string {
  return join(dir, 'credentials', user);
}

/** Writes a kubeconfig (JSON, which is YAML) for one user and returns its path. */
export function writeKubeconfig(dir: string, url: string, user: User, identities: Identities): string {
  const path = join(dir, `${user}.kubeconfig`);
  const kubeconfig = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [{ name: 'test', cluster: { server: url, 'certificate-authority': identities.caFile } }],
    users: [{ name: user, user: { token: identities.tokens[user] } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user } }],
  };
  writeFileSync(path, JSON.stringify(kubeconfig, undefined, 2), { mode: 0o600 });
  return path;
}
