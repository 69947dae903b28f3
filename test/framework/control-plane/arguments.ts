import type { Identities, SigningCurve } from './identities.ts';

export type AuditLevel = 'None' | 'Metadata' | 'Request' | 'RequestResponse';

/** Options of a control plane. */
export interface ControlPlaneOptions {
  /** What the audit log keeps of every request; default `Metadata`. */
  auditLevel?: AuditLevel;
  /**
   * How long a node may miss its heartbeats before it counts as Unknown, in seconds; default 40.
   */
  nodeMonitorGracePeriod?: number;
  /** The curve of the key that service-account tokens are signed with; default P-256. */
  signingCurve?: SigningCurve;
  /** Whether the Leases of nodes are renewed; default true. */
  renewsLeases?: boolean;
  /** Further flags of kube-apiserver, such as `--v=6`. */
  apiserverFlags?: readonly string[];
  /** Further flags of kube-controller-manager. */
  controllerManagerFlags?: readonly string[];
}

export interface Ports {
  etcd: number;
  etcdPeer: number;
  apiserver: number;
}

/** The issuer of the service-account tokens. */
export const issuer = 'https://kubernetes.default.svc.cluster.local';

export function etcdArguments(ports: Ports): string[] {
  const client = `http://127.0.0.1:${ports.etcd}`;
  const peer = `http://127.0.0.1:${ports.etcdPeer}`;
  return [
    '--name=test',
    '--data-dir=etcd',
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=test=${peer}`,
    '--unsafe-no-fsync',
    '--quota-backend-bytes=4294967296',
    '--auto-compaction-mode=revision',
    '--auto-compaction-retention=100000',
  ];
}

export function apiserverArguments(ports: Ports, identities: Identities, options: ControlPlaneOptions): string[] {
  return [
    `--etcd-servers=http://127.0.0.1:${ports.etcd}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${ports.apiserver}`,
    '--endpoint-reconciler-type=none',
    '--service-cluster-ip-range=10.96.0.0/16',
    `--tls-cert-file=${identities.certFile}`,
    `--tls-private-key-file=${identities.keyFile}`,
    `--token-auth-file=${identities.tokenFile}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged=true',
    // Where the stand-in kubelet serves logs; the other addresses of nodes lead nowhere.
    '--kubelet-preferred-address-types=ExternalIP',
    `--service-account-issuer=${issuer}`,
    `--api-audiences=${issuer}`,
    `--service-account-key-file=${identities.serviceAccountPublicKeyFile}`,
    `--service-account-signing-key-file=${identities.serviceAccountKeyFile}`,
    '--audit-policy-file=audit-policy.json',
    '--audit-log-path=audit.log',
    '--profiling=false',
    ...(options.apiserverFlags ?? []),
  ];
}

export function controllerManagerArguments(
  kubeconfig: string,
  identities: Identities,
  options: ControlPlaneOptions,
): string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    '--secure-port=0',
    '--leader-elect=false',
    '--use-service-account-credentials=true',
    `--service-account-private-key-file=${identities.serviceAccountKeyFile}`,
    `--root-ca-file=${identities.caFile}`,
    '--node-monitor-period=1s',
    `--node-monitor-grace-period=${options.nodeMonitorGracePeriod ?? 40}s`,
    ...(options.controllerManagerFlags ?? []),
  ];
}

export function schedulerArguments(kubeconfig: string): string[] {
  return [`--kubeconfig=${kubeconfig}`, '--secure-port=0', '--leader-elect=false'];
}

/** KWOK does not renew the leases of the nodes; see `node-leases.ts`. */
export function kwokArguments(kubeconfig: string, nodeSelector: string): string[] {
  return [
    `--kubeconfig=${kubeconfig}`,
    '--config=kwok.yaml',
    `--manage-nodes-with-annotation-selector=${nodeSelector}`,
    '--cidr=10.128.0.0/10',
    '--node-lease-duration-seconds=0',
  ];
}

/** Every request is logged once, when it is answered. */
export function auditPolicy(level: AuditLevel): string {
  return JSON.stringify({
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    omitStages: ['RequestReceived'],
    rules: [{ level }],
  });
}
